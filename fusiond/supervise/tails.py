"""The file with the last lines of a program's log, which `supervisorctl tail` opens too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: lines that `fusiond status` shows of a program that is down, and characters of a line
LINES, WIDTH = 5, 300
#: bytes that are read for these lines
_READ = 8192


def last_lines(tail: Path) -> tuple[str, ...]:
    """The last lines that a program logged; none if there is no file."""
    try:
        with tail.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _READ))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    return tuple(line[:WIDTH] for line in text.splitlines()[-LINES:])
