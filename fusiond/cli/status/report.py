"""
What `fusiond status` shows: the daemon, by its control socket; queues and workers, by the broker.

If one of the two is out of reach, the other is shown all the same.
"""

import argparse
import shlex
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import fusiond
from fusiond.broker.event_verbs import SinkState
from fusiond.broker.hosts.host_records import Catalogue, FileInForce
from fusiond.broker.outbox_verbs import OutboxState
from fusiond.broker.pool_verbs import PoolUse
from fusiond.broker.records import Counts, HeldTask
from fusiond.cli.find import broker, daemon
from fusiond.cli.queue import documents, listed
from fusiond.cli.status.workers import SeenWorker, ask_workers, workers_page
from fusiond.cli.terminal.table import fields, table
from fusiond.cli.terminal.text import count, legible, span, when
from fusiond.errors import BrokerError, FusionError
from fusiond.inspecting.outbox_states import all_outbox_sentences, outbox_documents, outbox_states
from fusiond.inspecting.queues import count_each
from fusiond.inspecting.worker_states import drained_queues, unkilled
from fusiond.job import JobStatus
from fusiond.monitoring.broker_state import BrokerState, broker_state, overdue_entries, sink_states
from fusiond.schedule.drift import Drift, differences, drifts, files_in_words
from fusiond.schedule.held_keeping import sentence, stuck_tasks, suspended_tasks, suspension
from fusiond.status_document import ChildNumbers, Drained, ProgramStatus, StatusDocument

#: jobs of a queue from which the queue that they belong to is guessed
_SAMPLE: Final = 20
#: seconds that the daemon may take to answer
_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class UnservedQueue:
    """A queue with waiting jobs from which no living worker group claims."""

    queue: str
    jobs: int
    #: the command that moves the jobs to a queue that is served; None: no living worker group runs their tasks
    command: str | None

    def sentence(self) -> str:
        """For people."""
        verb, them = ("waits", "it") if self.jobs == 1 else ("wait", "them")
        move = f", or move {them}: {self.command}" if self.command else ""
        where = f"in queue '{self.queue}', which no living worker group serves"
        return f"{count(self.jobs, 'job')} {verb} {where}; start a worker group that serves it{move}"


@dataclass(frozen=True, slots=True)
class DrainedQueue:
    """A queue with waiting jobs, all worker groups of which an operator drains."""

    queue: str
    jobs: int
    #: where these groups are
    hosts: tuple[str, ...]

    def sentence(self) -> str:
        """For people."""
        verb = "waits" if self.jobs == 1 else "wait"
        where = f"in queue '{self.queue}', whose worker groups are drained on {', '.join(self.hosts)}"
        return f"{count(self.jobs, 'job')} {verb} {where}; fusiond drain --undo there"


@dataclass(slots=True)
class Report:
    """The daemon and the broker; a part that is out of reach is None, and `errors` has the reason."""

    daemon: StatusDocument | None = None
    queues: dict[str, Counts] | None = None
    unserved: list[UnservedQueue] = field(default_factory=list)
    drained: list[DrainedQueue] = field(default_factory=list)
    #: (queue, task) of held jobs that no living worker group can run
    held: list[tuple[str, HeldTask]] = field(default_factory=list)
    #: suspended tasks
    suspended: list[HeldTask] = field(default_factory=list)
    #: None: not asked for
    workers: list[SeenWorker] | None = None
    #: (worker, `queue/id`) of jobs whose process was killed and has not ended
    unkilled: list[tuple[str, str]] = field(default_factory=list)
    #: `daemon` or `broker` → why it is out of reach
    errors: dict[str, str] = field(default_factory=dict)
    #: errors of the queues that are missing in `queues`
    unreadable: list[BrokerError] = field(default_factory=list)
    #: cron entries that living files declare differently
    drifts: list[Drift] = field(default_factory=list)
    #: cron entry with `alert_if_no_success` → from when on it is overdue, epoch ms; None: it is not
    overdue: dict[str, int | None] = field(default_factory=dict)
    #: the configurations that living daemons run
    files: list[FileInForce] = field(default_factory=list)
    #: how far the sinks of these are
    sinks: dict[str, SinkState] = field(default_factory=dict)
    #: how their outboxes stand
    outboxes: dict[str, OutboxState] = field(default_factory=dict)
    #: pool → how much of it is taken
    pools: dict[str, PoolUse] = field(default_factory=dict)
    #: what the metrics are made of, in place of all the rest; None: not asked for, or out of reach
    broker: BrokerState | None = None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        workers = {} if self.workers is None else {"workers": [worker.document() for worker in self.workers]}
        unreadable = {"queues": "\n".join(map(str, self.unreadable))} if self.unreadable else {}
        return {
            "daemon": self.daemon,
            "queues": self.queues and documents(self.queues),
            "unserved": [asdict(each) for each in self.unserved],
            "drained": [asdict(each) for each in self.drained],
            "held": [
                {"queue": queue, "task": held.task, "jobs": held.jobs, "error": held.error or None}
                for queue, held in self.held
            ],
            "suspended_tasks": [
                {"task": held.task, "jobs": held.jobs, "suspended_by": held.what} for held in self.suspended
            ],
            **workers,
            "unkilled": [{"worker": worker, "job": job} for worker, job in self.unkilled],
            "errors": {**self.errors, **unreadable},
            "overdue": self.overdue,
            "drift": [each.document() for each in self.drifts],
            "files": [
                {name: getattr(each, name) for name in ("generation", "hash", "daemons", "hosts")}
                for each in self.files
            ],
            "files_differ": differences(self.files),
            "sinks": {name: state._asdict() for name, state in self.sinks.items()},
            "outboxes": outbox_documents(self.outboxes),
            "pools": {name: use._asdict() for name, use in self.pools.items()},
        }

    def page(self) -> str:
        """For people."""
        parts = []
        if self.daemon is not None:
            parts += [_daemon(self.daemon), _programs(self.daemon["programs"])]
        if self.queues is not None:
            parts.append(listed(self.queues))
        parts += [each.sentence() for each in self.unserved]
        parts += [each.sentence() for each in self.drained]
        parts += [legible(sentence(queue, held)) for queue, held in self.held]
        parts += [legible(suspension(held)) for held in self.suspended]
        if self.workers is not None:
            parts.append(workers_page(self.workers))
        if self.unkilled:
            rows = ((*each, "its process was killed and has not ended; it keeps its lease") for each in self.unkilled)
            parts.append(table(("WORKER", "JOB", "NOTES"), rows))
        overdue = {entry: since for entry, since in self.overdue.items() if since is not None}
        if overdue:
            parts.append("\n".join(_overdue_sentence(entry, since) for entry, since in overdue.items()))
        parts += [_late_sentence(name, state) for name, state in self.sinks.items() if state.is_late]
        parts += map(legible, all_outbox_sentences(self.outboxes, time.time(), span))
        parts += [use.sentence(name) for name, use in self.pools.items() if use.waiters]
        if len(self.files) > 1:
            parts.append(legible(files_in_words(self.files)))
        if self.drifts:
            parts.append("\n".join(legible(str(each)) for each in self.drifts))
        return "\n\n".join(parts)


