"""How a command finds its file, the daemon that runs it, and the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiond.errors import FusionError

if TYPE_CHECKING:
    from collections.abc import Iterable


def unknown(what: str, name: str, known: Iterable[str]) -> FusionError:
    """The error for a name that does not exist; it names the most similar one."""
    from fusiond.config.lint.suggest import did_you_mean, listed

    known = sorted(known)
    remedy = did_you_mean(name, known) or (f"there are: {listed(known)}" if known else "there is none")
    return FusionError(f"no {what} {name!r}; {remedy}")
