"""
The helper process of a reload: `python -P -m fusiond.config.candidate FILE --out PATH --generation N`.

1. load   the file, as strictly as this machine needs
2. write  the candidate snapshot, if there is no error
3. print  {"hash", "problems", "files"} as JSON; the files are what to watch, patterns of `include:` among them

Reading a file may take long (a slow disk, a hostile file), and the supervisor's loop must not wait for it.
Exit status: 0 usable, 1 problems with errors, 2 the file cannot be read or the snapshot not be written.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond.config.load import load
from fusiond.config.problems import Problem
from fusiond.config.snapshot import write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusiond.config.load import Loaded


def main(argv: Sequence[str] | None = None) -> int:
    """Load, write, print."""
    parser = argparse.ArgumentParser(prog="fusiond.config.candidate")
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--generation", type=int, required=True)
    options = parser.parse_args(argv)

    loaded = load(options.file, environ=os.environ, to_run=True)
    digest, failed = _write(loaded, options.file, options.out, options.generation)
    problems = [*loaded.problems, *failed]
    json.dump(
        {
            "hash": digest,
            "problems": [problem.to_dict() for problem in problems],
            "files": [*map(str, loaded.files), *loaded.globs],
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


if __name__ == "__main__":
    sys.exit(main())
