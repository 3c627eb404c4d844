"""
Find runs of flows that can never end, and repair them.

1. a run in the list whose record is gone, or cannot be read
2. a job of a running step that is gone, or that has ended while its run was not told: its run waits for ever

A job whose end, or whose begin, is still in an outbox is on its way: nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from fusiond.broker.call import Call, Plan, number, plain
from fusiond.broker.flow_records import RunRecord, StepEnd, StepOf
from fusiond.broker.maintenance.fsck import Finding
from fusiond.broker.verbs import Verbs
from fusiond.flows.run_control import carry
from fusiond.flows.runs import UNREADABLE, Run, id_of_job, opened
from fusiond.job import JobStatus

#: runs, and jobs, that are looked at in one round trip
_RUNS: Final = 1_000_000
_JOBS: Final = 200
#: why a job failed of which nothing is known
_LOST: Final = "LOST: its job was gone, or its end was not told"


class _Awaited(NamedTuple):
    """A job that a run waits for."""

    where: StepOf
    #: of the job, and its id
    queue: str
    id: str


class RunFsck:
    """A look at all runs of a queue; `tell` is given each finding."""

    def __init__(self, broker: Verbs, tell: Callable[[Finding], None], *, repair: bool = False) -> None:
        self._broker, self._tell_one, self._repair = broker, tell, repair

    def queue(self, queue: str) -> Plan[None]:
        """Look at the runs of one queue."""
        for id_ in (yield self._broker.runs(queue, _RUNS)):
            record: RunRecord | None = yield self._broker.run_record(queue, id_)
            if record is None:
                if self._repair:
                    yield self._broker.forget_run(queue, id_)
                self._tell(queue, id_, "is in the list of runs, and has no record", "out of the list")
            else:
                yield from self._look(queue, record)
        if self._repair:
            yield from carry(self._broker, queue, advance=True)

    def _look(self, queue: str, record: RunRecord) -> Plan[None]:
        try:
            run = opened(record)
        except UNREADABLE:
            if self._repair:
                yield self._broker.forget_run(queue, record.id)
            self._tell(queue, record.id, "has a record that cannot be read", "its record is dropped")
            return
        awaited = [*_awaited(run)]
        for page in range(0, len(awaited), _JOBS):
            yield from self._look_at_jobs(queue, awaited[page : page + _JOBS])

    def _look_at_jobs(self, queue: str, jobs: list[_Awaited]) -> Plan[None]:
        # In this order: what is in no outbox before, and is not there now, or has ended and is not told after, is lost.
        on_their_way: list[int] = yield [self._in_outbox(queue, job.queue) for job in jobs]
        stands: list[JobStatus | None] = yield [self._broker.status(job.queue, job.id) for job in jobs]
        ends_on_their_way: list[int] = yield [self._in_outbox(job.queue, queue) for job in jobs]
        told: list[list[StepEnd | None]] = yield [
            self._broker.step_ends(queue, job.where.run, [f"{job.where.step}.{job.where.n}"]) for job in jobs
        ]
        for job, going, status, coming, [end] in zip(jobs, on_their_way, stands, ends_on_their_way, told, strict=True):
            is_told = end is not None and (end.round >= job.where.round or end.letter == "f")
            if is_told or going or coming or (status is not None and not status.ended):
                continue
            if self._repair:
                yield self._broker.end_step(queue, job.where, "x", _LOST)
            what = "is gone" if status is None else f"is {status}, which the run was not told"
            problem = f"waits for job {job.queue}/{job.id}, which {what}"
            self._tell(queue, job.where.run, problem, f"step {job.where.step} has failed; `flow retry` runs it again")

    def _in_outbox(self, source: str, target: str) -> Call[int]:
        return plain(number, "LLEN", f"{self._broker.keys.of(source, 'outbox')}:{target}")

    def _tell(self, queue: str, run: str, problem: str, remedy: str) -> None:
        self._tell_one(
            Finding(queue, "run", problem, remedy, "repaired" if self._repair else "found", key=f"flow:{run}")
        )


def _awaited(run: Run) -> Iterator[_Awaited]:
    """The jobs that the run has begun, and that may not have ended; those of a page that is only now begun, too."""
    for name, stands in run.state.steps.items():
        step = run.flow.steps[name]
        if stands.status == "running" and step.task:
            for n in range(stands.begun):
                where = StepOf(run.record.id, name, n, stands.round)
                yield _Awaited(where, step.queue, id_of_job(step, where))
