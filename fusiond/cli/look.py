"""
What `fusiond status` sees: the daemon, by its control socket; queues and workers, by the broker.

Each is shown without the other: a part that is out of reach leaves a sentence and takes nothing else along.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fusiond import paths
from fusiond.cli import source
from fusiond.cli.queue import count_each, documents, listed
from fusiond.cli.table import count, fields, span, table, when
from fusiond.errors import BrokerError, ControlError, FusionError
from fusiond.supervise.control import ask

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from fusiond.broker.complaints import Spoilt
    from fusiond.broker.records import Counts, Worker
    from fusiond.config.model import Broker

#: seconds that the daemon may take to answer
_TIMEOUT: Final = 5.0


@dataclass(slots=True)
class Look:
    """What was seen; a part that is out of reach is None and has its sentence in `errors`."""

    daemon: dict[str, Any] | None = None
    queues: dict[str, Counts] | None = None
    #: None: not asked for
    workers: list[Worker] | None = None
    errors: dict[str, str] = field(default_factory=dict)
    #: what is wrong with the queues that are missing among `queues`
    spoilt: list[Spoilt] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        seen: dict[str, Any] = {"daemon": self.daemon, "queues": self.queues and documents(self.queues)}
        if self.workers is not None:
            seen["workers"] = [{"name": worker.name, **worker.fields} for worker in self.workers]
        return {
            **seen,
            "errors": {**self.errors, **({"queues": "\n".join(map(str, self.spoilt))} if self.spoilt else {})},
        }

    def page(self) -> str:
        """For people."""
        parts = []
        if self.daemon is not None:
            parts += [_daemon(self.daemon), _programs(self.daemon["programs"])]
        if self.queues is not None:
            parts.append(listed(self.queues))
        if self.workers is not None:
            parts.append(_workers(self.workers))
        return "\n\n".join(parts)


def look_around(options: argparse.Namespace) -> Look:
    """Ask the daemon and the broker, each whether the other answers or not."""
    look = Look()
    try:
        settings, runtime = source.place(options)
    except FusionError as error:
        settings, runtime = None, paths.find_runtime()
        look.errors["broker"] = str(error)
    try:
        look.daemon = ask(paths.control_socket(runtime), "status", timeout=_TIMEOUT)
    except ControlError as error:
        look.errors["daemon"] = str(error)
    if settings is not None:
        _look_at_broker(look, settings, runtime, workers=options.workers)
    return look


def _look_at_broker(look: Look, settings: Broker, runtime: Path, *, workers: bool) -> None:
    try:
        with source.desk(settings, runtime) as desk:
            look.queues, look.spoilt = count_each(desk)
            look.workers = desk.run(desk.verbs.workers()) if workers else None
    except BrokerError as error:
        look.errors["broker"] = str(error)


def _daemon(daemon: dict[str, Any]) -> str:
    reload = daemon["reload"]
    how = "ending" if daemon["ending"] else "ready" if daemon["ready"] else "not ready"
    asked = f" by {', '.join(reload['asked_by'])}" if reload and reload["asked_by"] else ""
    return fields(
        [
            ("daemon", f"{how}, pid {daemon['pid']}, up {span(daemon['uptime'])}"),
            ("file", f"{daemon['source']}, generation {daemon['generation']}"),
            ("rollback", _rollback(daemon)),
            ("reload", reload and f"{reload['result']} {when(reload['ended_at'] * 1000, time.time() * 1000)}{asked}"),
            ("reason", reload and reload["reason"]),
        ]
    )


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
    return table(("PROGRAM", "STATE", "PID", "UP", "NOTES"), rows, right="pid up")


def _notes(program: dict[str, Any]) -> Iterator[str]:
    if program["draining"]:
        yield f"draining, {count(program['busy'] or 0, 'job')} left"
    elif program["trial"]:
        yield "on trial"
    elif program["pid"] and not program["ready"]:
        yield "not ready"
    if program["stopped_by_operator"]:
        yield "stopped by the operator"
    if program["deaths"]:
        yield count(program["deaths"], "death")
    if program["reason"]:
        yield program["reason"]


def _born(said: str, now: float) -> str:
    """Epoch ms; a worker's record may be written by others, too."""
    return when(int(said), now) if said.isascii() and said.isdigit() and len(said) < 16 else ""


def _workers(workers: list[Worker]) -> str:
    now = time.time() * 1000
    rows = (
        (
            worker.name,
            said.get("group", ""),
            said.get("state", ""),
            f"{said.get('running', '0')}/{said.get('processes', '?')}",
            said.get("queues", ""),
            _born(said.get("born", ""), now),
            said.get("jobs", ""),
        )
        for worker in workers
        for said in [worker.fields]
    )
    return table(("WORKER", "GROUP", "STATE", "BUSY", "QUEUES", "BORN", "JOBS"), rows, right="busy")
