"""
What `fusiond status` shows: the daemon, by its control socket; queues and workers, by the broker.

If one of the two is out of reach, the other is shown all the same.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli.find import broker, daemon
from fusiond.cli.queue import count_each, documents, listed
from fusiond.cli.status.workers import ask_workers, workers_page
from fusiond.cli.terminal.table import fields, table
from fusiond.cli.terminal.text import count, legible, span, when
from fusiond.errors import BrokerError, FusionError
from fusiond.job import JobStatus
from fusiond.schedule.drift import differences, drifts, files_in_words

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from fusiond.broker.records import Catalogue, Counts, FileInForce
    from fusiond.cli.status.workers import SeenWorker
    from fusiond.schedule.drift import Drift

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


@dataclass(slots=True)
class Report:
    """The daemon and the broker; a part that is out of reach is None, and `errors` has the reason."""

    daemon: dict[str, Any] | None = None
    queues: dict[str, Counts] | None = None
    unserved: list[UnservedQueue] = field(default_factory=list)
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
    #: the configurations that living daemons run
    files: list[FileInForce] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        workers = {} if self.workers is None else {"workers": [worker.document() for worker in self.workers]}
        unreadable = {"queues": "\n".join(map(str, self.unreadable))} if self.unreadable else {}
        return {
            "daemon": self.daemon,
            "queues": self.queues and documents(self.queues),
            "unserved": [asdict(each) for each in self.unserved],
            **workers,
            "unkilled": [{"worker": worker, "job": job} for worker, job in self.unkilled],
            "errors": {**self.errors, **unreadable},
            "drift": [each.document() for each in self.drifts],
            "files": [{name: getattr(each, name) for name in ("generation", "hash", "daemons")} for each in self.files],
            "files_differ": differences(self.files),
        }

    def page(self) -> str:
        """For people."""
        parts = []
        if self.daemon is not None:
            parts += [_daemon(self.daemon), _programs(self.daemon["programs"])]
        if self.queues is not None:
            parts.append(listed(self.queues))
        parts += [each.sentence() for each in self.unserved]
        if self.workers is not None:
            parts.append(workers_page(self.workers))
        if self.unkilled:
            rows = ((*each, "its process was killed and has not ended; it keeps its lease") for each in self.unkilled)
            parts.append(table(("WORKER", "JOB", "NOTES"), rows))
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
        report.daemon = daemon.find(options).ask("status", timeout=_TIMEOUT)
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
    report.queues, report.unreadable = count_each(session)
    report.drifts = drifts(session.run(verbs.cron_declarations()))
    report.files = session.run(verbs.files_in_force())
    if options.workers:
        report.workers = ask_workers(session, report.queues)
    known = session.run(verbs.workers())
    report.unkilled = [(worker.name, job) for worker in known for job in worker.fields.get("unkilled", "").split()]
    report.unserved = list(_unserved(session, report.queues, options))


def _unserved(
    session: broker.Session, queues: dict[str, Counts], options: argparse.Namespace
) -> Iterator[UnservedQueue]:
    if not any(counts.waiting for counts in queues.values()):
        return
    catalogue = session.run(session.verbs.catalogue())
    given = (("-c", options.config), ("--namespace", options.namespace))
    place = "".join(f" {option} {shlex.quote(value)}" for option, value in given if value)
    for queue, counts in queues.items():
        if counts.waiting and queue not in catalogue.serving:
            target = _target(session, catalogue, queue)
            command = target and f"fusiond requeue --from-queue {queue} --queue {target}{place}"
            yield UnservedQueue(queue, counts.waiting, command)


def _target(session: broker.Session, catalogue: Catalogue, queue: str) -> str | None:
    """The served queue to which most of the queue's first jobs would go if they were enqueued now."""
    waiting = (JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.STARTED)
    pages = session.run_all([session.verbs.jobs(queue, status, count=_SAMPLE) for status in waiting])
    tasks = [job.task for page in pages for job in page if job.task in catalogue.tasks]
    now = [(task, str(catalogue.tasks[task]["queue"])) for task in tasks]
    found = [each for task, each in now if each != queue and catalogue.serves(task, each)]
    return Counter(found).most_common(1)[0][0] if found else None


def _daemon(daemon: dict[str, Any]) -> str:
    reload, server = daemon["reload"], daemon["server"]
    asked = f" by {', '.join(reload['asked_by'])}" if reload and reload["asked_by"] else ""
    which = "fusiond dev" if daemon["development"] else "daemon"
    state = "ending" if daemon["ending"] else "ready" if daemon["ready"] else "not ready"
    rollback = ""
    if daemon.get("restores") and daemon.get("file_differs"):
        rollback = f"to generation {daemon['restores']}; the file counts again when it changes, or after fusiond reload"
    return fields(
        [
            (which, f"{state}, pid {daemon['pid']}, up {span(daemon['uptime'])}"),
            *(("unready", f"{name}: {why}") for name, why in daemon["unready"].items()),
            ("file", f"{daemon['source']}, generation {daemon['generation']}"),
            ("state", daemon["state_directory"]),
            ("sockets", daemon["runtime_directory"]),
            ("server", server and f"{server['name']} {server['version']}, {server['path']}"),
            ("rollback", rollback),
            ("reload", reload and f"{reload['result']} {when(reload['ended_at'] * 1000, time.time() * 1000)}{asked}"),
            ("reason", reload and reload["reason"]),
        ]
    )


def _programs(programs: list[dict[str, Any]]) -> str:
    rows = (
        (
            program["name"],
            program["state"].lower(),
            str(program["pid"] or ""),
            "" if program["uptime"] is None else span(program["uptime"]),
            ", ".join(_notes(program)),
        )
        for program in programs
    )
    shown = table(("PROGRAM", "STATE", "PID", "UP", "NOTES"), rows, right="pid up")
    return "\n\n".join([shown, *filter(None, map(_last_lines, programs))])


def _last_lines(program: dict[str, Any]) -> str:
    """The last lines that a program logged, if it is down."""
    if not program["wanted"] or not program["last_words"]:
        return ""
    return "\n".join([f"last lines of {program['name']}:", *(f"  {legible(line)}" for line in program["last_words"])])


def _notes(program: dict[str, Any]) -> Iterator[str]:
    if program["draining"]:
        yield f"draining, {count(program['busy'] or 0, 'job')} left"
    elif program["trial"]:
        yield "being tried"
    elif program["pid"] and not program["ready"]:
        yield "not ready"
    elif program["pid"] and not program["serves"]:
        yield "does not serve"
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
