"""
What all requests of one dashboard share: who may use it, what it asks, its open streams and its notices.

A notice says how an action ended. It is kept here under a random number for a minute, and the address that follows
the action has that number: so nobody can make a link that shows a sentence of his own.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, NamedTuple

from starlette.datastructures import Headers

from fusiond import paths
from fusiond.web.access import Access, EndedSessions
from fusiond.web.backend import Backend
from fusiond.web.door import Door
from fusiond.web.responses import NAVIGATION
from fusiond.web.rights import User

if TYPE_CHECKING:
    from starlette.types import Scope

    from fusiond.web.endpoint import Endpoint

#: seconds until the answer to a wrong token, and between two lines of the log about them
SLOW, _QUIET = 1.0, 60.0
log = logging.getLogger(__name__)
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
        #: path → what can be read there
        self.pages: dict[str, Endpoint] = {}
        self.ended = EndedSessions(paths.ended_sessions(backend.state))
        self._notices: dict[str, Notice] = {}
        self._logged_at = float("-inf")

    @property
    def cookie(self) -> str:
        """The name of the session's cookie: browsers send cookies of one host to all its ports."""
        return f"fusiond-{re.sub('[^A-Za-z0-9]', '-', self.access.settings.listen.rpartition(':')[2])}"

    def has_wrong_token(self, headers: Headers) -> bool:
        """Whether a request has a token that is not ours; one without a token has none."""
        token = _token_in(headers)
        return token is not None and self.access.holder_of(token) is None

    def user_of(self, scope: Scope) -> User | None:
        """Who asks; None: nobody who is logged in."""
        headers, address = Headers(scope=scope), self.address_of(scope)
        if (token := _token_in(headers)) is not None:
            return self.access.user_of_token(token, address)
        user = self.access.user_of_proxy(headers, address)
        return user or (User("the token", address) if self.session_of(headers) else None)

    def navigation_of(self, user: User | None) -> list[tuple[str, str]]:
        """Path and title of the pages that the user may see."""
        hidden = () if self.backend.config.outboxes else ("/outboxes",)
        pages = [(path, title) for path, title in NAVIGATION if path not in hidden]
        return [(path, title) for path, title in pages if user is not None and self.pages[path].is_open_to(user)]

    def session_of(self, headers: Headers) -> str:
        """The value of the cookie of a session that holds; empty: there is none."""
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        holds = cookie is not None and self.access.is_session(cookie.value) and cookie.value not in self.ended
        return cookie.value if cookie is not None and holds else ""

    async def note_wrong_token(self, scope: Scope) -> None:
        """Log it, at most once in a minute; returns after some time, so that nobody can try many."""
        now = time.monotonic()
        if now - self._logged_at > _QUIET:
            self._logged_at = now
            sentence = "%s gave a wrong token for %s; further ones are not logged for a minute"
            log.warning(sentence, self.address_of(scope), scope["path"])
        await asyncio.sleep(SLOW)

    def address_of(self, scope: Scope) -> str:
        """Who asks, as far as that can be told without a login."""
        return self.access.address_of(scope["state"]["visit"].peer, Headers(scope=scope))

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


def _token_in(headers: Headers) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
