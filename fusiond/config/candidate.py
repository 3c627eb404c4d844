"""
The helper process of a reload, and of a plan, which writes nothing: `python -P -m fusiond.config.candidate REQUEST`.

The request is a JSON object: `version`, the daemon's; `file`, `development` (whether it is read as `fusiond dev` reads
it); and `out` and `generation` for the candidate snapshot, or `against`, the snapshot to compare with.

0. check  that this is the daemon's own version: another one may have been installed in its place meanwhile
1. load   the file, as strictly as this machine needs
2. write  the candidate snapshot, if there is no error; or compare with what runs
3. print  one JSON object: {"hash", "problems", "files", "stats", "state_directory", "effects", "environment_files",
          "places"}. The hash is empty if the file cannot be used or the snapshot not be written; files are patterns of
          what to watch; stats say what each file was when it was read; environment files are a digest for each group;
          places say where some keys are written

To read a file may take long (a slow disk, a hostile file), and the supervisor's loop must not wait for it.
"""

import contextlib
import glob
import json
import os
import pwd
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import fusiond
from fusiond.config import environment_files
from fusiond.config.accepted.plan import at_start, effects
from fusiond.config.accepted.snapshot import content_hash, read_snapshot, write
from fusiond.config.build import directory
from fusiond.config.lint.machine import looked_up
from fusiond.config.load import load
from fusiond.config.model import Broker, Config, Logging, Outbox
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node, tell_apart

# Python knows compiled code by the size and the second of its source: a file that is saved twice within a second, with
# the same size, would run as it was before.
_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}


def main() -> None:
    """Load, write, print."""
    request = json.loads(sys.argv[1])
    if request["version"] != fusiond.__version__:
        json.dump({"problems": [_replaced(request["version"]).to_dict()]}, sys.stdout)
        return
    file, development = Path(request["file"]), request["development"]
    loaded = load(file, environ=os.environ, to_run=not development)
    root, config, problems = loaded.tree.root, loaded.config, [*loaded.problems]
    if development and root is not None and config is not None:
        problems += [_left_out(root, name) for name in config.outboxes.keys() - _own_outboxes(config)]
        # What this machine lacks, such as users of another machine, does not matter to a developer.
        config = _development(config, root=os.geteuid() == 0)
    digest, found = "", None
    if config is not None and "against" in request:
        digest = content_hash(config)
        found = asdict(effects(read_snapshot(request["against"]).config, config))
    elif config is not None:
        try:
            source = str(file.absolute())
            digest = write(Path(request["out"]), config, generation=request["generation"], source=source).hash
        except OSError as error:
            message = f"the snapshot cannot be written: {(error.strerror or str(error)).lower()}"
            remedy = "make room, or make the directory writable"
            problems.append(Problem(request["out"], 0, 0, "error", "unwritable", message, remedy))
    json.dump(
        {
            "hash": digest,
            "problems": [problem.to_dict() for problem in problems],
            "files": [*(glob.escape(str(path)) for path in loaded.tree.files), *loaded.tree.globs],
            "stats": {str(path): tell_apart(stat) for path, stat in loaded.tree.stats.items()},
            # The key of the file, whatever else is wrong with the file.
            "state_directory": directory(root, "state_directory"),
            "effects": found,
            "environment_files": _environment_files(config) if config is not None else {},
            "places": _places(root, config) if root is not None and config is not None else {},
        },
        sys.stdout,
    )


def _replaced(version: str) -> Problem:
    message = f"the daemon runs fusiond {version}, and {fusiond.__version__} was installed in its place"
    return Problem("fusiond", 0, 0, "error", "replaced", message, "restart the daemon; until then it keeps its file")


def _left_out(root: Node, outbox: str) -> Problem:
    message = f"fusiond dev does not run outbox {outbox!r}: its database may be that of production"
    file, line, column = root.nearest("outboxes", outbox).spot
    return Problem(file, line, column, "warning", "left-out", message, "use a `url` of SQLite for development")


def _own_outboxes(config: Config) -> dict[str, Outbox]:
    """Those in SQLite: in another database the rows of production could be taken."""
    return {name: each for name, each in config.outboxes.items() if (each.url or "").startswith("sqlite:")}


def _development(config: Config, *, root: bool) -> Config:
    """
    Every group with one child, the embedded broker, text logs on standard output; a saved file takes effect by itself.

    Args:
        config: what the file says.
        root: whether the daemon may become other users. If not, or if there is no such user, a group runs as the
            daemon's.
    """
    workers = {
        name: replace(
            group,
            processes=min(group.processes, 1),
            scaling=None,
            user=group.user if root and group.user and looked_up(pwd.getpwnam, group.user) else None,
            environment={**_NO_BYTECODE, **group.environment},
        )
        for name, group in config.workers.items()
    }
    return replace(
        config,
        broker=Broker(namespace=config.broker.namespace),
        workers=workers,
        outboxes=_own_outboxes(config),
        logging=Logging(level=config.logging.level, jobs=config.logging.jobs),
        watch=True,
    )


def _environment_files(config: Config) -> dict[str, str]:
    """Group → digest of its environment files as they are now, without those that cannot be read now."""
    found = {}
    for name, group in config.workers.items():
        with contextlib.suppress(OSError):
            found[name] = environment_files.digest(environment_files.read(group.environment_file))
    return found


def _places(root: Node, config: Config) -> dict[str, tuple[str, int, int]]:
    """Key → file, line and column: of each task's `run`, and of each key that a reload may refuse to change."""
    keys: list[tuple[str, ...]] = [("tasks", name, "run") for name in config.tasks]
    keys += [key for section in at_start() for key in _keys(getattr(config, section), section)]
    return {".".join(key): root.nearest(*key).spot for key in keys}


def _keys(value: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The keys of a section, and of the maps in it, whether the file has them or not."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _keys(getattr(value, field.name), *path, field.name)
    else:
        yield path


if __name__ == "__main__":
    main()
