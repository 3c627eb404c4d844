"""
Why a text is not YAML, said so that a person can mend it.

libyaml says what it expected; most mistakes have one of a few causes, which the line itself shows.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_PAIR: Final = re.compile(r"^\s*(?:- )?[^\s#'\"\[{][^#]*?:\s+\S")


class Explanation(NamedTuple):
    """What a Problem says."""

    code: str
    message: str
    remedy: str


def explain(problem: str, context: str, line: str, column: int) -> Explanation:
    """
    The cause of a syntax error.

    Args:
        problem: what libyaml says is wrong.
        context: what it was doing meanwhile; may be empty.
        line: the source line.
        column: from 0, within the line.
    """
    if "\t" in (line[column : column + 1], *line[: len(line) - len(line.lstrip())]):
        return Explanation("yaml-tab", "a tab is used to indent", "indent with spaces")
    return (
        _missing_quotes(problem, context, line, column)
        or _misplaced(problem, line[:column])
        or _unclosed(problem, context, line, column)
        or Explanation(
            "yaml-syntax", f"{problem} {context}".strip() or "this is not YAML", "mend it here or on the line before"
        )
    )


def _missing_quotes(problem: str, context: str, line: str, column: int) -> Explanation | None:
    """A text that begins like syntax: `*/5`, `@daily`, `%x`, and `${VAR}` between brackets."""
    char = line[column : column + 1]
    if "alias" in context:
        remedy = 'put it in quotes, such as schedule: "*/5 * * * *"'
        return Explanation("yaml-quote", "a text that starts with * is read as an alias", remedy)
    if "anchor" in context:
        return Explanation("yaml-quote", "a text that starts with & is read as an anchor", "put it in quotes")
    if "cannot start any token" in problem and char:
        remedy = "put it in quotes" + (', such as schedule: "@daily"' if char == "@" else "")
        return Explanation("yaml-quote", f"a text cannot start with {char} unless it is in quotes", remedy)
    if "${" in line and "flow" in context:
        return Explanation("yaml-quote", "inside [ ] or { } a ${VAR} must be in quotes", 'write "${VAR}"')
    return None


def _misplaced(problem: str, before: str) -> Explanation | None:
    """A key or a list at a place where none may begin."""
    if "mapping values are not allowed" in problem:
        return _misplaced_colon(before)
    if "block sequence entries" in problem:
        return Explanation("yaml-syntax", "a list cannot begin on its key's line", "put each - on a line of its own")
    return None


def _unclosed(problem: str, context: str, line: str, column: int) -> Explanation | None:
    """A quote, bracket or indentation that does not end as it began."""
    if "quoted scalar" in context and "unexpected end" in problem:
        return Explanation("yaml-syntax", "a quote is opened here and never closed", "close it")
    if "flow" in context:
        end = "]" if "sequence" in context else "}"
        return Explanation("yaml-syntax", f"a comma or a closing {end} is missing here or before", f"add , or {end}")
    if "did not find expected key" in problem and line[:column].strip() and line[column:].strip():
        remedy = "quote the whole text; inside '…' write '' for a quote"
        return Explanation("yaml-syntax", "there is text after a closing quote", remedy)
    if "block mapping" in context or "block collection" in context:
        message = "this line fits neither the map nor the list around it"
        return Explanation("yaml-indent", message, "align it with its siblings")
    return None


def _misplaced_colon(before: str) -> Explanation:
    if _PAIR.match(before + " x") and ": " in before:
        return Explanation("yaml-quote", "a text that holds ': ' must be in quotes", "put the whole value in quotes")
    return Explanation(
        "yaml-indent", "a key is not allowed here", "align it with its siblings, or end the line above with a colon"
    )
