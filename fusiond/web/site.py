"""
What all requests of one dashboard share: who may use it, what it asks, its open streams and its notices.

A notice says how an action ended. It is kept here under a random number for a minute, and the address that follows
the action has that number: so nobody can make a link that shows a sentence of his own.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import NamedTuple

from fusiond.web.access import Access
from fusiond.web.backend import Backend
from fusiond.web.door import Door

#: seconds that a notice is kept, and how many are kept at most
NOTICE, MOST_NOTICES = 60.0, 1000


class Notice(NamedTuple):
    """How an action ended."""

    sentence: str
    #: it did what was asked
    well: bool
    #: monotonic seconds
    until: float


class Site:
    """One dashboard."""

    def __init__(self, backend: Backend, access: Access) -> None:
        self.backend, self.access = backend, access
        self.door = Door(lambda address: self.access.is_trusted_proxy(address))  # noqa: PLW0108 - a reload replaces it
        #: set when the streams must end
        self.closing = asyncio.Event()
        self.streams = 0
        self._notices: dict[str, Notice] = {}

    @property
    def cookie(self) -> str:
        """The name of the session's cookie: browsers send cookies of one host to all its ports."""
        return f"fusiond-{self.access.settings.listen.rpartition(':')[2]}"

    def begin(self) -> None:
        """Streams may begin again."""
        self.closing = asyncio.Event()

    def end_streams(self) -> None:
        """Have all streams end."""
        self.closing.set()

    def note(self, sentence: str, *, well: bool) -> str:
        """Keep a notice; returns its number."""
        now = time.monotonic()
        self._notices = {key: each for key, each in [*self._notices.items()][-MOST_NOTICES:] if each.until > now}
        key = secrets.token_urlsafe(8)
        self._notices[key] = Notice(sentence, well, now + NOTICE)
        return key

    def notice(self, key: str | None) -> Notice | None:
        """The notice of that number, if it is still kept."""
        found = self._notices.get(key or "")
        return found if found and found.until > time.monotonic() else None
