"""
The files that a configuration is made of, with each problem under its line.

1. read    each file in which a problem is, as it is now
2. place   the problems whose line still says what it said; the others have no place, and are told without
3. cut     of a large file, what is far from a problem
4. hide    what may be a secret
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fusiond.config.problems import mask
from fusiond.config.secrets import censored
from fusiond.config.yaml.source import MAX_BYTES, RefusedText, source_of

#: characters of a line that are shown
_LINE: Final = 2000
#: lines of a file that is shown as a whole, and around a problem of a longer one
_WHOLE: Final = 800
_AROUND: Final = 40


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """Something wrong with the file."""

    file: str
    line: int
    column: int
    #: characters that it is about
    width: int
    severity: str
    code: str
    message: str
    remedy: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line of a file."""

    #: from 1; one that does not follow the line before was left out with others
    number: int
    text: str
    #: what is wrong with it
    problems: list[ProblemRow]


@dataclass(frozen=True, slots=True)
class FileText:
    """A file, or the parts of it around its problems."""

    name: str
    lines: list[FileLine]
    #: how many lines it has
    length: int


def placed(problems: Sequence[ProblemRow]) -> tuple[list[FileText], list[ProblemRow]]:
    """The files with their problems, and the problems that have no place in them."""
    texts: list[FileText] = []
    others: list[ProblemRow] = []
    for name in dict.fromkeys(problem.file for problem in problems):
        own = [problem for problem in problems if problem.file == name]
        lines = _lines(Path(name))
        fitting = [problem for problem in own if _fits(problem, lines)]
        others += [problem for problem in own if problem not in fitting]
        if fitting:
            texts.append(FileText(name, [*_shown(lines, fitting)], len(lines)))
    return texts, others


def _lines(path: Path) -> list[str]:
    """Of a text that can be read; otherwise none."""
    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        return [line[:_LINE] for line in source_of(str(path), path.parent, data).lines]
    except (OSError, ValueError, RefusedText):
        return []


def _fits(problem: ProblemRow, lines: Sequence[str]) -> bool:
    """Whether the line is still the one that the problem is about."""
    if not 0 < problem.line <= len(lines):
        return False
    return not problem.excerpt or "*" in problem.excerpt or mask(lines[problem.line - 1]) == problem.excerpt


def _shown(lines: Sequence[str], problems: Sequence[ProblemRow]) -> Iterator[FileLine]:
    wrong: dict[int, list[ProblemRow]] = {}
    for problem in problems:
        wrong.setdefault(problem.line, []).append(problem)
    near = {at + away for at in wrong for away in range(-_AROUND, _AROUND + 1)} if len(lines) > _WHOLE else None
    for number, text in enumerate(censored(lines), 1):
        if near is None or number in near:
            yield FileLine(number, text, wrong.get(number, []))
