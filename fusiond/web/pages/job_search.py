"""The search for jobs as a page and the API have it: its inputs, and how long it may take."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

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
    Input("state", "states of jobs; none: all", words=STATES, many=True),
    Input("queue", "the name of a queue; none: all", pattern="[A-Za-z0-9_.:@-]{1,255}", longest=255),
    Input("task", "the name of a task", pattern="[A-Za-z0-9_.-]{1,100}"),
    Input("tag", "the log tag of jobs", longest=255),
    Input("text", "a text in the arguments, the error or the id"),
    Input("since", "a time, or how long ago, such as 2h", form="moment"),
    Input("until", "the same", form="moment"),
)
CURSOR: Final = Input(
    "cursor",
    "of the answer before, to go on behind it; or `first`, to walk over all jobs that fit, queue by queue",
    longest=6_000,
)
DEPTH: Final = Input("depth", "jobs to look at, in all", form="number", default=10_000, least=1, most=1_000_000)


async def search(backend: Backend, said: Any, *, most: int, depth: int, patient: bool = False) -> FoundJobs:
    """
    The newest jobs that fit what a call says, at most `most`. Raises BrokerError, NotThere.

    It takes little time, unless the caller is `patient`, or asks for a depth above the default. With a cursor, and with
    a text unless the caller is patient, it is a walk, which goes on behind the cursor of the last answer.
    """
    queues = await backend.queues()
    if said["queue"] and said["queue"] not in queues:
        raise NotThere(f"there is no queue {said['queue']!r}")
    tasks, tags = ([said[name]] if said[name] else [] for name in ("task", "tag"))
    cursor = said.get("cursor") or ""
    is_walk = bool(cursor or (said["text"] and not patient and depth == DEPTH.default))
    given = {name: said[name] for name in ("text", "since", "until") if said[name]}
    plan = partial(
        walk if is_walk else searched,
        backend.verbs,
        [said["queue"]] if said["queue"] else queues,
        said["state"] or STATES,
        JobFilter(tuple(tasks), tuple(tags), **given),
        most=most,
        secret=await backend.secret(),
        tags=(await backend.catalogue()).log_tags,
    )
    if not is_walk:
        return await backend.run(plan(depth=depth, seconds=_LONG if patient or depth > DEPTH.default else _QUICK))
    try:
        return await backend.run(plan(cursor="" if cursor == "first" else cursor, seconds=_QUICK))
    except ValueError as error:
        raise BadInput(str(error)) from None
