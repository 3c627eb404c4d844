"""
The helper process of a reload: `python -P -m fusiond.config.candidate FILE --out PATH --generation N`; and of a plan,
which writes nothing: `… FILE --against SNAPSHOT`. With `--dev` the file is read as `fusiond dev` reads it.

1. load   the file, as strictly as this machine needs
2. write  the candidate snapshot, if there is no error; or compare with what runs
3. print  one JSON object: {"hash", "problems", "files", "stats", "state_directory", "effects", "environment_files",
          "places"}. The hash is empty if the file cannot be used or the snapshot not be written; files are patterns of
          what to watch; stats say what each file was when it was read; environment files are a digest for each group;
          places say where some keys are written

To read a file may take long (a slow disk, a hostile file), and the supervisor's loop must not wait for it.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import json
import os
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusiond.config import environment_files
from fusiond.config.accepted.plan import at_start, effects
from fusiond.config.accepted.snapshot import content_hash, read_snapshot, write
from fusiond.config.build import directories
from fusiond.config.development import development
from fusiond.config.load import load
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import tell_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Config
    from fusiond.config.yaml.nodes import Node


def main() -> None:
    """Load, write, print."""
    parser = argparse.ArgumentParser(prog="fusiond.config.candidate")
    parser.add_argument("file", type=Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path)
    what.add_argument("--against", type=Path)
    parser.add_argument("--generation", type=int, default=1)
    parser.add_argument("--dev", action="store_true")
    options = parser.parse_args()

    loaded = load(options.file, environ=os.environ, to_run=not options.dev)
    root, config, problems = loaded.root, loaded.config, [*loaded.problems]
    if options.dev and config is not None:
        # What this machine lacks, such as users of another machine, does not matter to a developer.
        config = development(config, root=os.geteuid() == 0)
    digest, found = "", None
    if options.against and config is not None:
        digest = content_hash(config)
        found = effects(read_snapshot(options.against).config, config).to_dict()
    elif config is not None:
        try:
            source = str(options.file.absolute())
            digest = write(options.out, config, generation=options.generation, source=source).hash
        except OSError as error:
            message = f"the snapshot cannot be written: {(error.strerror or str(error)).lower()}"
            remedy = "make room, or make the directory writable"
            problems.append(Problem(str(options.out), 0, 0, "error", "unwritable", message, remedy))
    json.dump(
        {
            "hash": digest,
            "problems": [problem.to_dict() for problem in problems],
            "files": [*(glob.escape(str(path)) for path in loaded.files), *loaded.globs],
            "stats": {str(path): tell_apart(stat) for path, stat in loaded.stats.items()},
            # The key of the file, whatever else is wrong with the file.
            "state_directory": directories(root).state_directory if root is not None else None,
            "effects": found,
            "environment_files": _environment_files(config) if config is not None else {},
            "places": _places(root, config) if root is not None and config is not None else {},
        },
        sys.stdout,
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
