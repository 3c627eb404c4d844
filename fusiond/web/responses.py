"""What goes back: a page from a template, JSON for the API, and every refusal as one sentence."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from fusiond.config.model.web_face import READING
from fusiond.web import filters
from fusiond.written_text import json_bytes, visible

if TYPE_CHECKING:
    from starlette.requests import Request

#: path and title of the pages, in the order of the navigation
NAVIGATION = (
    ("/", "Overview"),
    ("/jobs", "Jobs"),
    ("/failures", "Failures"),
    ("/queues", "Queues"),
    ("/workers", "Workers"),
    ("/cron", "Cron"),
    ("/flows", "Flows"),
    ("/limits", "Limits"),
    ("/broken", "Broken"),
    ("/outboxes", "Outboxes"),
    ("/configuration", "Configuration"),
    ("/audit", "Audit"),
)
#: the cookie by which a browser keeps its colours
THEME = "fusiond-theme"
_TITLES = {
    400: "Bad request",
    401: "Log in first",
    403: "Refused",
    404: "Not found",
    408: "Too slow",
    413: "Too large",
    421: "Another name",
    429: "Too many requests",
    503: "Out of reach",
}


class Refusal(Exception):
    """The request is refused with a status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@functools.cache
def _templates() -> Environment:
    folder = Path(__file__).parent / "templates"
    found = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters.update(filters.FILTERS)
    found.globals.update(version=_version())
    found.globals["parts"] = found.get_template("parts.html").module
    return found


@functools.cache
def _version() -> str:
    """Changes with each change of the style sheet or the script, so that a browser never keeps an old one."""
    import hashlib

    files = sorted((Path(__file__).parent / "static").iterdir())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """A page."""
    site = request.app.state.site if "app" in request.scope else None
    user = getattr(request.state, "user", None)
    read_only = bool(site and site.access.settings.read_only)

    def may(right: str, queue: str | None = None, *, everywhere: bool = False) -> bool:
        has = user is not None and (user.may_everywhere(right) if everywhere else user.may(right, queue))
        return has and (right in READING or not read_only)

    theme = request.cookies.get(THEME, "")
    known = {
        "path": request.url.path,
        "query": without_notice(request.url.query),
        "user": user.name if user else "",
        "navigation": getattr(request.state, "navigation", ()),
        "may": may,
        "read_only": read_only,
        "theme": theme if theme in ("light", "dark") else "",
        "notice": site.notice(request.query_params.get("done")) if site else None,
        "source": site.backend.source if site and user else "",
    }
    return HTMLResponse(visible(_templates().get_template(template).render(**known | values)), status)


def without_notice(query: str) -> str:
    """The query of a page without the number of a notice."""
    return "&".join(part for part in query.split("&") if part and not part.startswith("done="))


def as_json(value: Any, status: int = 200) -> Response:
    """JSON; dataclasses are objects."""
    return Response(json_bytes(value, plain), status, media_type="application/json")


def plain(value: Any) -> Any:
    """What JSON has no word for, in words that it has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON")


def failure(request: Request, status: int, sentence: str) -> Response:
    """A refusal, as the asker can read it."""
    if request.url.path.startswith("/api/"):
        found = as_json({"error": sentence}, status)
    else:
        found = page(request, "failure.html", status, title=_TITLES.get(status, "Something failed"), sentence=sentence)
    if status == 401:
        found.headers["WWW-Authenticate"] = "Bearer"
    return found
