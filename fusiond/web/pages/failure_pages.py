"""Failures, grouped by task and error: the newest group first; requeue or drop a whole group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from fusiond.broker.call import Call
from fusiond.inspecting.failure_groups import (
    FailureRow,
    SeenFailures,
    change_failures,
    dropped_in_words,
    look_at_failures,
    requeued_in_words,
)
from fusiond.owners import Owners, owner_of
from fusiond.web.backend import Backend
from fusiond.web.endpoint import Done, NotThere, WebCall, acts, reads
from fusiond.web.inputs import Input

_GROUP = Input("group", "the id of a group", "path", pattern="[0-9a-f]{16}", required=True)
_QUEUE = Input("queue", "the name of a queue; none: all", pattern="[A-Za-z0-9_.:@-]{1,255}", longest=255)
_OWNER = Input("owner", "who answers for them; none: anybody")
_DEPTH = Input("depth", "failed jobs to look at, in all", form="number", default=10_000, least=1, most=1_000_000)
#: seconds that a look goes on, and one that was asked to go further
_QUICK: Final = 0.15
_LONG: Final = 10.0


@dataclass(frozen=True, slots=True)
class Failures:
    """All groups."""

    groups: list[FailureRow]
    #: failed jobs that were looked at, and that there are
    looked_at: int
    among: int
    queues: list[str]
    owners: list[str]


async def failures(backend: Backend, queue: str = "", depth: int = 10_000, owner: str = "") -> Failures:
    """The failures, the newest group first. Raises BrokerError, NotThere."""
    counted, _ = await backend.counts()
    if queue and queue not in counted:
        raise NotThere(f"there is no queue {queue!r}")
    meant = {queue: counted[queue]} if queue else counted

    async def look() -> SeenFailures:
        seconds = _QUICK if depth <= _DEPTH.default else _LONG
        return await backend.run(look_at_failures(backend.verbs, meant, depth, seconds))

    seen = await backend.kept(f"failures {depth} {sorted(meant)}", look)
    known = (await backend.catalogue()).owners
    rows = [row for row in seen.rows(known) if not owner or owner in (row.owner, *_owners(row, known))]
    owners = sorted({each.owner for each in known.values() if each.owner})
    return Failures(rows, seen.looked_at, seen.among, await backend.queues(), owners)


def _owners(row: FailureRow, known: Owners) -> list[str]:
    return [owner_of(known, queue, row.task).owner for queue in row.queues]


async def _show(call: WebCall) -> Failures:
    return await failures(call.backend, call["queue"] or "", call["depth"], call["owner"] or "")


async def _requeue(call: WebCall) -> Done:
    task, codes = await _change(call, call.backend.verbs.requeue)
    changed = codes[1] + codes[2]
    return Done(requeued_in_words(task, codes), bool(changed) or not codes.total(), changed)


async def _drop(call: WebCall) -> Done:
    task, codes = await _change(call, call.backend.verbs.discard)
    return Done(dropped_in_words(task, codes), jobs=codes[1] + codes[2])


async def _change(call: WebCall, verb: Callable[..., Call[list[int]]]) -> tuple[str, Counter[int]]:
    """The task of the group, and how often the verb has given each reply for its jobs. Raises NotThere."""
    counted, _ = await call.backend.counts()
    change = partial(verb, who=call.asker)
    task, codes = await call.backend.run(
        change_failures(call.backend.verbs, counted, call["group"], change, call["depth"])
    )
    if not task:
        raise NotThere("no failed job has this error any more")
    return task, codes


_CHANGE = (
    _GROUP,
    Input("depth", "failed jobs to look at, in all", "body", "number", default=100_000, least=1, most=1_000_000),
)
ENDPOINTS = (
    reads("/failures", _show, "Failed jobs by task and error", Failures, "failures.html", (_QUEUE, _OWNER, _DEPTH)),
    acts("requeue", "/failures/{group}/requeue", _requeue, "Run the failed jobs of a group again", _CHANGE),
    acts("delete", "/failures/{group}/drop", _drop, "Delete the failed jobs of a group", _CHANGE),
)
