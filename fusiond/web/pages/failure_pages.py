"""Failures, grouped by task and error: the newest group first; requeue or drop a whole group."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fusiond.broker.call import Call
from fusiond.broker.failures import FailureGroup, alike
from fusiond.broker.maintenance.operator import LOCKED
from fusiond.web.backend import Backend
from fusiond.web.endpoint import Done, Endpoint, NotThere, WebCall
from fusiond.web.filters import plural
from fusiond.web.inputs import Input

_GROUP = Input("group", "the id of a group", "path", pattern="[0-9a-f]{16}", required=True)
_QUEUE = Input("queue", "the name of a queue; none: all", pattern="[A-Za-z0-9_.:@-]{1,255}", longest=255)
_DEPTH = Input("depth", "failed jobs to look at, in all", form="number", default=10_000, least=1, most=1_000_000)
#: jobs of one look, and of one change
_PAGE: Final = 250
#: seconds that a look goes on, and one that was asked to go further
_QUICK: Final = 0.15
_LONG: Final = 10.0


@dataclass(frozen=True, slots=True)
class FailureRow:
    """Failed jobs of one task with one error, over all queues."""

    #: for `requeue` and `drop`
    id: str
    task: str
    code: str
    type: str
    #: of the last one
    message: str
    count: int
    #: epoch ms
    first: int
    last: int
    #: full name of the last one
    job: str
    queues: list[str]


@dataclass(frozen=True, slots=True)
class Failures:
    """All groups."""

    groups: list[FailureRow]
    #: failed jobs that were looked at, and that there are
    looked_at: int
    among: int
    queues: list[str]


@dataclass(slots=True)
class _Seen:
    """What a search has found."""

    groups: list[FailureGroup]
    looked_at: int
    among: int


async def _look(backend: Backend, queue: str, depth: int) -> _Seen:
    """The groups of each queue's newest failed jobs. Raises BrokerError, NotThere."""
    counted, _ = await backend.counts()
    if queue and queue not in counted:
        raise NotThere(f"there is no queue {queue!r}")
    failed = {name: counts.failed for name, counts in counted.items() if queue in ("", name) and counts.failed}
    found = _Seen([], 0, sum(failed.values()))
    until = time.monotonic() + (_QUICK if depth <= _DEPTH.default else _LONG)
    for number, (name, there) in enumerate(sorted(failed.items(), key=lambda pair: pair[1])):
        share = min(there, max(1, (depth - found.looked_at) // (len(failed) - number)))
        async for jobs, groups in _pages(backend, partial(backend.verbs.failures, name), share):
            found.looked_at += jobs
            found.groups += groups
            if time.monotonic() > until:
                break
    return found


async def _pages(
    backend: Backend, call: Callable[..., Call[tuple[int, list[Any]]]], most: int
) -> AsyncIterator[tuple[int, list[Any]]]:
    """The replies for a queue's failed jobs, page after page."""
    for start in range(0, most, _PAGE):
        jobs, found = await backend.run(call(start=start, count=min(_PAGE, most - start)))
        yield jobs, found
        if not jobs:
            return


async def failures(backend: Backend, queue: str = "", depth: int = 10_000) -> Failures:
    """The failures, the newest group first. Raises BrokerError."""
    seen = await backend.kept(f"failures {queue} {depth}", lambda: _look(backend, queue, depth))
    return Failures([*map(_row, alike(seen.groups))], seen.looked_at, seen.among, await backend.queues())


def _row(groups: list[FailureGroup]) -> FailureRow:
    newest = groups[0]
    return FailureRow(
        id=newest.digest,
        task=newest.task,
        code=newest.code,
        type=newest.type,
        message=newest.message,
        count=sum(group.jobs for group in groups),
        first=min(group.first for group in groups),
        last=newest.last,
        job=f"{newest.queue}/{newest.id}",
        queues=sorted({group.queue for group in groups}),
    )


async def _show(call: WebCall) -> Failures:
    return await failures(call.backend, call["queue"] or "", call["depth"])


async def _requeue(call: WebCall) -> Done:
    codes, task = await _change(call, partial(call.backend.verbs.requeue, who=call.asker))
    changed, stayed = codes[1] + codes[2], codes[0] + codes[LOCKED]
    rest = f"; {plural(stayed, 'job')} stayed, as another job holds the lock" if stayed else ""
    return Done(f"{plural(changed, 'failed job')} of {task} queued again{rest}", not stayed or bool(changed), changed)


async def _drop(call: WebCall) -> Done:
    codes, task = await _change(call, partial(call.backend.verbs.discard, who=call.asker))
    changed = codes[1] + codes[2]
    later = f", {codes[2]} of them when a minute has passed since the end" if codes[2] else ""
    return Done(f"{plural(changed, 'failed job')} of {task} dropped{later}", jobs=changed)


async def _change(call: WebCall, change: Callable[..., Call[list[int]]]) -> tuple[Counter[int], str]:
    """How often the verb has given each reply for the jobs of the group, and their task. Raises NotThere."""
    backend, depth = call.backend, call["depth"]
    seen = await _look(backend, "", depth)
    keys = {(group.queue, group.key): group for group in seen.groups if group.digest == call["group"]}
    if not keys:
        raise NotThere("no failed job has this error any more")
    codes: Counter[int] = Counter()
    for queue, key in keys:
        # All ids first: what is changed leaves the list, which would shift the pages behind it.
        ids: list[str] = []
        async for _, found in _pages(backend, partial(backend.verbs.failures_of, queue, key), depth):
            ids += found
        for start in range(0, len(ids), _PAGE):
            replies: list[int] = await backend.run(change(queue, ids[start : start + _PAGE]))
            codes.update(replies)
    return codes, next(iter(keys.values())).task


_CHANGE = (
    _GROUP,
    Input("depth", "failed jobs to look at, in all", "body", "number", default=100_000, least=1, most=1_000_000),
)
ENDPOINTS = (
    Endpoint("GET", "/failures", _show, "Failed jobs by task and error", Failures, (_QUEUE, _DEPTH), "failures.html"),
    Endpoint("POST", "/failures/{group}/requeue", _requeue, "Run the failed jobs of a group again", inputs=_CHANGE),
    Endpoint("POST", "/failures/{group}/drop", _drop, "Delete the failed jobs of a group", inputs=_CHANGE),
)
