"""
What `fusiond status` sees, as numbers for Prometheus: its text exposition format, version 0.0.4.

A part that is out of reach is said to be away, by `fusiond_daemon_up` or `fusiond_broker_up`, and has no other numbers.
Nothing here waits for the jobs themselves: what is counted is what the daemon and Redis count anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fusiond.broker.records import Counts
    from fusiond.cli.look import Look

#: a metric's labels, and its value
Sample = tuple["dict[str, str]", float]

_RESULTS: Final = ("applied", "unchanged", "refused")
_STATUSES: Final = ("deferred", "scheduled", "queued", "started", "finished", "failed", "canceled", "inbox")


def exposition(look: Look) -> str:
    """All metrics of a look."""
    families = [
        _family("fusiond_daemon_up", "gauge", "Whether the daemon answers.", [({}, look.daemon is not None)]),
        _family("fusiond_broker_up", "gauge", "Whether Redis answers.", [({}, look.queues is not None)]),
    ]
    if look.daemon is not None:
        families += _daemon(look.daemon)
    if look.queues is not None:
        families += [*_queues(look.queues), _unserved(look)]
    return "".join(families)


def _daemon(daemon: Mapping[str, Any]) -> list[str]:
    programs = daemon["programs"]
    return [
        _family("fusiond_uptime_seconds", "gauge", "Time since the daemon's start.", [({}, daemon["uptime"])]),
        _family(
            "fusiond_ready",
            "gauge",
            "Whether every group serves and Redis answers, at this moment.",
            [({}, daemon["ready"])],
        ),
        _family(
            "fusiond_config_info",
            "gauge",
            "The running configuration; always 1.",
            [({"generation": str(daemon["generation"]), "hash": daemon["hash"]}, 1)],
        ),
        _family(
            "fusiond_config_file_differs",
            "gauge",
            "Whether the file differs from the configuration that runs.",
            [({}, bool(daemon["file_differs"]))],
        ),
        _family(
            "fusiond_config_reloads_total",
            "counter",
            "Reloads since the daemon's start, by result.",
            [({"result": result}, daemon["reloads"].get(result, 0)) for result in _RESULTS],
        ),
        *_last_reload(daemon["reload"]),
        _family(
            "fusiond_program_up",
            "gauge",
            "Whether a program of the daemon serves.",
            [({"program": program["name"]}, program["serves"]) for program in programs],
        ),
    ]


def _last_reload(reload: Mapping[str, Any] | None) -> list[str]:
    """Nothing before the first one."""
    if reload is None:
        return []
    return [
        _family(
            "fusiond_config_last_reload_successful",
            "gauge",
            "Whether the last reload was not refused.",
            [({}, reload["result"] != "refused")],
        ),
        _family(
            "fusiond_config_last_reload_timestamp_seconds",
            "gauge",
            "When the last reload ended.",
            [({}, reload["ended_at"])],
        ),
    ]


def _queues(queues: Mapping[str, Counts]) -> list[str]:
    return [
        _family(
            "fusiond_queue_jobs",
            "gauge",
            "Jobs that a queue holds; finished, failed and canceled ones are kept for their time to live.",
            [
                ({"queue": name, "status": status}, getattr(counts, status))
                for name, counts in queues.items()
                for status in _STATUSES
            ],
        ),
        _family(
            "fusiond_queue_oldest_wait_seconds",
            "gauge",
            "How long the job that has waited longest has been ready to run.",
            [({"queue": name}, (counts.oldest_wait_ms or 0) / 1000) for name, counts in queues.items()],
        ),
        _family(
            "fusiond_queue_broken_total",
            "counter",
            "Pushed bodies and stored jobs that could not be read.",
            [({"queue": name}, counts.broken) for name, counts in queues.items()],
        ),
        _family(
            "fusiond_queue_suspended",
            "gauge",
            "Whether the queue is suspended, by an operator or by the file.",
            [
                ({"queue": name}, counts.suspended_by_operator or counts.suspended_by_file)
                for name, counts in queues.items()
            ],
        ),
    ]


def _unserved(look: Look) -> str:
    """The one metric that needs the worker groups of all daemons."""
    jobs = {each.queue: each.jobs for each in look.unserved}
    return _family(
        "fusiond_queue_unserved_jobs",
        "gauge",
        "Waiting jobs of a queue that no living worker group serves.",
        [({"queue": name}, jobs.get(name, 0)) for name in look.queues or ()],
    )


def _family(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP {name} {meaning}\n", f"# TYPE {name} {kind}\n"]
    lines += [f"{name}{_labels(labels)} {float(value)!r}\n" for labels, value in samples]
    return "".join(lines)


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
