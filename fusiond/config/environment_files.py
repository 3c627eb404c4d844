"""
The files of a group's `environment_file`: NAME=VALUE lines, and a digest that tells two contents apart.

A group reads them when its fork server starts. The daemon does not watch them: an agent may write them each minute.
"""

import errno
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path


def read(paths: Iterable[str]) -> dict[str, str]:
    """The variables of all files; a later file wins. Raises OSError if a file cannot be read, or is not UTF-8."""
    result: dict[str, str] = {}
    for path in paths:
        try:
            result |= parse(Path(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise OSError(errno.EILSEQ, "it is not UTF-8", path) from None
    return result


def parse(text: str) -> dict[str, str]:
    """NAME=VALUE lines as in systemd's EnvironmentFile=: # and ; begin a comment, one pair of quotes is removed."""
    result = {}
    for raw in text.splitlines():
        line = raw.strip()
        name, equals, value = line.partition("=")
        if equals and line[0] not in "#;=":
            bare = value.strip()
            quoted = len(bare) >= 2 and bare[0] == bare[-1] and bare[0] in "'\""
            result[name.strip()] = bare[1:-1] if quoted else bare
    return result


def digest(variables: Mapping[str, str]) -> str:
    """Equal for equal variables. It is kept in memory and never shown: one could guess a short secret from it."""
    return hashlib.sha256(json.dumps(variables, sort_keys=True).encode()).hexdigest()
