"""
A daemon and its broker as metrics, in the formats that Prometheus reads.

1. samples  the numbers, each under a name of NAMES
2. render   by prometheus-client: OpenMetrics for a reader that asks for it, otherwise the text format 0.0.4

If the daemon or the broker is out of reach, `fusiond_daemon_up` or `fusiond_broker_up` is 0, and its other numbers are
missing. What was counted of jobs is there only where the file has `metrics: true` or `web`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from fusiond.broker.counters import LIMITS, Histogram, QueueCounters, Tally
from fusiond.broker.pool_verbs import PoolUse
from fusiond.broker.records import Counts
from fusiond.job import JobStatus
from fusiond.monitoring.broker_state import BrokerState
from fusiond.owners import Owner, owner_of
from fusiond.status_document import ChildNumbers, ReloadResult, ScalingReason, StatusDocument

#: name, value, labels
Sample = tuple[str, float | Histogram, dict[str, str]]

#: name → meaning, in the order of the output; a name that ends in `_total` is a counter, any other a gauge
NAMES: Final = {
    "fusiond_daemon_up": "Whether the daemon answers.",
    "fusiond_broker_up": "Whether Redis answers.",
    "fusiond_uptime_seconds": "Time since the daemon's start.",
    "fusiond_ready": "Whether every group serves and Redis answers, at this moment.",
    "fusiond_drained": "Whether an operator has drained the host: its groups claim nothing.",
    "fusiond_drained_queue": "A queue from which the groups of a drained host would claim; always 1.",
    "fusiond_config_info": "The running configuration; always 1.",
    "fusiond_config_daemons": "Living daemons of the namespace, on all hosts, by the configuration that they run.",
    "fusiond_config_file_differs": "Whether the file differs from the configuration that runs.",
    "fusiond_config_reloads_total": "Reloads since the daemon's start, by result.",
    "fusiond_config_last_reload_successful": "Whether the last reload was not refused.",
    "fusiond_config_last_reload_timestamp_seconds": "When the last reload ended.",
    "fusiond_program_up": "Whether a program of the daemon serves.",
    "fusiond_program_deaths": "Deaths of a program in a row, none of which came after a long time of service.",
    "fusiond_processes": "Children of a worker group, if `processes` is a range.",
    "fusiond_processes_min": "The least of them, as the file says.",
    "fusiond_processes_max": "The most of them, as the file says.",
    "fusiond_processes_changes_total": "Changes of their number since the group's start, by reason.",
    "fusiond_queue_jobs": "Jobs of a queue; finished, failed and canceled ones are kept for their time to live.",
    "fusiond_queue_oldest_wait_seconds": "How long the job that has waited longest has been ready to run.",
    "fusiond_queue_broken_total": "Pushed bodies and stored jobs that could not be read.",
    "fusiond_queue_suspended": "Whether the queue is suspended, by an operator or by the file.",
    "fusiond_queue_unserved_jobs": "Waiting jobs of a queue that no living worker group serves.",
    "fusiond_cron_overdue": "Whether no job of a cron entry has finished for its alert_if_no_success.",
    "fusiond_sink_delay_seconds": "For how long the oldest event has been there that a sink has not delivered.",
    "fusiond_sink_refused_events_total": "Events that the other side of a sink has refused for good.",
    "fusiond_sink_failing": "Whether a sink could not deliver when it last tried.",
    "fusiond_outbox_waiting": "Rows of an outbox that wait to be handed over, up to 100,000.",
    "fusiond_outbox_refused": "Rows of an outbox of which no job can be made, up to 100,000.",
    "fusiond_outbox_oldest_seconds": "For how long the oldest row of an outbox waits.",
    "fusiond_outbox_failing": "Whether no rows of an outbox can be handed over now.",
    "fusiond_outbox_last_report_timestamp_seconds": "When a daemon last said how an outbox stands; 0: never.",
    "fusiond_pool_slots": "Slots of a pool, as the file says that was published last.",
    "fusiond_pool_held_slots": "Slots of a pool that jobs hold.",
    "fusiond_pool_oldest_wait_seconds": "For how long the task that has waited longest has got no slot of a pool.",
    "fusiond_queue_info": "Who answers for a queue; always 1.",
    "fusiond_cron_info": "Who answers for a cron entry; always 1.",
    "fusiond_job_info": "Who answers for the jobs of a task in a queue; always 1.",
    "fusiond_job_outcomes_total": "What became of jobs: they ended, or an attempt of theirs did and they go on.",
    "fusiond_job_crashes_total": "Attempts that ended with the death of their process, or by their hard timeout.",
    "fusiond_job_holds_total": "How often a limit of the task has held a job.",
    "fusiond_job_cpu_seconds_total": "How long the processor has worked for attempts; with one job to a process only.",
    "fusiond_job_run_seconds": "How long attempts ran.",
    "fusiond_job_wait_seconds": "How long jobs had been ready before an attempt began.",
}
#: those that are histograms
HISTOGRAMS: Final = ("fusiond_job_run_seconds", "fusiond_job_wait_seconds")
#: values of the label `outcome`; jobs of the first three have ended
OUTCOMES: Final = ("finished", "failed", "canceled", "retry", "snoozed", "released", "rescued")


class Rendered(NamedTuple):
    """All metrics as bytes."""

    body: bytes
    content_type: str


def exposition(daemon: StatusDocument | None, broker: BrokerState | None, accept: str = "") -> Rendered:
    """
    All metrics.

    Args:
        daemon: what the daemon says of itself; None: it does not answer.
        broker: what the broker holds; None: it does not answer.
        accept: the header of that name, by which a reader asks for a format.
    """
    encode, content_type = choose_encoder(accept)
    return Rendered(encode(_Families([*_samples(daemon, broker)])), content_type)


class _Families(Collector):
    """The samples by their names."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._of: dict[str, list[tuple[float | Histogram, dict[str, str]]]] = {name: [] for name in NAMES}
        for name, value, labels in samples:
            self._of[name].append((value, labels))

    def collect(self) -> Iterator[Metric]:
        """The families that have samples; prometheus-client calls this."""
        return (_family(name, samples) for name, samples in self._of.items() if samples)


