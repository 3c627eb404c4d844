"""
The report of `fusiond status` as numbers in Prometheus' text format, version 0.0.4.

If the daemon or the broker is out of reach, `fusiond_daemon_up` or `fusiond_broker_up` is 0, and its other numbers are
missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fusiond.job import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fusiond.broker.records import Counts
    from fusiond.cli.status.report import Report

    #: name, value, labels
    Sample = tuple[str, float, dict[str, str]]

#: name → meaning, in the order of the output; a name that ends in `_total` is a counter, any other a gauge
_MEANINGS: Final = {
    "fusiond_daemon_up": "Whether the daemon answers.",
    "fusiond_broker_up": "Whether Redis answers.",
    "fusiond_uptime_seconds": "Time since the daemon's start.",
    "fusiond_ready": "Whether every group serves and Redis answers, at this moment.",
    "fusiond_config_info": "The running configuration; always 1.",
    "fusiond_config_file_differs": "Whether the file differs from the configuration that runs.",
    "fusiond_config_reloads_total": "Reloads since the daemon's start, by result.",
    "fusiond_config_last_reload_successful": "Whether the last reload was not refused.",
    "fusiond_config_last_reload_timestamp_seconds": "When the last reload ended.",
    "fusiond_program_up": "Whether a program of the daemon serves.",
    "fusiond_queue_jobs": "Jobs of a queue; finished, failed and canceled ones are kept for their time to live.",
    "fusiond_queue_oldest_wait_seconds": "How long the job that has waited longest has been ready to run.",
    "fusiond_queue_broken_total": "Pushed bodies and stored jobs that could not be read.",
    "fusiond_queue_suspended": "Whether the queue is suspended, by an operator or by the file.",
    "fusiond_queue_unserved_jobs": "Waiting jobs of a queue that no living worker group serves.",
}


def exposition(report: Report) -> str:
    """All metrics of a report."""
    lines: dict[str, list[str]] = {name: [] for name in _MEANINGS}
    for name, value, labels in _samples(report):
        lines[name].append(f"{name}{_labels(labels)} {float(value)!r}\n")
    return "".join(_head(name) + "".join(samples) for name, samples in lines.items() if samples)


def _samples(report: Report) -> Iterator[Sample]:
    yield "fusiond_daemon_up", report.daemon is not None, {}
    yield "fusiond_broker_up", report.queues is not None, {}
    if report.daemon is not None:
        yield from _daemon(report.daemon)
    unserved = {each.queue: each.jobs for each in report.unserved}
    for name, counts in (report.queues or {}).items():
        yield from _queue(name, counts, unserved.get(name, 0))


def _daemon(daemon: Mapping[str, Any]) -> Iterator[Sample]:
    yield "fusiond_uptime_seconds", daemon["uptime"], {}
    yield "fusiond_ready", daemon["ready"], {}
    yield "fusiond_config_info", 1, {"generation": str(daemon["generation"]), "hash": daemon["hash"]}
    yield "fusiond_config_file_differs", bool(daemon["file_differs"]), {}
    for result in ("applied", "unchanged", "refused"):
        yield "fusiond_config_reloads_total", daemon["reloads"].get(result, 0), {"result": result}
    if reload := daemon["reload"]:
        yield "fusiond_config_last_reload_successful", reload["result"] != "refused", {}
        yield "fusiond_config_last_reload_timestamp_seconds", reload["ended_at"], {}
    for program in daemon["programs"]:
        yield "fusiond_program_up", program["serves"], {"program": program["name"]}


def _queue(name: str, counts: Counts, unserved: int) -> Iterator[Sample]:
    queue = {"queue": name}
    for status in (*JobStatus, "inbox"):
        yield "fusiond_queue_jobs", getattr(counts, status), {**queue, "status": status}
    yield "fusiond_queue_oldest_wait_seconds", (counts.oldest_wait_ms or 0) / 1000, queue
    yield "fusiond_queue_broken_total", counts.broken, queue
    yield "fusiond_queue_suspended", counts.suspended_by_operator or counts.suspended_by_file, queue
    yield "fusiond_queue_unserved_jobs", unserved, queue


def _head(name: str) -> str:
    kind = "counter" if name.endswith("_total") else "gauge"
    return f"# HELP {name} {_MEANINGS[name]}\n# TYPE {name} {kind}\n"


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