def ask(options: argparse.Namespace) -> Report:
    """Ask the daemon and the broker."""
    report = Report()
    options.daemons = None  # --watch looks for the daemons again
    try:
        report.daemon = daemon.find(options).status(_TIMEOUT)
    except FusionError as error:
        report.errors["daemon"] = str(error)
    try:
        with broker.session(options) as session:
            _ask_broker(report, session, options)
    except FusionError as error:
        report.errors["broker"] = str(error)
    return report


def _ask_broker(report: Report, session: broker.Session, options: argparse.Namespace) -> None:
    verbs = session.verbs
    if options.metrics:
        report.broker = session.run(broker_state(verbs))
        report.unreadable = report.broker.unreadable
        return
    report.queues, report.unreadable = session.run(count_each(verbs))
    declarations = session.run(verbs.cron_declarations())
    report.drifts = drifts(declarations)
    report.overdue = session.run(overdue_entries(verbs, declarations))
    report.files = session.run(verbs.files_in_force())
    report.sinks = session.run(sink_states(verbs, report.files, [*report.queues]))
    report.pools = session.run(verbs.pool_uses())
    report.outboxes = session.run(outbox_states(verbs, report.files))
    if options.workers:
        report.workers = ask_workers(session, report.queues)
    workers = session.run(verbs.workers())
    report.unkilled = unkilled(workers)
    catalogue = session.run(verbs.catalogue())
    waiting = {name: each.waiting for name, each in report.queues.items() if each.waiting}
    idle = {name: jobs for name, jobs in waiting.items() if name not in catalogue.serving}
    drained = drained_queues(workers)
    report.drained = [DrainedQueue(name, jobs, drained[name]) for name, jobs in idle.items() if name in drained]
    unserved = {name: jobs for name, jobs in idle.items() if name not in drained}
    report.unserved = list(_unserved(session, catalogue, unserved, options))
    report.held = stuck_tasks(catalogue, report.queues)
    report.suspended = [*suspended_tasks(report.queues).values()]


def _overdue_sentence(entry: str, since: int) -> str:
    ago = when(since, time.time() * 1000)
    return f"cron entry '{legible(entry)}' became overdue {ago}, and none of its jobs has finished since"


def _late_sentence(sink: str, state: SinkState) -> str:
    why = f": {state.failing}" if state.failing else ""
    return legible(f"sink '{sink}' is {span(state.delay)} behind with events{why}")


def _unserved(
    session: broker.Session, catalogue: Catalogue, queues: dict[str, int], options: argparse.Namespace
) -> Iterator[UnservedQueue]:
    given = (("-c", options.config), ("--namespace", options.namespace))
    place = "".join(f" {option} {shlex.quote(value)}" for option, value in given if value)
    for queue, jobs in queues.items():
        target = _target(session, catalogue, queue)
        command = target and f"fusiond requeue --from-queue {queue} --queue {target}{place}"
        yield UnservedQueue(queue, jobs, command)


