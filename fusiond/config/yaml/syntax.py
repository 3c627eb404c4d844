"""
Why a text is not YAML, in words that help a person to correct it.

libyaml says what it expected. Most mistakes have one of a few causes, and the line itself shows which.
"""

import re
from typing import Final, NamedTuple

_PAIR: Final = re.compile(r"^\s*(?:- )?[^\s#'\"\[{][^#]*?:\s+\S")
#: what the caret underlines if nothing better is known: a run of tabs, a quoted text, a word
_TOKEN: Final = re.compile(r"\t+|'[^']*'|\"[^\"]*\"|[^\s,\]}\[{]+")


class Explanation(NamedTuple):
    """The words of a Problem; `about` is the text to underline, unless it is the word at the mark."""

    code: str
    message: str
    remedy: str
    about: re.Match[str] | None = None

    def span(self, line: str, column: int) -> tuple[int, int]:
        """The column, from 0, and the width of the text to underline."""
        found = self.about or _TOKEN.match(line, column)
        return (found.start(), len(found[0].rstrip())) if found else (column, 1)


def explain(problem: str, context: str, line: str, column: int) -> Explanation:
    """
    The cause of a syntax error.

    Args:
        problem: what libyaml says is wrong.
        context: what libyaml was doing then; may be empty.
        line: the source line.
        column: from 0, within the line.
    """
    if "nesting depth" in problem:
        # libyaml looks further ahead than the reader, which has a lower limit and says the same.
        return Explanation("too-deep", "maps and lists are nested too deeply", "use fewer levels")
    if "\t" in (line[column : column + 1], *line[: len(line) - len(line.lstrip())]):
        return Explanation("yaml-tab", "a tab is used to indent", "indent with spaces")
    if _CONFLICT.match(line):
        remedy = "resolve the conflict, and remove the lines of <<<<<<<, ======= and >>>>>>>"
        return Explanation("yaml-syntax", "this line is left over from a merge", remedy)
    return (
        _no_colon(problem, line, column)
        or _missing_quotes(problem, context, line, column)
        or _misplaced(problem, line[:column], line)
        or _unclosed(problem, context, line, column)
        or Explanation("yaml-syntax", f"{problem} {context}".strip(), "correct it here or on the line before")
    )


#: what git and others write where two versions of a text differ
_CONFLICT = re.compile(r"(<{7}|[|]{7}|={7}|>{7})(\s|$)")
#: characters of a key that YAML allows where no ? stands before it
_LONGEST_KEY = 1024
#: characters of a key in a message
_SHOWN = 40


def opens_text(line: str, column: int) -> bool:
    """Whether the quote at this column stands where a text begins: after a blank or a bracket, and before a word."""
    return line[:column][-1:] in (*" \t[{,", "") and line[column + 1 : column + 2] not in (*" \t]},:", "")


def _no_colon(problem: str, line: str, column: int) -> Explanation | None:
    """A key that has no colon behind it."""
    if "could not find expected ':'" not in problem:
        return None
    word = re.compile(r"'[^']*'|\"[^\"]*\"|[^\s,\]}\[{]*").match(line, column)
    name = word[0] if word else ""
    if len(name) > _LONGEST_KEY:
        return Explanation("yaml-syntax", "this key is too long", f"write at most {_LONGEST_KEY} characters", word)
    remedy = f"write {name}:" if len(name) <= _SHOWN else "write a colon behind it"
    return Explanation("yaml-syntax", f"{name[:_SHOWN]} has no colon", remedy, word)


def _missing_quotes(problem: str, context: str, line: str, column: int) -> Explanation | None:
    """A text that begins like syntax: `*/5`, `@daily`, `%x`, and `${VAR}` between brackets."""
    char = line[column : column + 1]
    if "alias" in context or "anchor" in context:
        kind, sign = ("an alias", "*") if "alias" in context else ("an anchor", "&")
        text = re.compile(rf"\{sign}[^,\]}}#]*").search(line, max(0, line.rfind(sign, 0, column + 1)))
        remedy = 'put it in quotes, such as schedule: "*/5 * * * *"' if sign == "*" else "put it in quotes"
        return Explanation("yaml-quote", f"a text that starts with {sign} is read as {kind}", remedy, text)
    if "cannot start any token" in problem and char:
        remedy = "put it in quotes" + (', such as schedule: "@daily"' if char == "@" else "")
        return Explanation("yaml-quote", f"a text cannot start with {char} unless it is in quotes", remedy)
    if "${" in line and "flow" in context:
        text = re.search(r"\$\{[^}]*\}?", line)
        return Explanation("yaml-quote", "inside [ ] or { } a ${VAR} must be in quotes", 'write "${VAR}"', text)
    return None


def _misplaced(problem: str, before: str, line: str) -> Explanation | None:
    """A key or a list at a place where none may begin."""
    if "block sequence entries" in problem:
        return Explanation("yaml-syntax", "a list cannot begin on its key's line", "put each - on a line of its own")
    if "mapping values are not allowed" not in problem:
        return None
    if _PAIR.match(before + " x") and ": " in before:
        value = re.compile(r"(?<=: )\s*\S[^#]*").search(line)
        message = "a text that holds ': ' must be in quotes"
        return Explanation("yaml-quote", message, "put the whole value in quotes", value)
    return Explanation(
        "yaml-indent",
        "a key is not allowed here",
        "indent it as far as the keys beside it, or end the line above with a colon",
    )


def _unclosed(problem: str, context: str, line: str, column: int) -> Explanation | None:
    """A quote, bracket or indentation that does not end as it began."""
    if "quoted scalar" in context and "unexpected end" in problem:
        rest = re.compile(".+").match(line, column)
        return Explanation("yaml-syntax", "a quote is opened here and never closed", "close it", rest)
    if "flow" in context:
        end = "]" if "sequence" in context else "}"
        return Explanation("yaml-syntax", f"a comma or a closing {end} is missing here or before", f"add , or {end}")
    if "did not find expected key" in problem and line[:column].strip() and line[column:].strip():
        remedy = "quote the whole text; inside '…' write '' for a quote"
        return Explanation("yaml-syntax", "there is text after a closing quote", remedy)
    if "block mapping" in context or "block collection" in context:
        message = "this line fits neither the map nor the list around it"
        return Explanation("yaml-indent", message, "indent it as far as the lines beside it")
    return None
