"""
What each request passes before any page sees it.

1. door     too many requests at once: 429 or 503
2. host     a name that is none of ours: 421
3. size     a body above the limit: 413; one that is not there within PATIENCE seconds: 408
4. user     by a token (`Authorization: Bearer …`), the headers of a proxy, or the cookie of a session. Nobody: to the
            login, or 401 for the API. What the user may do is for the endpoint to judge
5. change   what is no GET: 403 while the file says `read_only`, and 403 unless the browser names this server as the
            origin. A request that carries the token itself needs no origin

Each answer gets headers that keep the browser from running, loading or framing what is not from here. If no part of it
is taken for PATIENCE seconds, the connection is closed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fusiond.web.access import is_same_origin
from fusiond.web.responses import Refusal, failure
from fusiond.web.rights import User

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from fusiond.web.site import Site

#: bytes of a body
LARGEST = 1024 * 1024
#: seconds until a body is there, or a part of an answer is taken
PATIENCE = 30.0
#: characters of a path with its query
LONGEST = 8192
#: paths that need no login
PUBLIC = ("/login", "/static/", "/livez", "/readyz")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app, self._site = app, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or refuse it."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                _seal(MutableHeaders(scope=message), scope["path"])
            timer = asyncio.get_running_loop().call_later(PATIENCE, cut_off)
            try:
                await send(message)
            finally:
                timer.cancel()

        cut_off = scope["state"]["visit"].transport.abort
        with self._site.door.request(scope, by_guess=self._site.has_wrong_token(headers)) as refused:
            response = await self._answer(scope, headers, refused)
            await (response or self._app)(scope, _limited(receive), sealed)

    async def _answer(self, scope: Scope, headers: Headers, refused: Refusal | None) -> Response | None:
        """The answer in place of the page's; None: the page may answer."""
        try:
            if refused is not None:
                raise refused
            return await self._judge(scope, headers)
        except Refusal as refusal:
            return failure(Request(scope), refusal.status, refusal.sentence)

    async def _judge(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer in place of the page's; None: the page may answer. Raises Refusal."""
        _check_size(scope, headers)
        host = headers.get("host", "")
        if not self._site.access.knows_host(host):
            raise Refusal(421, f"{host[:100]!r} is not a name of this server; add it to web.hosts if it is")
        if self._site.has_wrong_token(headers):
            await self._site.note_wrong_token(scope)
            raise Refusal(401, "the token is wrong")
        user = self._site.user_of(scope)
        scope["state"] |= {"user": user, "navigation": self._site.navigation_of(user)}
        public = any(scope["path"] == path or scope["path"].startswith(path) for path in PUBLIC)
        if user is None and not public:
            return self._login(scope)
        if scope["method"] not in ("GET", "HEAD"):
            self._check_change(scope, headers, user)
        return None

    def _login(self, scope: Scope) -> Response:
        if scope["path"].startswith("/api/") or scope["path"] in ("/live", "/metrics"):
            raise Refusal(401, "log in, or send the header `Authorization: Bearer <token>`")
        if scope["method"] not in ("GET", "HEAD"):
            raise Refusal(401, "you are not logged in any more, so nothing was done; log in, and do it again")
        where = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
        back = f"?back={quote(where, safe='')}" if where != "/" else ""
        return RedirectResponse(f"/login{back}", 303)

    def _check_change(self, scope: Scope, headers: Headers, user: User | None) -> None:
        if self._site.access.settings.read_only and scope["path"] not in ("/login", "/logout"):
            raise Refusal(403, "the file says web.read_only: nothing can be changed here")
        by_token = user is not None and user.by_token
        if not by_token and not is_same_origin(headers.get("origin", ""), headers.get("host", "")):
            raise Refusal(403, "this request comes from a page of another site, or names no origin")


def _check_size(scope: Scope, headers: Headers) -> None:
    if len(scope["path"]) + len(scope["query_string"]) > LONGEST:
        raise Refusal(414, f"the address is longer than {LONGEST} characters")
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > LARGEST:
        raise Refusal(413, f"the body is larger than {LARGEST} bytes")


def _limited(receive: Receive) -> Receive:
    """The same without what goes beyond the limit, in a body that does not name its length."""
    taken = 0
    until: float | None = asyncio.get_running_loop().time() + PATIENCE

    async def limited() -> Message:
        """The next part of the body. Raises Refusal if it is late, or too much."""
        nonlocal taken, until
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            raise Refusal(408, f"the body was not there within {PATIENCE:g} seconds") from None
        if not message.get("more_body"):
            until = None  # what comes behind it is the end of the connection
        taken += len(message.get("body", b""))
        if taken > LARGEST:
            raise Refusal(413, f"the body is larger than {LARGEST} bytes")
        return message

    return limited


def _seal(headers: MutableHeaders, path: str) -> None:
    for name, value in _HEADERS.items():
        headers[name] = value
    if not path.startswith("/static/"):
        headers["Cache-Control"] = "no-store"
