"""
The ASGI application: the pages, the API, the login, the stream of changes.

An endpoint is declared where its subject is, in `pages/`; what is only here serves browsers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fusiond.web import probes, responses
from fusiond.web.access import SESSION
from fusiond.web.endpoint import API, Endpoint
from fusiond.web.gate import Gate
from fusiond.web.openapi import document
from fusiond.web.pages import (
    audit_pages,
    broken_pages,
    configuration_pages,
    cron_pages,
    exports,
    failure_pages,
    flow_pages,
    job_pages,
    limit_pages,
    many_jobs,
    operation_pages,
    outbox_pages,
    output_pages,
    overview,
    queue_pages,
    simulation_pages,
    statistics_pages,
    worker_pages,
)
from fusiond.web.pulse import MOST_STREAMS, stream
from fusiond.web.responses import Refusal
from fusiond.web.site import Site

if TYPE_CHECKING:
    from starlette.requests import Request

#: every endpoint of the pages and the API
ENDPOINTS: tuple[Endpoint, ...] = (
    *overview.ENDPOINTS,
    *job_pages.ENDPOINTS,
    *many_jobs.ENDPOINTS,
    *exports.ENDPOINTS,
    *output_pages.ENDPOINTS,
    *failure_pages.ENDPOINTS,
    *operation_pages.ENDPOINTS,
    *queue_pages.ENDPOINTS,
    *statistics_pages.ENDPOINTS,
    *worker_pages.ENDPOINTS,
    *cron_pages.ENDPOINTS,
    *flow_pages.ENDPOINTS,
    *broken_pages.ENDPOINTS,
    *limit_pages.ENDPOINTS,
    *outbox_pages.ENDPOINTS,
    *simulation_pages.ENDPOINTS,
    *configuration_pages.ENDPOINTS,
    *audit_pages.ENDPOINTS,
)


def application(site: Site) -> Starlette:
    """The application of one dashboard."""
    routes = [
        Route("/login", _show_login, methods=["GET"]),
        Route("/login", _login, methods=["POST"]),
        Route("/logout", _logout, methods=["POST"]),
        Route("/live", _live, methods=["GET"]),
        *probes.ROUTES,
        Route(f"{API}/openapi.json", _openapi, methods=["GET"]),
        *(route for endpoint in ENDPOINTS for route in endpoint.routes()),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]
    found = Starlette(
        routes=routes,
        middleware=[Middleware(Gate, site=site)],
        exception_handlers={HTTPException: _not_served, Refusal: _refused},
    )
    found.state.site = site
    site.pages = {endpoint.path: endpoint for endpoint in ENDPOINTS if endpoint.method == "GET"}
    return found


async def _show_login(request: Request) -> Response:
    return responses.page(request, "login.html", back=_own_path(request.query_params.get("back", "/")), wrong=False)


async def _login(request: Request) -> Response:
    """A form with the token; a session begins."""
    site: Site = request.app.state.site
    try:
        said = parse_qs((await request.body()).decode(), max_num_fields=10)
    except (ValueError, ClientDisconnect):
        return responses.failure(request, 400, "the form cannot be read")
    back = _own_path(said.get("back", ["/"])[0])
    if site.access.holder_of(said.get("token", [""])[0].strip()) != "":
        await site.note_wrong_token(request.scope)
        return responses.page(request, "login.html", 401, back=back, wrong=True)
    response = RedirectResponse(back, 303)
    is_tls = request.headers.get("origin", "").startswith("https:")  # of the browser, also where a proxy ends the TLS
    value = site.access.new_session()
    response.set_cookie(site.cookie, value, max_age=SESSION, httponly=True, samesite="strict", secure=is_tls)
    return response


async def _logout(request: Request) -> Response:
    site: Site = request.app.state.site
    if session := site.session_of(request.headers):
        site.ended.add(session)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(site.cookie, httponly=True, samesite="strict")
    return response


def _own_path(said: str) -> str:
    """A path of this server: what a browser would take for another server's is none."""
    plain = said.startswith("/") and not said.startswith(("//", "/\\")) and said.isprintable() and len(said) < 2000
    return said if plain else "/"


async def _live(request: Request) -> Response:
    site: Site = request.app.state.site
    request.state.user.require("read")
    if site.streams >= MOST_STREAMS:
        raise Refusal(503, f"{MOST_STREAMS} pages are open already")

    def is_open() -> bool:
        user = site.user_of(request.scope)
        return user is not None and user.may("read")

    return StreamingResponse(stream(site, is_open), media_type="text/event-stream")


async def _openapi(_: Request) -> Response:
    return responses.as_json(document(ENDPOINTS, "1"))


async def _not_served(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentence = {404: f"there is nothing at {request.url.path[:200]}", 405: f"{request.method} is not done here"}
    found = responses.failure(request, status, sentence.get(status, "the request cannot be served"))
    if status == 405:
        there = [route for route in request.app.routes if isinstance(route, Route)]
        served = [route.methods or () for route in there if route.path_regex.match(request.url.path)]
        found.headers["Allow"] = ", ".join(sorted({method for methods in served for method in methods}))
    return found


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)  # noqa: S101 - this handler is registered for nothing else
    return responses.failure(request, error.status, error.sentence)
