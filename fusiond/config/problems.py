"""
A problem of the file.

It holds the line that it is about: a program that reports it, such as a daemon that refuses a reload, needs no file.
How problems are printed: `lint/reports.py`. Standard library only.
"""

import dataclasses
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Severity = Literal["error", "warning"]
#: file, line and column
Spot: TypeAlias = tuple[str, int, int]

#: fields that may quote a URL
_MASKED = ("message", "excerpt", "detail")
_PASSWORD = re.compile(r"(://[^/\s:@'\"]*:)[^\s'\"]+(?=@)")
_IN_QUERY = re.compile(r"([?&](?:ssl)?password=)[^&\s'\"]+")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong, where, and what to do. Sorts by place."""

    file: str
    #: from 1; 0: the problem is about the whole file
    line: int
    #: from 1, in characters
    column: int
    severity: Severity
    #: stable, such as `unknown-queue`
    code: str
    #: one sentence without its full stop: what is wrong, with the value
    message: str
    #: what to write or do instead; may be empty
    remedy: str = ""
    #: characters that the caret underlines
    width: int = 1
    #: the source line
    excerpt: str = ""
    #: what is too long for a sentence, such as a traceback; several lines, may be empty
    detail: str = ""

    @property
    def is_error(self) -> bool:
        """Whether the file cannot be used."""
        return self.severity == "error"

    @property
    def spot(self) -> Spot:
        """Where it is: equal for problems of the same place."""
        return self.file, self.line, self.column

    @property
    def place(self) -> str:
        """file:line:column, or the file alone."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def sentence(self) -> str:
        """What is wrong and what to do, on one line that is safe to print."""
        return visible(mask("; ".join(part for part in (self.message, self.remedy) if part)))

    def to_dict(self) -> dict[str, Any]:
        """The problem as plain data, its fields by name; the passwords of URLs are masked."""
        return dataclasses.asdict(self) | {name: mask(getattr(self, name)) for name in _MASKED}


def mask(text: str) -> str:
    """`text` with the password of each URL in it as `***`."""
    return _IN_QUERY.sub(r"\1***", _PASSWORD.sub(r"\1***", text)) if "://" in text else text


def visible(text: str) -> str:
    """`text` with control characters replaced, so that a file cannot drive the terminal."""
    return "".join(char if char.isprintable() else " " if char == "\t" else "�" for char in text)


def columns(text: str) -> int:
    """The terminal columns that `text` takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
