"""What is to be imported, and how. A file may be hostile: it is read up to a limit, and never run."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fusiond.errors import FusionError

STDIN: Final = "-"
MAX_BYTES: Final = 2**20
#: what no text file has
_BINARY: Final = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the command line says beside the files."""

    #: of schedules that say no zone
    timezone: str | None = None
    #: of files with a section for each, such as those of Rails
    environment: str = "production"
    #: crontab: each line names a user; None: that is found out
    has_users: bool | None = None
    #: of an application: its interpreter, by default ours, and its directory
    python: str | None = None
    directory: str = "."
    #: read the source of an application, for the names of its tasks, and run nothing
    static: bool = False


@dataclass(frozen=True, slots=True)
class SourceText:
    """One file."""

    #: as the user named it
    name: str
    text: str


class ImportRefused(FusionError):
    """A file cannot be imported: it is not text, too large, or not of the form that was named."""


def text_of(name: str) -> str:
    """
    The text of the file of this name; `-` is standard input.

    Raises:
        OSError: it cannot be read.
        ImportRefused: it is too large, or no text.
    """
    if name == STDIN:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        with Path(name).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ImportRefused(f"{name} is larger than {MAX_BYTES >> 20} MiB, which no configuration is; name another")
    if _BINARY.search(data):
        raise ImportRefused(f"{name} is not a text file; name the configuration itself")
    try:
        return data.decode().removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise ImportRefused(f"{name} is not UTF-8 (byte {error.start}); convert it with iconv") from error
