"""How a command finds what it is asked for: an entry by its name, the file, the daemon that runs it, the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from fusiond.errors import FusionError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


def entry(what: str, entries: Mapping[str, T], name: str) -> T:
    """The entry of this name. Raises FusionError, with the most similar name, if there is none."""
    from fusiond.config.lint.suggest import did_you_mean, listed

    if name in entries:
        return entries[name]
    known = sorted(entries)
    remedy = did_you_mean(name, known) or (f"there are: {listed(known)}" if known else "there is none")
    raise FusionError(f"no {what} {name!r}; {remedy}")
