"""The search for jobs as a page and the API have it: its inputs, and how long it may take."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from fusiond.broker.hosts.host_records import Catalogue
from fusiond.inspecting.search import FoundJobs, JobFilter, walk
from fusiond.inspecting.search import search as searched
from fusiond.web.backend import Backend
from fusiond.web.endpoint import NotThere
from fusiond.web.inputs import BadInput, Input

#: seconds that a search goes on, and one that was asked to go further
_QUICK: Final = 0.15
_LONG: Final = 10.0
#: in the order in which a person asks for them
STATES: Final = ("failed", "started", "queued", "held", "scheduled", "deferred", "canceled", "finished")
#: the inputs of a search
FILTERS: Final = (
    Input("state", "states of jobs; none: all", words=STATES, many=len(STATES)),
    Input("queue", "the name of a queue; none: all", pattern="[A-Za-z0-9_.:@-]{1,255}", longest=255),
    Input("task", "the name of a task", longest=255),
    Input("owner", "who answers for them"),
    Input("tag", "the log tag of jobs", longest=255),
    Input("text", "a text in the arguments, the error or the id"),
    Input("since", "a time, or how long ago, such as 2h", form="moment"),
    Input("until", "the same", form="moment"),
    Input("group", "the id of a group of failures", pattern="[0-9a-f]{16}"),
)
#: how they are sorted
ORDER: Final = Input(
    "order", "scheduled jobs alone: those that are due next first, or the newest", words=("next", "newest")
)
CURSOR: Final = Input(
    "cursor",
    "of the answer before, to go on behind it; or `first`, to walk over all jobs that fit, queue by queue",
    longest=6_000,
)
DEPTH: Final = Input("depth", "jobs to look at, in all", form="number", default=10_000, least=1, most=1_000_000)


async def search(backend: Backend, said: Any, *, most: int, depth: int) -> FoundJobs:
    """
    The newest jobs that fit what a call says, at most `most`. Raises BrokerError, NotThere.

    Of scheduled jobs alone it is those that are due next, unless the call wants the newest. It takes little time,
    unless the caller asks for a depth above the default. With a cursor, and otherwise with a text, it is a walk, which
    goes on behind the cursor of the last answer.
    """
    catalogue, cursor = await backend.catalogue(), said["cursor"] or ""
    soonest = said["state"] == ["scheduled"] and said["order"] != "newest"
    is_walk = bool(cursor or (said["text"] and depth == DEPTH.default and not soonest))
    plan = partial(
        walk if is_walk else searched,
        backend.verbs,
        await queues_of(backend, said),
        said["state"] or STATES,
        filter_of(said, catalogue),
        most=most,
        secret=await backend.secret(),
        tags=catalogue.log_tags,
    )
    if not is_walk:
        seconds = _LONG if depth > DEPTH.default else _QUICK
        return await backend.run(plan(depth=depth, seconds=seconds, soonest=soonest))
    try:
        return await backend.run(plan(cursor="" if cursor == "first" else cursor, seconds=_QUICK))
    except ValueError as error:
        raise BadInput(str(error)) from None


async def queues_of(backend: Backend, said: Any) -> list[str]:
    """Where to look. Raises BrokerError, NotThere."""
    queues = await backend.queues()
    if said["queue"] and said["queue"] not in queues:
        raise NotThere(f"there is no queue {said['queue']!r}")
    return [said["queue"]] if said["queue"] else queues


def filter_of(said: Any, catalogue: Catalogue) -> JobFilter:
    """What a call says of the jobs, apart from queue and state."""
    tasks, tags = ([said[name]] if said[name] else [] for name in ("task", "tag"))
    given = {name: said[name] for name in ("text", "since", "until", "group") if said[name]}
    if said["owner"]:
        given["is_owned"] = partial(catalogue.answers, [said["owner"]])
    return JobFilter(tuple(tasks), tuple(tags), **given)
