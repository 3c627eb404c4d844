"""Workers: the programs of this host, and each worker of each host with what it runs."""

from __future__ import annotations

from dataclasses import dataclass

from fusiond.broker.hosts.host_records import Worker, whole
from fusiond.inspecting.worker_states import state_of, suspended_queues
from fusiond.status_document import ReloadOutcome, StatusDocument
from fusiond.web.backend import Backend
from fusiond.web.endpoint import Done, NotThere, WebCall, acts, reads
from fusiond.web.inputs import Input

GROUP = Input("group", "the name of a worker group", "path", pattern="[A-Za-z0-9_.-]{1,100}", required=True)


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs."""

    #: its full name, `queue/id`
    job: str
    task: str
    runs_ms: int
    #: how far it has said that it is, 0 to 1
    share: float | None
    message: str


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """The process of a worker group on one host."""

    #: `<host>.<pid>`
    name: str
    host: str
    group: str
    #: started, idle, busy, suspended, draining or gone
    state: str
    running: int
    slots: int
    processes: int
    queues: list[str]
    #: epoch ms
    started_at: int
    #: why it does not serve; empty: it does
    trouble: str
    jobs: list[RunningJob]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """All workers of one name, over all hosts."""

    name: str
    running: int
    slots: int
    workers: int
    hosts: list[str]
    gone: int
    #: whether the daemon of this host runs it, so that it can be restarted here
    here: bool


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """A program of this host's daemon."""

    name: str
    state: str
    pid: int | None
    uptime_s: float | None
    deaths: int
    serves: bool
    #: resident memory in bytes; None: not known
    memory: int | None
    #: what is wrong with it, in its own words
    reason: str
    last_words: list[str]


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A limit that tasks share; `max_running` of the file, too."""

    name: str
    #: None: it limits a rate alone
    slots: int | None
    held: int
    #: s since when the first of the waiters waits
    oldest: float
    #: tasks, or dispatchers for `max_running`
    waiters: list[str]


@dataclass(frozen=True, slots=True)
class Workers:
    """Everything that works."""

    groups: list[GroupRow]
    workers: list[WorkerRow]
    #: None: this host's daemon does not answer
    programs: list[ProgramRow] | None
    pools: list[PoolRow]


async def workers(backend: Backend) -> list[WorkerRow]:
    """All workers that were heard in the last minute. Raises BrokerError."""
    counted, _ = await backend.counts()
    suspended = suspended_queues(counted)
    return [_row(worker, suspended) for worker in await backend.workers()]


def groups_of(rows: list[WorkerRow], here: set[str]) -> list[GroupRow]:
    """The groups of these workers, and those of this host's file that have none."""
    found = []
    for name in sorted({row.group for row in rows} | here):
        own = [row for row in rows if row.group == name]
        heard = [row for row in own if row.state != "gone"]
        numbers = sum(row.running for row in heard), sum(row.slots for row in heard), len(own)
        hosts = sorted({row.host for row in own})
        found.append(GroupRow(name, *numbers, hosts, len(own) - len(heard), name in here))
    return found


def _row(worker: Worker, suspended: set[str]) -> WorkerRow:
    said = worker.fields
    slots = whole(said.get("slots")) or whole(said.get("processes"))
    return WorkerRow(
        name=worker.name,
        host=worker.name.rpartition(".")[0],
        group=said.get("group", ""),
        state=state_of(worker, suspended, answered=not worker.is_gone),
        running=whole(said.get("running")),
        slots=slots,
        processes=whole(said.get("processes")),
        queues=worker.queues,
        started_at=whole(said.get("born")),
        trouble=said.get("trouble", ""),
        jobs=[
            RunningJob(each["job"], each["task"], each["ms"], each.get("share"), each.get("message", ""))
            for each in worker.jobs
        ],
    )


def programs_of(status: StatusDocument) -> list[ProgramRow]:
    """The programs of a daemon's status."""
    return [
        ProgramRow(
            name=each["name"],
            state=each["state"].lower(),
            pid=each["pid"],
            uptime_s=each["uptime"],
            deaths=each["deaths"],
            serves=each["serves"],
            memory=_memory(each["pid"]),
            reason=each["reason"],
            last_words=each["last_words"] if each["wanted"] else [],
        )
        for each in status["programs"]
    ]


def _memory(pid: int | None) -> int | None:
    """Resident bytes of a process; None: it has ended, or its numbers may not be read."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123 - a path of the kernel's
            return int(file.read().split()[1]) * 4096
    except (OSError, ValueError, IndexError):
        return None


async def _show(call: WebCall) -> Workers:
    status = await call.backend.status()
    rows = await workers(call.backend)
    here = {name for name, group in call.backend.config.workers.items() if group.processes}
    uses = await call.backend.run(call.backend.verbs.pool_uses())
    pools = [PoolRow(name, *use[:3], [*use.waiters]) for name, use in uses.items()]
    return Workers(groups_of(rows, here), rows, None if status is None else programs_of(status), pools)


async def _restart(call: WebCall) -> Done:
    """Replace a group by a new one of the same configuration; running jobs end in the old one."""
    name = call["group"]
    if name not in call.backend.config.workers:
        raise NotThere(f"this host's file has no worker group {name!r}")
    who = f"restart of {name}, {call.asker}"
    outcome: ReloadOutcome = await call.backend.ask_daemon("reload", who, name, patience=120.0)
    return Done(f"{name}: {outcome['summary']}", outcome["result"] != "refused")


_RESTART = "Replace a group by a new one; running jobs end in the old one. A changed file is applied, too"
ENDPOINTS = (
    reads("/workers", _show, "Worker groups, workers and programs", Workers, "workers.html", everywhere=True),
    acts("reload", "/workers/{group}/restart", _restart, _RESTART, (GROUP,), everywhere=True),
)
