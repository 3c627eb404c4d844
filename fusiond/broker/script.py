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
#: Behind these includes the rest of a script is a function within the script. To make a function, Lua 5.1 searches the
#: captured variables of the function around it one by one (luaF_findupval), but takes those from further out at once.
#: A claim makes 80 functions: without this it takes a third longer.
_LAYERS = ("single", "job", "places")


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
    layers = [part for part in shared if part in _LAYERS]
    source = "".join(map(_shared, shared)) + text + "\nend)()" * len(layers)
    return Script(name, source.encode(), hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest().encode())


def _shared(part: str) -> str:
    """What stands in a script for one include; a layer that begins here ends behind the script's own text."""
    text = (_LUA / "shared" / f"{part}.lua").read_text()
    return text + "return (function()\n" if part in _LAYERS else text


def load_all() -> None:
    """Read every script now, 2 ms: a program that lives long may have no descriptor left when it first needs one."""
    for path in _LUA.glob("*.lua"):
        script(path.stem)
