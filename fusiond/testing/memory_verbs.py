"""
The verbs that a client uses, answered by memory in place of Redis.

The catalogue is what a daemon would publish of the file. A verb that is not here makes a Call for Redis, which
`recorder.py` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fusiond.broker.call import Call, Plan
from fusiond.broker.effects import PAGES, Deliveries
from fusiond.broker.flow_records import RunRecord, RunWrite, StepEnd
from fusiond.broker.hosts.catalogue import DaemonRecord, Registry, Serving, declared
from fusiond.broker.hosts.host_records import Declared
from fusiond.broker.maintenance.operator import Canceled
from fusiond.broker.records import JobOutcome, NewJob, Stored
from fusiond.broker.verbs import Verbs
from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.model import Config, serves
from fusiond.schedule.publishing import catalogue
from fusiond.testing.memory_flows import MemoryFlows
from fusiond.testing.memory_jobs import MemoryJobs
from fusiond.testing.recorded_jobs import RecordedJob

T = TypeVar("T")

#: the daemon that would have published the file, and the digest of what it declares
_DAEMON, _CONTENT = "recorder", "recorded"


def answered(answer: Callable[[], T]) -> Call[T]:
    """A Call without words: no Redis is asked."""
    return Call((), lambda _: answer())


class MemoryVerbs(Verbs):
    """Verbs in memory."""

    def __init__(self, config: Config, run: Callable[[RecordedJob], Any]) -> None:
        """`run`: runs a job."""
        super().__init__(config.broker.namespace)
        self._config = config
        self.flow_runs = MemoryFlows(lambda queue, jobs: self.memory.store(queue, jobs, counted=False))
        lengths = {name: queue.max_length for name, queue in config.queues.items()}
        self.memory = MemoryJobs(lengths, run, self.flow_runs.on_job_end)
        self._registry = Registry(0, [], [])
        self._declared = self._declaration()
        self._registry = self._published()

    def function_of(self, task: str) -> str:
        """The dotted path that a task runs."""
        return str(self._declared.tasks[task].get("run")) if task in self._declared.tasks else ""

    # -- the catalogue -------------------------------------------------------------------------------------------------

    def _published(self) -> Registry:
        """What clients would read if one daemon ran the file, with all of its groups."""
        groups = self._config.workers.values()
        serving = [
            Serving(_DAEMON, [name for name in self._config.queues if serves(group.queues, name)], frozenset())
            for group in groups
        ]
        found = Registry(0, [DaemonRecord(_DAEMON, 1, 1, "", _CONTENT)], serving)
        found.contents = {_CONTENT: self._declared}
        return found

    def _declaration(self) -> Declared:
        """What the file declares, read from the message in which a daemon would publish it."""
        plan: Any = catalogue(self, Snapshot(1, "", self._config, Path()), _DAEMON)
        call = next(plan)
        while not (call.script and call.script.name == "publish"):
            call = plan.send(1)
        plan.close()
        return declared(b"\n" + str(call.words[-1]).encode()) or Declared({}, {}, frozenset(), {}, {}, {})

    def _read(self, known: Mapping[str, Declared]) -> Plan[Registry]:  # noqa: ARG002 - as the verb
        yield from ()
        return self._registry

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def enqueue(self, queue: str, jobs: Sequence[NewJob], *, confirmed: bool = False) -> Call[list[Stored]]:  # noqa: ARG002, D102
        return answered(lambda: self.memory.store(queue, jobs))

    def outcome(self, queue: str, id: str) -> Call[JobOutcome | None]:  # noqa: D102
        def look() -> JobOutcome | None:
            job = self.memory.jobs.get((queue, id))
            return None if job is None else JobOutcome(job.status, job.raw_result, job.raw_error)

        return answered(look)

    def cancel(self, queue: str, id: str, *, who: str = "") -> Call[Canceled]:  # noqa: ARG002, D102
        return answered(lambda: self.memory.cancel(queue, id))  # type: ignore[arg-type, return-value]

    def queues(self) -> Call[list[str]]:  # noqa: D102
        return answered(lambda: sorted(self._config.queues))

    def delivery(self, queue: str, *, pages: int = PAGES) -> Plan[Deliveries]:  # noqa: ARG002, D102
        yield from ()
        return Deliveries(0, self.flow_runs.queues_to_advance())

    # -- runs of flows -------------------------------------------------------------------------------------------------

    def run_record(self, queue: str, run: str) -> Call[RunRecord | None]:  # noqa: D102
        read = super().run_record(queue, run).parse
        return answered(lambda: read(self.flow_runs.flat(queue, run)))

    def step_ends(self, queue: str, run: str, fields: Sequence[str]) -> Call[list[StepEnd | None]]:  # noqa: D102
        read = super().step_ends(queue, run, fields).parse
        return answered(lambda: read(self.flow_runs.ends(queue, run, fields)))

    def runs_to_advance(self, queue: str, most: int) -> Call[list[str]]:  # noqa: ARG002, D102
        return answered(lambda: self.flow_runs.to_advance(queue))

    def write_run(self, queue: str, run: str, version: int | None, write: RunWrite) -> Call[bool]:  # noqa: D102
        return answered(lambda: self.flow_runs.write(queue, run, version, write))
