"""
The files of a group's `environment_file`: NAME=VALUE lines, and a digest that tells two contents apart.

A group reads them when its fork server starts. The daemon does not watch them: an agent may write them each minute.
"""

import errno
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_DOUBLE = r'"((?:\\.|[^"\\])*)"'
_SINGLE = r"'([^']*)'"
_QUOTED = rf"[ \t]*(?:{_SINGLE}|{_DOUBLE})"
#: a comment, or a name and what stands behind its `=`: quoted texts, then the rest of the line
_LINE = re.compile(rf"[ \t]*(?:[#;][^\r\n]*|([^=\r\n]*)(?:=((?:{_QUOTED})*)((?:\\.|[^\r\n\\])*))?)[\r\n]*", re.DOTALL)
_PART = re.compile(_QUOTED, re.DOTALL)
#: in double quotes; and outside of quotes, where blanks at the end go
_ESCAPED, _BARE = re.compile(r'\\(["\\`$\n])'), re.compile(r"\\(.?)|[ \t]+\Z", re.DOTALL)


def read(paths: Iterable[str]) -> dict[str, str]:
    """The variables of all files; a later file wins. Raises OSError if a file cannot be read, with the reason."""
    result: dict[str, str] = {}
    for path in paths:
        result |= read_one(path)
    return result


def read_one(path: str | Path) -> dict[str, str]:
    """The variables of a file. Raises OSError if it cannot be read, with the reason."""
    try:
        return parse(Path(path).read_bytes().decode())
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "it is not UTF-8", str(path)) from None
    except ValueError as error:
        raise OSError(errno.EILSEQ, str(error), str(path)) from None


def parse(text: str) -> dict[str, str]:
    """
    NAME=VALUE lines as systemd's EnvironmentFile= has them, see systemd.exec(5): of quotes, backslashes and comments.

    A line without `=` is passed over, as there. Raises ValueError for what systemd ignores or cuts: a NUL, a byte order
    mark, a blank in a name, a quote without an end.
    """
    for character, name in ("\0", "a NUL"), ("\ufeff", "a byte order mark (U+FEFF)"):
        if character in text:
            raise ValueError(f"line {_line(text, text.index(character))} has {name}")
    result = {}
    for found in _LINE.finditer(text):
        at = found.start()
        name, quoted, rest = (found[1] or "").strip(), found[2], (found[5] or "").lstrip(" \t")
        if quoted is not None and name:
            if re.search(r"\s", name):
                remedy = "remove `export`, or the blank"
                raise ValueError(f"line {_line(text, at)}: {name!r} is not a variable's name; {remedy}")
            if rest[:1] in ("'", '"'):
                raise ValueError(f"line {_line(text, at)}: the quote of {name} has no end")
            result[name] = "".join(map(_unquoted, _PART.finditer(quoted))) + _BARE.sub(_bare, rest)
    return result


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _unquoted(part: re.Match[str]) -> str:
    single, double = part.groups()
    return single if single is not None else _ESCAPED.sub(_bare, double)


def _bare(found: re.Match[str]) -> str:
    """The character behind a backslash; nothing for a line end, and for blanks."""
    return "" if found[1] in (None, "\n") else found[1]


def digest(variables: Mapping[str, str]) -> str:
    """Equal for equal variables. It is kept in memory and never shown: one could guess a short secret from it."""
    return hashlib.sha256(json.dumps(variables, sort_keys=True).encode()).hexdigest()
