"""The overview: what needs attention, what is being done, what comes next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import add
from typing import Final

from fusiond.broker.counters import MINUTE, Bound, QueueCounters, Tally, series
from fusiond.broker.hosts.host_records import FileInForce
from fusiond.errors import BrokerError
from fusiond.inspecting.outbox_states import outbox_states
from fusiond.inspecting.statistics import usual_times
from fusiond.inspecting.worker_states import unkilled
from fusiond.monitoring.broker_state import sink_states
from fusiond.schedule.drift import Drift, drifts
from fusiond.schedule.held_keeping import stuck_tasks, suspended_tasks
from fusiond.status_document import StatusDocument
from fusiond.web.backend import Backend
from fusiond.web.endpoint import WebCall, reads
from fusiond.web.pages import attention
from fusiond.web.pages.attention import Attention
from fusiond.web.pages.audit_pages import ChartMark, marks
from fusiond.web.pages.cron_pages import CronRow, entries
from fusiond.web.pages.queue_pages import QueueRow, queues
from fusiond.web.pages.worker_pages import GroupRow, WorkerRow, groups_of, workers

#: seconds for which it is believed what the living daemons run
_FILES = 5.0
#: seconds for which the counters are believed
_BELIEVED: Final = 5.0
#: the same for what is usual, which are counters of 7 days
_USUAL: Final = 600.0
#: minutes over which a rate and the times of jobs are told
_LATELY: Final = 10
#: entries and queues that are shown; there are pages for all of them
_ENTRIES, _QUEUES, _HOSTS = 8, 12, 30


@dataclass(frozen=True, slots=True)
class DaemonRow:
    """The daemon of this host."""

    ready: bool
    pid: int
    uptime_s: float
    generation: int
    source: str


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host, or where several files run there a host and a file."""

    #: empty: the daemons that have no worker group, such as one with the scheduler alone
    host: str
    #: as it is published to all hosts
    generation: int
    hash: str
    #: all daemons that run this file
    daemons: int
    #: whether no other one is newer
    newest: bool


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute."""

    #: epoch ms of its begin
    at: int
    finished: int
    failed: int


@dataclass(frozen=True, slots=True)
class Throughput:
    """The last two hours, and what was counted lately."""

    #: oldest first; the last one has not ended
    minutes: list[Minute]
    #: reloads, rollbacks and new releases in these
    marks: list[ChartMark]
    #: jobs that ended in a second, over the last minutes
    per_second: float
    finished: int
    failed: int
    #: jobs that ended in the busiest minute
    busiest: int
    #: within which half and 95 of 100 attempts ran, and waited, over the last minutes; None: there were none
    run_median: Bound | None
    run_95: Bound | None
    wait_median: Bound | None
    wait_95: Bound | None


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at a glance."""

    attention: list[Attention]
    #: None: it does not answer
    daemon: DaemonRow | None
    #: why Redis is out of reach; empty: it answers
    away: str
    running: int
    slots: int
    waiting: int
    failed: int
    queues: list[QueueRow]
    more_queues: int
    groups: list[GroupRow]
    #: those that run the newest published generation first
    hosts: list[HostRow]
    more_hosts: int
    cron: list[CronRow]
    more_cron: int
    #: None: Redis is out of reach
    throughput: Throughput | None


async def _show(call: WebCall) -> Overview:
    status = await call.backend.status()
    try:
        return await _of_broker(call.backend, status)
    except BrokerError as error:
        found = [Attention("bad", str(error), "/workers"), *attention.of_daemon(status)]
        return Overview(found, _daemon(status), str(error), 0, 0, 0, 0, [], 0, [], [], 0, [], 0, None)


