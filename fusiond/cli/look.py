"""
What `fusiond status` sees: the daemon, by its control socket; queues and workers, by the broker.

Each is shown without the other: a part that is out of reach leaves a sentence and takes nothing else along.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import source
from fusiond.cli import workers as seen_workers
from fusiond.cli.queue import count_each, documents, listed
from fusiond.cli.table import count, fields, legible, span, table, when
from fusiond.errors import BrokerError, FusionError
from fusiond.job import JobStatus
from fusiond.schedule.drift import differences, drifts, files_in_words

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from fusiond.broker.records import Catalogue, Counts, FileInForce
    from fusiond.broker.redis.redis_errors import Spoilt
    from fusiond.config.model import Broker
    from fusiond.schedule.drift import Drift

#: jobs of a queue that are looked at for where they could go
_SAMPLE: Final = 20
#: seconds that the daemon may take to answer
_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class Unserved:
    """A queue with jobs that wait, from which no living worker group claims."""

    queue: str
    jobs: int
    #: a served queue in which a living daemon's file has the tasks of these jobs; None: there is none
    target: str | None
    #: what the operator gave to find this broker, to be given again
    place: str

    @property
    def command(self) -> str | None:
        """What moves the jobs to where they run."""
        if self.target is None:
            return None
        return f"fusiond requeue --from-queue {self.queue} --queue {self.target}{self.place}"

    def sentence(self) -> str:
        """For people."""
        wait = "1 job waits" if self.jobs == 1 else f"{self.jobs:,} jobs wait"
        remedy = "start a worker group that serves it"
        return f"{wait} in queue '{self.queue}', which no living worker group serves; {remedy}" + (
            f", or move {'it' if self.jobs == 1 else 'them'}: {self.command}" if self.command else ""
        )


@dataclass(slots=True)
class Look:
    """What was seen; a part that is out of reach is None and has its sentence in `errors`."""

    daemon: dict[str, Any] | None = None
    queues: dict[str, Counts] | None = None
    unserved: list[Unserved] = field(default_factory=list)
    #: None: not asked for
    workers: list[seen_workers.Seen] | None = None
    #: (worker, `queue/id`) of jobs whose process was killed and has not ended
    unkilled: list[tuple[str, str]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    #: what is wrong with the queues that are missing among `queues`
    spoilt: list[Spoilt] = field(default_factory=list)
    #: cron entries that living files declare differently
    drifts: list[Drift] = field(default_factory=list)
    #: the configurations that living daemons run
    files: list[FileInForce] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        seen: dict[str, Any] = {"daemon": self.daemon, "queues": self.queues and documents(self.queues)}
        seen["unserved"] = [{"queue": e.queue, "jobs": e.jobs, "command": e.command} for e in self.unserved]
        if self.workers is not None:
            seen["workers"] = [worker.document() for worker in self.workers]
        return {
            **seen,
            "unkilled": [{"worker": worker, "job": job} for worker, job in self.unkilled],
            "errors": {**self.errors, **({"queues": "\n".join(map(str, self.spoilt))} if self.spoilt else {})},
            "drift": [each.document() for each in self.drifts],
            "files": [{"generation": f.generation, "hash": f.hash, "daemons": f.daemons} for f in self.files],
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
            parts.append(seen_workers.page(self.workers))
        if self.unkilled:
            parts.append(_unkilled(self.unkilled))
        if len(self.files) > 1:
            parts.append(legible(files_in_words(self.files)))
        if self.drifts:
            parts.append("\n".join(legible(str(each)) for each in self.drifts))
        return "\n\n".join(parts)


def look_around(options: argparse.Namespace) -> Look:
    """Ask the daemon and the broker, each whether the other answers or not."""
    look = Look()
    options.daemons = None  # --watch looks again
    try:
        look.daemon = source.daemon(options).ask("status", timeout=_TIMEOUT)
    except FusionError as error:
        look.errors["daemon"] = str(error)
    try:
        settings, runtime = source.place(options)
    except FusionError as error:
        look.errors["broker"] = str(error)
    else:
        _look_at_broker(look, settings, runtime, options)
    return look


def _look_at_broker(look: Look, settings: Broker, runtime: Path, options: argparse.Namespace) -> None:
    try:
        with source.desk(settings, runtime) as desk:
            look.queues, look.spoilt = count_each(desk)
            declarations = desk.run(desk.verbs.cron_declarations())
            look.drifts = drifts(declarations)
            look.files = desk.run(desk.verbs.files_in_force())
            look.workers = seen_workers.ask(desk, look.queues) if options.workers else None
            known = desk.run(desk.verbs.workers())
            look.unkilled = [(one.name, job) for one in known for job in one.fields.get("unkilled", "").split()]
            look.unserved = list(_unserved(desk, look.queues, options))
    except BrokerError as error:
        look.errors["broker"] = str(error)


def _unserved(desk: source.Desk, queues: dict[str, Counts], options: argparse.Namespace) -> Iterator[Unserved]:
    """The queues with jobs that nothing takes."""
    if not any(counts.waiting for counts in queues.values()):
        return
    catalogue = desk.run(desk.verbs.catalogue())
    place = "".join(
        f" {option} {shlex.quote(given)}"
        for option, given in (("-c", options.config), ("--namespace", options.namespace))
        if given
    )
    for queue, counts in queues.items():
        if counts.waiting and queue not in catalogue.serving:
            yield Unserved(queue, counts.waiting, _target(desk, catalogue, queue), place)


def _target(desk: source.Desk, catalogue: Catalogue, queue: str) -> str | None:
    """Where most of the first jobs of a queue would go if they were enqueued now, and be run."""
    waiting = (JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.STARTED)
    pages = desk.run_all([desk.verbs.jobs(queue, status, count=_SAMPLE) for status in waiting])
    tasks = [job.task for page in pages for job in page if job.task in catalogue.tasks]
    now = [(task, str(catalogue.tasks[task]["queue"])) for task in tasks]
    found = [each for task, each in now if each != queue and catalogue.serves(task, each)]
    return Counter(found).most_common(1)[0][0] if found else None


def _daemon(daemon: dict[str, Any]) -> str:
    reload = daemon["reload"]
    asked = f" by {', '.join(reload['asked_by'])}" if reload and reload["asked_by"] else ""
    how = "ending" if daemon["ending"] else "ready" if daemon["ready"] else "not ready"
    return fields(
        [
            (
                "fusiond dev" if daemon["development"] else "daemon",
                f"{how}, pid {daemon['pid']}, up {span(daemon['uptime'])}",
            ),
            *(("unready", f"{name}: {why}") for name, why in daemon["unready"].items()),
            ("file", f"{daemon['source']}, generation {daemon['generation']}"),
            ("state", daemon["state_directory"]),
            ("sockets", daemon["runtime_directory"]),
            ("server", _server(daemon["server"])),
            ("rollback", _rollback(daemon)),
            ("reload", reload and f"{reload['result']} {when(reload['ended_at'] * 1000, time.time() * 1000)}{asked}"),
            ("reason", reload and reload["reason"]),
        ]
    )


def _server(server: dict[str, Any] | None) -> str:
    """The embedded server."""
    return f"{server['name']} {server['version']}, {server['path']}" if server else ""


def _rollback(daemon: dict[str, Any]) -> str:
    """What an operator went back to outranks the file until it changes."""
    if not (daemon.get("restores") and daemon.get("file_differs")):
        return ""
    return f"to generation {daemon['restores']}; the file is taken again when it changes, or by fusiond reload"


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
    return "\n\n".join([shown, *filter(None, map(_last_words, programs))])


def _last_words(program: dict[str, Any]) -> str:
    """What a program that is down logged last."""
    if not program["wanted"] or not program["last_words"]:
        return ""
    return "\n".join([f"last words of {program['name']}:", *(f"  {legible(line)}" for line in program["last_words"])])


def _notes(program: dict[str, Any]) -> Iterator[str]:
    if program["draining"]:
        yield f"draining, {count(program['busy'] or 0, 'job')} left"
    elif program["trial"]:
        yield "on trial"
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


def _unkilled(jobs: list[tuple[str, str]]) -> str:
    rows = ((worker, job, "its process was killed and has not ended; it keeps its lease") for worker, job in jobs)
    return table(("WORKER", "JOB", "NOTES"), rows)
