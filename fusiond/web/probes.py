"""
What programs ask of a daemon over HTTP: metrics, and whether it is alive and ready.

1. /metrics  what `fusiond status --metrics` prints, for who has the right. 200 though the daemon or Redis is away: the
             body says so
2. /livez    200 while the daemon answers on its control socket, whether Redis does or not; otherwise 503
3. /readyz   200 if each group of the daemon serves, and Redis answers this program; otherwise 503

The probes need no login. Reasons are for who has one, since they name programs and addresses. `fusiond health` says the
same where there is no port.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fusiond.errors import BrokerError
from fusiond.monitoring.broker_state import BrokerState, broker_state

if TYPE_CHECKING:
    from starlette.requests import Request

    from fusiond.web.backend import Backend

_SILENT = "the daemon does not answer"


async def _metrics(request: Request) -> Response:
    # prometheus-client is loaded by the first request that needs it.
    from fusiond.monitoring.exposition import exposition

    request.state.user.require("metrics", everywhere=True)
    backend = _backend(request)
    daemon, broker = await asyncio.gather(backend.status(), _broker(backend))
    body, content_type = await asyncio.to_thread(exposition, daemon, broker, request.headers.get("accept", ""))
    return Response(body, media_type=content_type)


async def _broker(backend: Backend) -> BrokerState | None:
    """What Redis holds; None: it does not answer."""
    try:
        return await backend.kept("metrics", lambda: backend.run(broker_state(backend.verbs)))
    except BrokerError:
        return None


async def _live(request: Request) -> Response:
    status = await _backend(request).status()
    return _said("ok" if status is not None else _SILENT, well=status is not None)


async def _ready(request: Request) -> Response:
    why = await _why_not_ready(_backend(request))
    known = request.state.user is not None and request.state.user.may_everywhere("read")
    return _said("ok" if not why else f"not ready: {why}" if known else "not ready", well=not why)


async def _why_not_ready(backend: Backend) -> str:
    """A sentence; "" if it is ready."""
    status = await backend.status()
    if status is None:
        return _SILENT
    if not status["ready"]:
        return "; ".join(f"{name}: {why}" for name, why in status["unready"].items()) or "the daemon ends"
    try:
        await backend.queues()
    except BrokerError as error:
        return str(error)
    return ""


def _said(sentence: str, *, well: bool) -> Response:
    return PlainTextResponse(f"{sentence}\n", 200 if well else 503)


def _backend(request: Request) -> Backend:
    return request.app.state.site.backend  # type: ignore[no-any-return]


#: for the application
ROUTES = (
    Route("/metrics", _metrics, methods=["GET"]),
    Route("/livez", _live, methods=["GET"]),
    Route("/readyz", _ready, methods=["GET"]),
)