async def _of_broker(backend: Backend, status: StatusDocument | None) -> Overview:
    listed, rows, ticking, (files, differing), done = await asyncio.gather(
        queues(backend), workers(backend), entries(backend), _files(backend), _throughput(backend)
    )
    groups = groups_of(rows, {name for name, group in backend.config.workers.items() if group.processes})
    busiest = sorted(listed.queues, key=_interest)
    found = _attention(listed.queues, rows, ticking)
    more = chain(attention.of_daemon(status), attention.of_files(files, differing))
    hosts = _hosts(files)
    long = attention.of_long_runs(rows, await _usual(backend, rows))
    stuck = attention.of_unkilled(unkilled(await backend.workers()))
    counted = (await backend.counts())[0]
    held = attention.of_held_tasks(stuck_tasks(await backend.catalogue(), counted))
    suspended = attention.of_suspended_tasks(suspended_tasks(counted))
    sinks = await backend.run(sink_states(backend.verbs, files, [queue.name for queue in listed.queues]))
    outboxes = attention.of_outboxes(await backend.run(outbox_states(backend.verbs, files)))
    return Overview(
        attention=attention.sorted_by_level(
            [*more, *stuck, *held, *suspended, *long, *attention.of_sinks(sinks), *outboxes, *found]
        ),
        daemon=_daemon(status),
        away="",
        running=sum(queue.started for queue in listed.queues),
        slots=sum(group.slots for group in groups),
        waiting=sum(queue.queued + queue.held for queue in listed.queues),
        failed=sum(queue.failed for queue in listed.queues),
        queues=busiest[:_QUEUES],
        more_queues=max(0, len(busiest) - _QUEUES),
        groups=groups,
        hosts=hosts[:_HOSTS],
        more_hosts=max(0, len(hosts) - _HOSTS),
        cron=ticking[:_ENTRIES],
        more_cron=max(0, len(ticking) - _ENTRIES),
        throughput=done,
    )


def _attention(listed: list[QueueRow], rows: list[WorkerRow], ticking: list[CronRow]) -> Iterable[Attention]:
    return chain(attention.of_queues(listed), attention.of_workers(rows), attention.of_cron(ticking))


def _interest(queue: QueueRow) -> tuple[bool, int, str]:
    """Queues with trouble first, then the longest."""
    return bool(queue.served or not queue.waiting), -(queue.queued + queue.started), queue.name


def _daemon(said: StatusDocument | None) -> DaemonRow | None:
    return said and DaemonRow(said["ready"], said["pid"], said["uptime"], said["generation"], said["source"])


def _hosts(files: list[FileInForce]) -> list[HostRow]:
    newest = max((file.generation for file in files), default=0)
    return [
        HostRow(host, file.generation, file.hash[:12], len(file.daemons), file.generation == newest)
        for file in files
        for host in file.hosts or ("",)
    ]


async def _files(backend: Backend) -> tuple[list[FileInForce], list[Drift]]:
    """What the living daemons run, and the cron entries that they declare differently."""

    async def find() -> tuple[list[FileInForce], list[Drift]]:
        files = await backend.run(backend.verbs.files_in_force())
        differing = drifts(await backend.run(backend.verbs.cron_declarations())) if len(files) > 1 else []
        return files, differing

    return await backend.kept("files", find, _FILES)


async def _usual(backend: Backend, rows: Sequence[WorkerRow]) -> Mapping[str, float]:
    """Task → the s within which half of its attempts ran lately; not asked for while no job runs for long."""
    if not any(job.runs_ms >= attention.LONG_RUN * 1000 for row in rows for job in row.jobs):
        return {}

    async def find() -> Mapping[str, float]:
        tasks = (await backend.catalogue()).tasks
        return await backend.run(usual_times(backend.verbs, await backend.queues(), tasks, time.time()))

    return await backend.kept("usual", find, _USUAL)


async def _throughput(backend: Backend) -> Throughput:
    """All queues together. Raises BrokerError."""

    async def find() -> list[QueueCounters]:
        reading = backend.verbs.counters(await backend.queues(), with_minutes=True)
        return [*reading.read(await backend.run_many(reading.calls)).values()]

    found = await backend.kept("counters", find, _BELIEVED)
    minutes = series(found, now=time.time())
    return _of(minutes, time.time(), await marks(backend, minutes[0][0]))


def _of(minutes: Sequence[tuple[int, Tally]], now: float, marked: list[ChartMark]) -> Throughput:
    lately = reduce(add, (tally for _, tally in minutes[-_LATELY:]), Tally())
    seconds = (_LATELY - 1) * MINUTE + now % MINUTE
    return Throughput(
        minutes=[Minute(at * 1000, tally.finished, tally.failed) for at, tally in minutes],
        marks=marked,
        per_second=lately.ended / seconds,
        finished=sum(tally.finished for _, tally in minutes),
        failed=sum(tally.failed for _, tally in minutes),
        busiest=max((tally.finished + tally.failed for _, tally in minutes), default=0),
        run_median=lately.run.quantile(0.5),
        run_95=lately.run.quantile(0.95),
        wait_median=lately.wait.quantile(0.5),
        wait_95=lately.wait.quantile(0.95),
    )


ENDPOINTS = (reads("/", _show, "Everything at a glance", Overview, "overview.html", everywhere=True),)
