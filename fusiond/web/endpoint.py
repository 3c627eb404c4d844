"""
One endpoint: what a page shows or an action does, for browsers and for the API at once.

1. gather   the inputs, each within its bounds
2. judge    whether the user has the right, in the queue that an input names, or in all queues; otherwise 403
3. answer   a function of the backend and the inputs returns a view, which is a dataclass, or says how an action ended
4. send     the view to its template for a browser, or as JSON below /api/v1; after an action a browser goes back to the
            page that it came from, which shows the notice

What goes wrong is one sentence with the right status; a fault of our own is logged with its traceback.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from fusiond.errors import BrokerError, ControlError, EnqueueError, FusionError, JobNotFound, QueueFull
from fusiond.web import responses
from fusiond.web.backend import Backend
from fusiond.web.inputs import BadInput, Input, gathered, read_json, texts_of
from fusiond.web.responses import Refusal
from fusiond.web.rights import User

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")

#: prefix of the API
API = "/api/v1"
#: in place of a right
BY_ACTION = "by action"
#: the exception is the class in `FusionError` → status
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (BadInput, 400),
    (ClientDisconnect, 400),  # which nobody reads any more
    (JobNotFound, 404),
    (QueueFull, 429),
    (EnqueueError, 400),
    (BrokerError, 503),
    (ControlError, 503),
    (FusionError, 400),
)
log = logging.getLogger(__name__)
#: the log of who did what
audit = logging.getLogger("fusiond.web.audit")


class NotThere(FusionError):
    """What the address names does not exist."""


@dataclass(frozen=True, slots=True)
class Done:
    """How an action ended."""

    #: for people
    sentence: str
    #: whether it did what was asked
    done: bool = True
    #: how many jobs it changed, where it changes jobs
    jobs: int = 0
    #: full name of a new job
    job: str = ""


@dataclass(frozen=True, slots=True)
class WebCall:
    """One request to an endpoint."""

    #: with the queues in which the user has the endpoint's right
    backend: Backend
    user: User
    #: values of its inputs
    said: Mapping[str, Any]
    #: each returns once nobody waits for the answer: the asker has gone, or the dashboard ends
    ends: Sequence[Callable[[], Coroutine[Any, Any, object]]]

    def __getitem__(self, name: str) -> Any:
        return self.said[name]

    @property
    def asker(self) -> str:
        """For the daemon's log and history."""
        return f"dashboard by {self.user}"

    async def while_asked(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work returns; it is canceled if the asker goes away or the dashboard ends. Raises Refusal."""
        doing, ends = asyncio.create_task(work), [asyncio.create_task(end()) for end in self.ends]
        try:
            await asyncio.wait({doing, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise Refusal(503, "the dashboard ends, so this was not done; ask again")
            return doing.result()
        finally:
            for each in (doing, *ends):
                each.cancel()
            await asyncio.wait({doing})


#: a view, or how an action ended
Answer = Callable[[WebCall], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What stands at one address."""

    method: str
    path: str
    answer: Answer
    summary: str
    #: of the view, for the API's document
    returns: type = Done
    inputs: tuple[Input, ...] = ()
    #: of the page; empty: the API alone has it, or it acts and a browser goes back
    template: str = ""
    #: what the user needs, one of RIGHTS; BY_ACTION: what the input `action` says
    right: str = field(kw_only=True)
    #: it is about all queues: the user needs the right in all of them
    everywhere: bool = False

    @property
    def api_path(self) -> str:
        """Below the API's prefix."""
        return "/overview" if self.path == "/" else self.path

    def is_open_to(self, user: User) -> bool:
        """Whether the user has the right, in any queue if that is enough."""
        return user.may_everywhere(self.right) if self.everywhere else user.may(self.right)

    def routes(self) -> list[Route]:
        """For the page and for the API."""
        name = f"{self.method} {self.path}"
        found = [Route(API + self.api_path, self._api, methods=[self.method], name=name)]
        if self.template or self.method == "POST":
            found.append(Route(self.path, self._page, methods=[self.method], name=f"page {name}"))
        return found

    async def _page(self, request: Request) -> Response:
        """For a browser."""
        try:
            view = await self._answer(request, _form)
            if self.template:
                asked = request.query_params
                said = defaultdict(str, asked)
                return responses.page(request, self.template, view=view, said=said, asked=asked.multi_items())
        except Exception as error:  # noqa: BLE001 - every error is a sentence
            pages = request.state.navigation
            if self.path == "/" and pages and isinstance(error, Refusal):
                return RedirectResponse(pages[0][0], 303)  # the first page that the user may see
            return responses.failure(request, *_judged(error))
        key = request.app.state.site.note(view.sentence, well=view.done)
        return RedirectResponse(_with_notice(_back(request, view), key), 303)

    async def _api(self, request: Request) -> Response:
        try:
            view = await self._answer(request, self._json_body)
        except Exception as error:  # noqa: BLE001 - every error is a sentence
            return responses.failure(request, *_judged(error))
        if isinstance(view, Done) and not view.done:
            return responses.failure(request, 409, view.sentence)
        return view if isinstance(view, Response) else responses.as_json(view)

    async def _answer(self, request: Request, read: Callable[[Request], Awaitable[dict[str, list[str]]]]) -> Any:
        site = request.app.state.site
        texts = {name: [value] for name, value in request.path_params.items()}
        if self.method == "GET":
            texts |= parse_qs(request.url.query, max_num_fields=200)
        else:
            texts |= await read(request)
        said, user = gathered(self.inputs, texts), request.state.user
        right, queue = said["action"] if self.right == BY_ACTION else self.right, said.get("queue") or None
        user.require(right, queue, everywhere=self.everywhere)
        ends = (partial(_gone, request), site.closing.wait)
        view = await self.answer(WebCall(site.backend.part_for(user, right, queue), user, said, ends))
        if isinstance(view, Done):
            site.backend.forget()
            audit.info("%s: %s (%s)", user, view.sentence, request.url.path)
        return view

    async def _json_body(self, request: Request) -> dict[str, list[str]]:
        """The members of a JSON object. Raises BadInput."""
        body = await request.body()
        said = read_json("body", body) if body.strip() else {}
        if not isinstance(said, dict):
            raise BadInput("the body is no JSON object")
        return texts_of(self.inputs, said)


def reads(  # noqa: PLR0917 - a row of a table, as in `acts`
    path: str, answer: Answer, summary: str, returns: type, template: str, inputs: tuple[Input, ...] = (), *,
    right: str = "read", everywhere: bool = False,
) -> Endpoint:  # fmt: skip
    """A page, and the same as JSON."""
    return Endpoint("GET", path, answer, summary, returns, inputs, template, right=right, everywhere=everywhere)


def acts(
    right: str, path: str, answer: Answer, summary: str, inputs: tuple[Input, ...] = (), *, everywhere: bool = False
) -> Endpoint:
    """What changes something."""
    return Endpoint("POST", path, answer, summary, inputs=inputs, right=right, everywhere=everywhere)


def view_of(kind: type[T], source: object, **others: Any) -> T:
    """A view: each field has the value that `source` has under the same name, if it is not among `others`."""
    names = [each.name for each in dataclasses.fields(kind) if each.name not in others]  # type: ignore[arg-type]
    return kind(**{name: getattr(source, name) for name in names}, **others)


async def _gone(request: Request) -> None:
    """Return once the browser, or program, has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _form(request: Request) -> dict[str, list[str]]:
    """The fields of a form. Raises BadInput."""
    try:
        return parse_qs((await request.body()).decode(), max_num_fields=2000)
    except ValueError:
        raise BadInput("the form cannot be read, or has too many fields") from None


def _judged(error: Exception) -> tuple[int, str]:
    """Status and sentence."""
    if isinstance(error, NotThere):
        return 404, str(error)
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status, str(error)
    if isinstance(error, Refusal):
        return error.status, error.sentence
    log.error("a request failed", exc_info=error)
    return 500, "this server has made a mistake; its log says which"


def _back(request: Request, view: Done) -> str:
    """Where the browser came from, a page of ours; the page of a new job, if one was made."""
    if view.job:
        return f"/jobs/{view.job}"
    where = urlsplit(request.headers.get("referer", ""))
    same = where.netloc == request.headers.get("host")
    path = where.path.removesuffix("/selection")  # where a question was asked there is no page any more
    return (path or "/") + (f"?{where.query}" if where.query else "") if same else "/"


def _with_notice(where: str, key: str) -> str:
    path, _, query = where.partition("?")
    kept = responses.without_notice(query)
    return f"{path}?{kept}{'&' if kept else ''}done={key}"