def _family(name: str, samples: list[tuple[float | Histogram, dict[str, str]]]) -> Metric:
    labels = list(samples[0][1])
    if name in HISTOGRAMS:
        histogram = HistogramMetricFamily(name, NAMES[name], labels=labels)
        for value, own in samples:
            if isinstance(value, Histogram):
                histogram.add_metric([*own.values()], _buckets(value), value.seconds)
        return histogram
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = kind(name, NAMES[name], labels=labels)
    for value, own in samples:
        if not isinstance(value, Histogram):
            family.add_metric([*own.values()], float(value))
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Each limit, and how many were not above it."""
    limits = [*map(str, LIMITS), "+Inf"]
    return list(zip(limits, accumulate(map(float, histogram.buckets)), strict=True))


def _samples(daemon: StatusDocument | None, broker: BrokerState | None) -> Iterator[Sample]:
    yield "fusiond_daemon_up", daemon is not None, {}
    yield "fusiond_broker_up", broker is not None, {}
    if daemon is not None:
        yield from _daemon(daemon)
    if broker is None:
        return
    for name, counts in broker.queues.items():
        yield from _queue(name, counts, broker.unserved.get(name, 0))
        yield "fusiond_queue_info", 1, {"queue": name, **owner_of(broker.owners, name)._asdict()}
    for entry, since in broker.overdue.items():
        yield "fusiond_cron_overdue", since is not None, {"entry": entry}
        yield "fusiond_cron_info", 1, {"entry": entry, **broker.owners.get(f"cron {entry}", Owner())._asdict()}
    for file in broker.files:
        labels = {"generation": str(file.generation), "hash": file.hash}
        yield "fusiond_config_daemons", len(file.daemons), labels
    for sink, state in broker.sinks.items():
        yield "fusiond_sink_delay_seconds", state.delay, {"sink": sink}
        yield "fusiond_sink_failing", bool(state.failing), {"sink": sink}
        yield "fusiond_sink_refused_events_total", state.refused, {"sink": sink}
    for outbox, stands in broker.outboxes.items():
        yield "fusiond_outbox_waiting", stands.waiting, {"outbox": outbox}
        yield "fusiond_outbox_refused", stands.refused, {"outbox": outbox}
        yield "fusiond_outbox_oldest_seconds", stands.oldest, {"outbox": outbox}
        yield "fusiond_outbox_failing", bool(stands.failing), {"outbox": outbox}
        yield "fusiond_outbox_last_report_timestamp_seconds", stands.at, {"outbox": outbox}
    yield from _pools(broker.pools)
    for name, counters in broker.counters.items():
        yield from _counted(name, counters)
        for task in counters.totals:
            yield "fusiond_job_info", 1, {"queue": name, "task": task, **owner_of(broker.owners, name, task)._asdict()}


def _pools(uses: Mapping[str, PoolUse]) -> Iterator[Sample]:
    for pool, use in uses.items():
        if use.slots is not None:
            yield "fusiond_pool_slots", use.slots, {"pool": pool}
        yield "fusiond_pool_held_slots", use.held, {"pool": pool}
        yield "fusiond_pool_oldest_wait_seconds", use.oldest, {"pool": pool}


def _daemon(daemon: StatusDocument) -> Iterator[Sample]:
    yield "fusiond_uptime_seconds", daemon["uptime"], {}
    yield "fusiond_ready", daemon["ready"], {}
    yield "fusiond_drained", daemon["drained"] is not None, {}
    for queue in daemon["drained_queues"]:
        yield "fusiond_drained_queue", 1, {"queue": queue}
    yield "fusiond_config_info", 1, {"generation": str(daemon["generation"]), "hash": daemon["hash"]}
    yield "fusiond_config_file_differs", daemon["file_differs"], {}
    for result in get_args(ReloadResult):
        yield "fusiond_config_reloads_total", daemon["reloads"].get(result, 0), {"result": result}
    if reload := daemon["reload"]:
        yield "fusiond_config_last_reload_successful", reload["result"] != "refused", {}
        yield "fusiond_config_last_reload_timestamp_seconds", reload["ended_at"], {}
    for program in daemon["programs"]:
        name = {"program": program["name"]}
        yield "fusiond_program_up", program["serves"], name
        yield "fusiond_program_deaths", program["deaths"], name
        if program["scaled"]:
            yield from _scaled(program["scaled"], name)


def _scaled(scaled: ChildNumbers, program: dict[str, str]) -> Iterator[Sample]:
    least, most = scaled["range"]
    yield "fusiond_processes", scaled["processes"], program
    yield "fusiond_processes_min", least, program
    yield "fusiond_processes_max", most, program
    for reason in get_args(ScalingReason):
        yield "fusiond_processes_changes_total", scaled["changes"].get(reason, 0), {**program, "reason": reason}


def _queue(name: str, counts: Counts, unserved: int) -> Iterator[Sample]:
    queue = {"queue": name}
    for status in (*JobStatus, "inbox"):
        yield "fusiond_queue_jobs", getattr(counts, status), {**queue, "status": status}
    yield "fusiond_queue_oldest_wait_seconds", (counts.oldest_wait_ms or 0) / 1000, queue
    yield "fusiond_queue_broken_total", counts.broken, queue
    yield "fusiond_queue_suspended", counts.is_suspended, queue
    yield "fusiond_queue_unserved_jobs", unserved, queue


def _counted(queue: str, counters: QueueCounters) -> Iterator[Sample]:
    for task, tally in counters.totals.items():
        yield from _task(tally, {"queue": queue, "task": task})


def _task(tally: Tally, labels: dict[str, str]) -> Iterator[Sample]:
    for outcome in OUTCOMES:
        yield "fusiond_job_outcomes_total", getattr(tally, outcome), {**labels, "outcome": outcome}
    yield "fusiond_job_crashes_total", tally.crashes, labels
    yield "fusiond_job_holds_total", tally.held, labels
    yield "fusiond_job_cpu_seconds_total", tally.cpu, labels
    yield "fusiond_job_run_seconds", tally.run, labels
    yield "fusiond_job_wait_seconds", tally.wait, labels
