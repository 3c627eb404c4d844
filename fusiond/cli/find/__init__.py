"""How a command finds what it is asked for: an entry by its name, the file, the daemon that runs it, the broker."""

from collections.abc import Mapping
from typing import TypeVar

from fusiond.errors import FusionError

T = TypeVar("T")


def entry(what: str, entries: Mapping[str, T], name: str) -> T:
    """The entry of this name. Raises FusionError, with the most similar name, if there is none."""
    from fusiond.config.lint.suggest import nearest

    if name in entries:
        return entries[name]
    raise FusionError(f"no {what} {name!r}; {nearest(name, entries)}")
