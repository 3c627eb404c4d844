"""Failures, grouped by task and error: the newest group first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fusiond.inspecting.failure_groups import FailureRow, SeenFailures, look_at_failures
from fusiond.owners import Owners, owner_of
from fusiond.web.backend import Backend
from fusiond.web.endpoint import NotThere, WebCall, reads
from fusiond.web.inputs import Input

QUEUE = Input("queue", "the name of a queue; none: all", pattern="[A-Za-z0-9_.:@-]{1,255}", longest=255)
OWNER = Input("owner", "who answers for them; none: anybody")
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


async def failures(
    backend: Backend, queue: str = "", depth: int = 10_000, owner: str = "", seconds: float = _QUICK
) -> Failures:
    """The failures, the newest group first. Raises BrokerError, NotThere."""
    counted, _ = await backend.counts()
    if queue and queue not in counted:
        raise NotThere(f"there is no queue {queue!r}")
    meant = {queue: counted[queue]} if queue else counted

    async def look() -> SeenFailures:
        return await backend.run(look_at_failures(backend.verbs, meant, depth, seconds))

    seen = await backend.kept(f"failures {depth} {sorted(meant)}", look)
    known = (await backend.catalogue()).owners
    rows = [row for row in seen.rows(known) if not owner or owner in (row.owner, *_owners(row, known))]
    owners = sorted({each.owner for each in known.values() if each.owner})
    return Failures(rows, seen.looked_at, seen.among, await backend.queues(), owners)


def _owners(row: FailureRow, known: Owners) -> list[str]:
    return [owner_of(known, queue, row.task).owner for queue in row.queues]


async def _show(call: WebCall) -> Failures:
    seconds = _QUICK if call["depth"] <= _DEPTH.default else _LONG
    return await failures(call.backend, call["queue"] or "", call["depth"], call["owner"] or "", seconds)


ENDPOINTS = (
    reads("/failures", _show, "Failed jobs by task and error", Failures, "failures.html", (QUEUE, OWNER, _DEPTH)),
)
