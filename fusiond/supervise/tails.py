"""The file with the last lines of a program's log, which `supervisorctl tail` opens too."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: lines that `fusiond status` shows of a program that is down, and characters of a line
LINES, WIDTH = 5, 300
#: bytes that are read for them
_READ = 8192


def last_lines(tail: Path | None) -> tuple[str, ...]:
    """The last lines that a program logged; none if there is no file."""
    if tail is None:
        return ()
    try:
        with tail.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _READ))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    return tuple(line[:WIDTH] for line in text.splitlines()[-LINES:])


def remove_tail(tail: Path | None) -> None:
    """Remove the file of a program that is not wanted any more; if that fails, leave it."""
    if tail is not None:
        with contextlib.suppress(OSError):
            tail.unlink(missing_ok=True)