def _target(session: broker.Session, catalogue: Catalogue, queue: str) -> str | None:
    """The served queue to which most of the queue's first jobs would go if they were enqueued now."""
    waiting = (JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.STARTED)
    pages = session.run_all([session.verbs.jobs(queue, status, count=_SAMPLE) for status in waiting])
    tasks = [job.task for page in pages for job in page if job.task in catalogue.tasks]
    now = [(task, str(catalogue.tasks[task]["queue"])) for task in tasks]
    found = [each for task, each in now if each != queue and catalogue.serves(task, each)]
    return Counter(found).most_common(1)[0][0] if found else None


def _daemon(daemon: StatusDocument) -> str:
    reload, server, version, own = daemon["reload"], daemon["server"], daemon["version"], fusiond.__version__
    asked = f" ({', '.join(reload['asked_by'])})" if reload and reload["asked_by"] else ""
    which = "fusiond dev" if daemon["development"] else "daemon"
    state = "ending" if daemon["ending"] else "ready" if daemon["ready"] else "not ready"
    rollback = left_out = ""
    if daemon["file_differs"]:
        counts = "the file counts again when it changes, or after fusiond reload"
        if daemon["restores"]:
            rollback = f"to generation {daemon['restores']}; {counts}"
        elif not reload:  # `run --last-good`: after a reload, the file is in force or was refused
            left_out = f"{daemon['source']} was left out at the start; {counts}"
    return fields(
        [
            (which, f"{state}, pid {daemon['pid']}, up {span(daemon['uptime'])}"),
            ("version", f"{version}; this command is of {own}" if version != own else ""),
            ("drained", _drained(daemon["drained"])),
            *(("unready", f"{name}: {why}") for name, why in daemon["unready"].items()),
            ("other hosts", ", ".join(daemon["of_other_hosts"])),
            ("file", f"{daemon['source']}, generation {daemon['generation']}"),
            ("state", daemon["state_directory"]),
            ("sockets", daemon["runtime_directory"]),
            ("server", server and f"{server['name']} {server['version']}, {server['path']}"),
            ("rollback", rollback),
            ("last good", left_out),
            ("reload", reload and f"{reload['result']} {when(reload['ended_at'] * 1000, time.time() * 1000)}{asked}"),
            ("reason", reload and reload["reason"]),
        ]
    )


def _drained(drained: Drained | None) -> str:
    if not drained:
        return ""
    ago = when(drained["since"] * 1000, time.time() * 1000)
    return f"{ago} ({drained['by']}): nothing is claimed on this host until fusiond drain --undo"


def _programs(programs: list[ProgramStatus]) -> str:
    rows = ((program["name"], *program_state(program), ", ".join(program_notes(program))) for program in programs)
    shown = table(("PROGRAM", "STATE", "PID", "UP", "NOTES"), rows, right="pid up")
    return "\n\n".join([shown, *filter(None, map(_last_lines, programs))])


def _last_lines(program: ProgramStatus) -> str:
    """The last lines that a program logged, if it is down."""
    if not program["wanted"] or not program["last_words"]:
        return ""
    return "\n".join([f"last lines of {program['name']}:", *(f"  {legible(line)}" for line in program["last_words"])])


def _scaled(scaled: ChildNumbers) -> str:
    """How many children there are, out of which range, and why."""
    least, most = scaled["range"]
    why = f" ({scaled['why']})" if scaled["why"] else ""
    return f"{scaled['processes']} of {least} to {most} processes{why}"


def program_state(program: ProgramStatus) -> tuple[str, str, str]:
    """Its state, its process id and for how long it has run."""
    up = "" if program["uptime"] is None else span(program["uptime"])
    return program["state"].lower(), str(program["pid"] or ""), up


def program_notes(program: ProgramStatus) -> Iterator[str]:
    """What is to be said of a program beside its state."""
    yield from _phase(program)
    if program["stopped_by_operator"]:
        yield "stopped by the operator"
    if program["deaths"]:
        yield count(program["deaths"], "death")
    if program["reason"]:
        yield program["reason"]
    if program["retry_in"] is not None:
        yield f"started again in {program['retry_in']:.0f} s"
    if program["unloaded"] and program["unloaded"] != program["reason"]:
        yield f"does not load: {program['unloaded']}"
    for path, release in program["release"].items():
        if release["loaded"] not in (path, None):
            yield f"runs {release['loaded']}"
        if program["wanted"] and release["loaded"] and release["now"] is None:
            yield f"{path} leads to nothing"
        elif program["wanted"] and release["switched"]:
            yield f"not yet what {path} leads to now: {release['now']}"


def _phase(program: ProgramStatus) -> Iterator[str]:
    if program["draining"]:
        left = "" if program["busy"] is None else f", {count(program['busy'], 'job')} left"
        yield f"draining{left}{', waits for Redis' if program['waits_for_redis'] else ''}"
    elif program["trial"]:
        yield "being tried"
    elif program["pid"] and not program["ready"]:
        yield "not ready"
    elif program["pid"] and not program["serves"]:
        yield "does not serve"
    elif program["scaled"]:
        yield _scaled(program["scaled"])
