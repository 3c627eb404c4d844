"""Characters that look like others, or like nothing: a sentence about an error names those that it is about."""

import unicodedata
from dataclasses import replace
from typing import Final

from fusiond.config.problems import Problem

#: categories of blanks and of characters without a width; of dashes and of quotes
_BLANK, _MARK = frozenset({"Zs", "Zl", "Zp", "Cf", "Cc"}), frozenset({"Pd", "Pi", "Pf"})
_QUOTES: Final = {"’": "'", "‘": "'", "“": '"', "”": '"', "−": "-"}


def explained(problem: Problem) -> Problem:
    """The error whose remedy is what to write for the first such character in, or beside, what it underlines."""
    start = max(0, problem.column - 2)
    for column, char in enumerate(problem.excerpt[start : problem.column + problem.width], start + 1):
        if problem.is_error and (instead := _instead(char)) is not None:
            name = f"{unicodedata.name(char, 'control character').lower()} (U+{ord(char):04X})"
            advice = f"write {instead}" if instead else "remove it"
            return replace(problem, remedy=f"column {column} has the character {name}: {advice}")
    return problem


def _instead(char: str) -> str | None:
    """What was meant; empty: nothing; None: the character itself."""
    if char == "\t" or char.isascii():
        return None
    category = unicodedata.category(char)
    if category in _BLANK:
        return "" if category in {"Cf", "Cc"} else "a blank"
    if category in _MARK or char in _QUOTES:
        return _QUOTES.get(char, "-" if category == "Pd" else "a quote of ASCII")
    plain = unicodedata.normalize("NFKC", char)
    return plain if plain.isascii() and not plain.isalnum() else None
