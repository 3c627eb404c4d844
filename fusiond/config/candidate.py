"""
The helper process of a reload: `python -P -m fusiond.config.candidate FILE --out PATH --generation N`; and of a plan,
which stops short of one: `… FILE --against SNAPSHOT`. With `--dev` the file is taken as `fusiond dev` takes it.

1. load   the file, as strictly as this machine needs
2. write  the candidate snapshot, if there is no error; or compare with what runs
3. print  {"hash", "problems", "files", "stats", "state_directory", "effects", "environment_files", "places"} as
          JSON: the files are patterns of what to watch, the stats what each was when it was read, the environment files
          a digest for each group, the places where some keys stand

Reading a file may take long (a slow disk, a hostile file), and the supervisor's loop must not wait for it.
Exit status: 0 usable, 1 problems with errors, 2 the file cannot be read or the snapshot not be written.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import json
import os
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusiond.config import environment_files
from fusiond.config.accepted.diff import at_start
from fusiond.config.accepted.effects import effects
from fusiond.config.accepted.snapshot import content_hash, read_snapshot, write
from fusiond.config.build import directories
from fusiond.config.development import development
from fusiond.config.load import load
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import tell_apart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fusiond.config.load import Loaded


def main(argv: Sequence[str] | None = None) -> int:
    """Load, write, print."""
    parser = argparse.ArgumentParser(prog="fusiond.config.candidate")
    parser.add_argument("file", type=Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path)
    what.add_argument("--against", type=Path)
    parser.add_argument("--generation", type=int, default=1)
    parser.add_argument("--dev", action="store_true")
    options = parser.parse_args(argv)

    loaded = load(options.file, environ=os.environ, to_run=not options.dev)
    if options.dev and loaded.config:
        # What this machine has not, such as the users of another, concerns nobody who develops on it.
        loaded = replace(loaded, config=development(loaded.config, root=os.geteuid() == 0))
    digest, found, problems = None, None, [*loaded.problems]
    if options.against:
        digest, found = _compare(loaded, options.against)
    else:
        digest, failed = _write(loaded, options.file, options.out, options.generation)
        problems += failed
    json.dump(
        {
            "hash": digest,
            "problems": [problem.to_dict() for problem in problems],
            "files": [*(glob.escape(str(path)) for path in loaded.files), *loaded.globs],
            "stats": {str(path): tell_apart(found) for path, found in loaded.stats.items()},
            "state_directory": _state_directory(loaded),
            "effects": found,
            "environment_files": _environment_files(loaded),
            "places": _places(loaded),
        },
        sys.stdout,
    )
    if any(problem.code in ("unreadable", "unwritable") for problem in problems):
        return 2
    return 0 if digest else 1


def _write(loaded: Loaded, file: Path, out: Path, generation: int) -> tuple[str | None, list[Problem]]:
    """The candidate's hash, or why there is none."""
    if loaded.config is None:
        return None, []
    try:
        return write(out, loaded.config, generation=generation, source=str(file.absolute())).hash, []
    except OSError as error:
        reason = f"the snapshot cannot be written: {(error.strerror or str(error)).lower()}"
        return None, [Problem(str(out), 0, 0, "error", "unwritable", reason, "make room, or the directory writable")]


def _state_directory(loaded: Loaded) -> str | None:
    """Where the file puts it, whatever else is wrong with it."""
    return directories(loaded.root).state_directory if loaded.root is not None else None


def _environment_files(loaded: Loaded) -> dict[str, str]:
    """Group → digest of its environment files as they are now; without those that cannot be read now."""
    found = {}
    for name, group in loaded.config.workers.items() if loaded.config else ():
        with contextlib.suppress(OSError):
            found[name] = environment_files.digest(environment_files.read(group.environment_file))
    return found


def _places(loaded: Loaded) -> dict[str, tuple[str, int, int]]:
    """Key → file, line and column: of each task's `run`, and of what a reload may refuse to change."""
    if loaded.root is None or loaded.config is None:
        return {}
    keys: dict[str, tuple[str, ...]] = {f"tasks.{name}.run": ("tasks", name, "run") for name in loaded.config.tasks}
    for section in at_start():
        keys |= {".".join(key): key for key in _keys(getattr(loaded.config, section), section)}
    places = {name: loaded.root.nearest(*key) for name, key in keys.items()}
    return {name: (place.source.name, place.line, place.column) for name, place in places.items()}


def _keys(value: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The keys of a section, and of the mappings in it, whether the file has them or not."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _keys(getattr(value, field.name), *path, field.name)
    else:
        yield path


def _compare(loaded: Loaded, running: Path) -> tuple[str | None, dict[str, Any] | None]:
    """The hash of what the file says, and what its reload would mean; nothing is written."""
    if loaded.config is None:
        return None, None
    return content_hash(loaded.config), effects(read_snapshot(running).config, loaded.config).to_dict()


if __name__ == "__main__":
    sys.exit(main())
