"""
The verbs' Lua files, read once each: when first used, or all of them by `load_all`.

A file may begin with lines `-- include: name …`: the files `lua/shared/<name>.lua` are put before it, in that order.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_LUA = Path(__file__).parent / "lua"
_INCLUDE = "-- include:"
#: Behind these includes the rest of a script is a function within the script. To make a function, Lua 5.1 searches the
#: captured variables of the function around it one by one (luaF_findupval), but takes those from further out at once.
#: A claim makes 80 functions: without this it takes a third longer.
_LAYERS = ("single", "job", "places")
_LAYER_BEGINS, _LAYER_ENDS = "return (function()\n", "\nend)()"
#: include → words in it → what this process has in their place; see `replaced`
_replaced: dict[str, Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Script:
    """One verb as Redis runs it."""

    name: str
    #: the texts of which it consists, includes in front; many scripts have the same ones, 0.2 MB of all in all
    pieces: tuple[str, ...]
    #: SHA-1 of the source in hex, as EVALSHA wants it
    sha: bytes

    @property
    def source(self) -> bytes:
        """The whole text. It is seldom wanted; those of all scripts would take 1.3 MB."""
        return _joined(self.pieces)


@functools.cache
def script(name: str) -> Script:
    """The script `lua/<name>.lua`."""
    text = _read(_LUA / f"{name}.lua")
    includes = itertools.takewhile(lambda line: line.startswith(_INCLUDE), text.splitlines())
    shared = [part for line in includes for part in line.removeprefix(_INCLUDE).split()]
    pieces: list[str] = []
    for part in shared:
        pieces += [_shared(part), _LAYER_BEGINS] if part in _LAYERS else [_shared(part)]
    pieces += [text, *(_LAYER_ENDS for part in shared if part in _LAYERS)]
    sha = hashlib.sha1(_joined(pieces), usedforsecurity=False).hexdigest().encode()
    return Script(name, tuple(pieces), sha)


def _shared(part: str) -> str:
    """The text of one include; what stands behind that of a layer is a function within the script."""
    text = _read(_LUA / "shared" / f"{part}.lua")
    for old, new in _replaced.get(part, {}).items():
        assert old in text, (part, old)  # noqa: S101 - a test has each of them replaced
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def replaced(words: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Within the block, the scripts of this process have another clock: include → words in it → what replaces them."""
    _replaced.update(words)
    script.cache_clear()
    try:
        yield
    finally:
        _replaced.clear()
        script.cache_clear()


@functools.cache
def _read(path: Path) -> str:
    return path.read_text()


def _joined(pieces: Iterable[str]) -> bytes:
    return "".join(pieces).encode()


def load_all() -> None:
    """Read every script now, 2 ms: a program that lives long may have no descriptor left when it first needs one."""
    for path in _LUA.glob("*.lua"):
        script(path.stem)
