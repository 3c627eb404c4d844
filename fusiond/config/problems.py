"""
A problem of the file, and its faces: text with a caret, JSON.

A problem carries the line that it is about, so that whoever prints it (the linter, a refused reload) needs no file.
Standard library only.
"""

from __future__ import annotations

import dataclasses
import json
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Severity = Literal["error", "warning"]

#: columns of a source line that the text face shows
_EXCERPT = 160
#: fields that may quote a URL
_MASKED = ("message", "excerpt", "detail")
_PASSWORD = re.compile(r"(://[^/\s:@'\"]*:)[^\s'\"]+(?=@)")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong, where, and what to do. Sorts by place."""

    file: str
    #: from 1; 0 where the whole file is meant
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
    #: what is too long for a sentence, such as a traceback; lines, may be empty
    detail: str = ""

    @property
    def is_error(self) -> bool:
        """Whether the file cannot be used."""
        return self.severity == "error"

    def to_dict(self) -> dict[str, Any]:
        """The problem as plain data; the passwords of URLs are masked."""
        return dataclasses.asdict(self) | {name: mask(getattr(self, name)) for name in _MASKED}

    @staticmethod
    def from_dict(content: dict[str, Any]) -> Problem:
        """The problem that `to_dict` gave."""
        return Problem(**content)

    @property
    def place(self) -> str:
        """file:line:column, or the file alone."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def sentence(self) -> str:
        """What is wrong and what to do, on one line, fit to be shown."""
        return visible(mask("; ".join(part for part in (self.message, self.remedy) if part)))

    def __str__(self) -> str:
        return f"{self.place}: {self.severity}: {self.sentence}   [{self.code}]"


def mask(text: str) -> str:
    """`text` with the password of each URL in it as `***`."""
    return _PASSWORD.sub(r"\1***", text) if "://" in text else text


def as_text(problems: Sequence[Problem], paint: Callable[[str, str], str] | None = None) -> str:
    """
    For people: each problem, its line and a caret, sorted by place.

    Args:
        problems: in any order.
        paint: (text, severity or `dim`) → the text in that colour; None: no colour.
    """
    return "\n".join(_with_excerpt(problem, paint or _plain) for problem in sorted(problems))


def _plain(text: str, _colour: str) -> str:
    return text


def as_json(problems: Sequence[Problem]) -> str:
    """For programs: an array of objects, sorted by place."""
    return json.dumps([problem.to_dict() for problem in sorted(problems)], ensure_ascii=False, indent=2)


def _with_excerpt(problem: Problem, paint: Callable[[str, str], str]) -> str:
    severity, code = paint(problem.severity, problem.severity), paint(f"[{problem.code}]", "dim")
    lines = [f"{problem.place}: {severity}: {problem.sentence}   {code}"]
    if problem.line and problem.excerpt.strip():
        lines += _excerpt(problem, paint)
    return "\n".join([*lines, *(f"      | {visible(line)}" for line in mask(problem.detail).splitlines())])


def _excerpt(problem: Problem, paint: Callable[[str, str], str]) -> tuple[str, str]:
    """The line that it is about, and the caret beneath."""
    before = mask(problem.excerpt[: problem.column - 1])
    line = mask(problem.excerpt)
    # A far-away mistake is brought into view; the caret moves with it.
    cut = max(0, len(before) + problem.width - _EXCERPT) if len(line) > _EXCERPT else 0
    cut = min(cut, len(before))
    shown, before = line[cut : cut + _EXCERPT], before[cut:]
    width = max(1, min(problem.width, len(shown) - len(before)))
    gutter = f"{problem.line:>5} | "
    caret = "^" * max(1, columns(shown[len(before) : len(before) + width]))
    return gutter + visible(shown), " " * (len(gutter) + columns(before)) + paint(caret, problem.severity)


def visible(text: str) -> str:
    """`text` with control characters replaced, so that a file cannot drive the terminal."""
    return "".join(char if char.isprintable() else " " if char == "\t" else "�" for char in text)


def columns(text: str) -> int:
    """The terminal columns that `text` takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
