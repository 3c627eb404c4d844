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
        #: number → for what and for whom, and the jobs
        self._kept: dict[str, tuple[object, Sequence[Name]]] = {}

    def keep(self, purpose: object, names: Sequence[Name]) -> str:
        """The number of a new one; the oldest ones make room for it. `purpose`: for what and for whom it is."""
        key = secrets.token_urlsafe(8)
        self._kept[key] = purpose, names
        while len(self._kept) > 1 and sum(1 + len(each) for _, each in self._kept.values()) > MOST:
            del self._kept[next(iter(self._kept))]
        return key

    def take(self, key: str, purpose: object) -> Sequence[Name] | None:
        """Its jobs, once; None: it was taken, has made room for others, or is for another purpose."""
        if self._kept.get(key, (None,))[0] != purpose:
            return None
        return self._kept.pop(key)[1]
