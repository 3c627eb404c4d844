"""The jobs that somebody was asked about: what is confirmed is done with those that were counted, and no others."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

#: queue and id
Name = tuple[str, str]
#: jobs of all selections that are kept; the newest selection is kept in any case
MOST: Final = 1_000_000


class Selections:
    """Each is kept in memory, under a number that nobody can guess."""

    def __init__(self) -> None:
        self._kept: dict[str, Sequence[Name]] = {}

    def keep(self, names: Sequence[Name]) -> str:
        """The number of a new one; the oldest ones make room for it."""
        key = secrets.token_urlsafe(8)
        self._kept[key] = names
        while len(self._kept) > 1 and sum(map(len, self._kept.values())) > MOST:
            del self._kept[next(iter(self._kept))]
        return key

    def take(self, key: str) -> Sequence[Name] | None:
        """Its jobs, once; None: it was taken, or has made room for others."""
        return self._kept.pop(key, None)
