"""
The verbs' Lua files, read once each: when first used, or all of them by `load_all`.

A file may begin with `-- include: name …`: the files `lua/shared/<name>.lua` are then put before it, in that order.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

_LUA = Path(__file__).parent / "lua"
_INCLUDE = "-- include:"


@dataclass(frozen=True, slots=True)
class Script:
    """One verb as Redis runs it."""

    name: str
    #: the whole text, includes in front
    source: bytes
    #: SHA-1 of the source in hex, as EVALSHA wants it
    sha: bytes


@functools.cache
def script(name: str) -> Script:
    """The script `lua/<name>.lua`."""
    text = (_LUA / f"{name}.lua").read_text()
    first = text.partition("\n")[0]
    shared = first.removeprefix(_INCLUDE).split() if first.startswith(_INCLUDE) else []
    source = "".join((_LUA / "shared" / f"{part}.lua").read_text() for part in shared) + text
    return Script(name, source.encode(), hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest().encode())


def load_all() -> None:
    """Read every script now, 2 ms: a program that lives long may have no descriptor left when it first needs one."""
    for path in _LUA.glob("*.lua"):
        script(path.stem)
