"""
What people and producers ask of runs: start, suspend, resume, cancel, requeue, list, show, and the result.

A change is written to the record first; then the run is advanced and the effects delivered, here and now. If this
process ends in between, whoever comes next does the rest.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from fusiond.broker.call import Call, Plan, Unreadable, looked_at
from fusiond.broker.effects import FEW_PAGES, PAGES
from fusiond.broker.flow_records import RunRecord, RunWrite, StepOf
from fusiond.broker.verbs import Verbs
from fusiond.config.model.flow_steps import INPUT
from fusiond.enqueue_options import encoded
from fusiond.errors import BrokerError, BrokerUnavailable, JobCanceled, JobFailed, JobNotFound, ResultTimeout
from fusiond.flows import progress
from fusiond.flows.progress import Ends, RunState
from fusiond.flows.run_callbacks import failure_of
from fusiond.flows.run_plans import Advancer
from fusiond.flows.runs import UNREADABLE, Run, id_of_job, new_fields, opened, requeued_fields
from fusiond.flows.shapes import Shape
from fusiond.masking import HIDDEN, Secret

log = logging.getLogger(__name__)


class RunRef(NamedTuple):
    """Which run."""

    #: of its flow
    queue: str
    id: str

    @classmethod
    def named(cls, name: str) -> RunRef:
        """The run of that full name. Raises ValueError for what is none."""
        queue, _, id_ = name.rpartition("/")
        if not queue or not id_:
            raise ValueError(f"{name!r} is not a full name of a flow run, which is queue/id")
        return cls(queue, id_)

    @property
    def name(self) -> str:
        """`queue/id`, its full name."""
        return f"{self.queue}/{self.id}"


class RunView(NamedTuple):
    """How a run stands, for people."""

    ref: RunRef
    flow: str
    #: running, suspended, canceling, finished, failed or canceled
    status: str
    created_at: int
    #: 0: it goes on
    ended_at: int
    inputs: dict[str, Any]
    run: Run
    #: step that failed → why
    reasons: Mapping[str, str]

    def masked(self, secret: Secret) -> RunView:
        """The same without the inputs that a step passes as a secret argument, or on to a flow, whatever that does."""
        hidden = {
            reference.split(".")[1]
            for step in self.run.flow.steps.values()
            for name, reference in (*step.inputs.items(), (step.item, step.for_each or ""))
            if reference.startswith(f"{INPUT}.") and (step.flow or f"kwargs.{name}" in secret.get(step.task, ()))
        }
        shown = {name: HIDDEN if secret and name in hidden else value for name, value in self.inputs.items()}
        return self._replace(inputs=shown)

    @property
    def parent(self) -> str:
        """The full name of the run of which it is a step; empty: it is none."""
        above = self.run.record.step_of
        return f"{self.ref.queue}/{above.run}" if above else ""

    @property
    def steps_done(self) -> int:
        """How many of its steps have ended."""
        return sum(step.has_ended for step in self.run.state.steps.values())

    def reason(self, step: str) -> str:
        """Why a step failed, or was skipped; empty: it was not."""
        return self.reasons.get(step) or self.run.state.steps[step].reason

    def ends(self, step: str) -> Ends:
        """How many of its jobs have ended."""
        return self.run.ends.get(step, Ends())

    def works(self, step: str, most: int) -> list[str]:
        """The full names of the jobs that a step has begun last, or of the runs if it is a flow; the first `most`."""
        return [self.work(step, n) for n in range(min(self.run.state.steps[step].begun, most))]

    def work(self, step: str, n: int, round_: int = 0) -> str:
        """The full name of one of them, in that round; 0: in the last one."""
        shape, last = self.run.flow.steps[step], self.run.state.steps[step].round
        queue, round_ = (self.ref.queue, 1) if shape.flow else (shape.queue, round_ or last)
        return f"{queue}/{id_of_job(shape, StepOf(self.ref.id, step, n, round_))}"


def no_such_run(name: str) -> JobNotFound:
    """The error about a run that is not there."""
    command = "fusiond flow list shows those that are there"
    return JobNotFound(f"{name}: no such flow run; it may have been dropped after its ttl; {command}")


class RunControl:
    """Makes the plans that change and show the runs of a namespace."""

    def __init__(self, broker: Verbs) -> None:
        self._broker = broker
        self.advancer = Advancer(broker)

    def start(
        self, ref: RunRef, shape: Shape, inputs: Mapping[str, Any], confirm: Call[int] | None = None
    ) -> Plan[RunRef]:
        """
        A run begins; with the id of one that is there, nothing does.

        Only this run is taken further, and a few pages of its queue's effects are delivered: dispatchers and the
        schedulers do what is left.

        Args:
            ref: its queue and id.
            shape: of its flow.
            inputs: of the run.
            confirm: waits until the run is stored as safely as the caller wants; its reply is 0 if that took too long.

        Raises:
            BadArguments: the inputs cannot be stored.
            BrokerUnavailable: `confirm` has replied 0.
        """
        body = encoded(shape.flow, (), dict(inputs))[4:-1]
        write = RunWrite(new_fields(shape) | {"inputs": body}, again_ms=0)
        begin = self._broker.write_run(ref.queue, ref.id, None, write)
        is_new, *confirmed = yield [begin, confirm] if confirm else [begin]
        if confirm and not is_new:
            confirmed = [(yield from self._confirm_again(ref, confirm))]
        if confirmed == [0]:
            raise BrokerUnavailable(f"flow run {ref.name} is not confirmed in time; whether it goes on is unknown")
        try:
            yield from self.advancer.advance(ref.queue, ref.id)
            # the runs that are its steps
            yield from self.advancer.advance_some(ref.queue)
            yield from deliver_effects(self._broker, ref.queue, pages=FEW_PAGES)
        except BrokerError as error:
            log.debug("flow run %s is begun by a daemon: %s", ref.name, error)
        return ref

    def _confirm_again(self, ref: RunRef, confirm: Call[int]) -> Plan[int]:
        """The run was there: an earlier call, on another connection, has stored it. Writes it again as it is."""
        while record := (yield self._broker.run_record(ref.queue, ref.id)):
            same = RunWrite({"state": record.state}, again_ms=0)
            written, confirmed = yield [self._broker.write_run(ref.queue, ref.id, record.version, same), confirm]
            if written:
                return int(confirmed)
        return 0

    def suspend(self, ref: RunRef, *, on: bool, who: str = "") -> Plan[str]:
        """
        Have nothing more begin, or go on; its status then. What runs goes on. Raises JobNotFound.

        `who`: asks, for the event; so in the next two.
        """
        mutate = functools.partial(progress.suspend, on=on)
        return (yield from self._changed(ref, mutate, "flow.suspended" if on else "flow.resumed", who))

    def cancel(self, ref: RunRef, *, who: str = "") -> Plan[bool]:
        """Cancel what runs of it; nothing more begins. False: it has ended already. Raises JobNotFound."""
        run = yield from self._of_root(ref)
        if run.state.has_ended:
            return False
        yield from self._changed(ref, progress.cancel, "flow.cancel.asked", who)
        # A job that waited has ended by this call; nobody else may be there to bring its end.
        steps = [step for flow in run.shape.flows.values() for step in flow.steps.values()]
        for queue in sorted({step.queue for step in steps if step.task}):
            yield from deliver_effects(self._broker, queue)
        return True

    def requeue(self, ref: RunRef, *, who: str = "") -> Plan[bool]:
        """Have the steps run again that did not finish. False: it finished, or goes on. Raises JobNotFound."""
        while True:
            run = yield from self._of_root(ref)
            if run.state.status not in ("failed", "canceled"):
                return False
            write = RunWrite(requeued_fields(run), again_ms=0, event="flow.requeued", who=who)
            if (yield self._broker.write_run(ref.queue, ref.id, run.record.version, write)):
                yield from deliver_effects(self._broker, ref.queue, advance=True)
                return True

    def view(self, ref: RunRef) -> Plan[RunView]:
        """How it stands. Raises JobNotFound."""
        run = yield from self._read(ref)
        reasons = yield from self.advancer.reasons(ref.queue, run)
        record = run.record
        return RunView(
            ref, run.shape.flow, run.state.word, record.created_at, record.ended_at, run.inputs, run, reasons
        )

    def runs(self, queues: Iterable[str], most: int) -> Plan[list[RunView]]:
        """
        The runs of these queues that are not steps of others: those that go on, then those that ended last.

        `most`: of each queue.
        """
        found = []
        for queue in queues:
            for id_ in (yield self._broker.runs(queue, most)):
                try:
                    view = yield from self.view(RunRef(queue, id_))
                except (JobNotFound, Unreadable):
                    continue  # it has been dropped since, or whoever advances it logs the error
                if view.run.record.step_of is None:
                    found.append(view)
        return sorted(found, key=lambda view: (view.ended_at == 0, view.ended_at, view.created_at), reverse=True)

    def result(self, ref: RunRef, timeout: float | None) -> Plan[Any]:
        """Wait until it has ended; last step → its result. Raises as `Run.result`."""
        run = yield from looked_at(lambda: self._read(ref), lambda found: found.state.has_ended, timeout)
        if run.state.has_ended:
            return (yield from self._returned(ref, run))
        raise ResultTimeout(f"flow run {ref.name} has not ended in time: it is {run.state.word}")

    def _returned(self, ref: RunRef, run: Run) -> Plan[Any]:
        status = run.state.status
        if status == "finished":
            return json.loads((yield from self.advancer.raw_result(ref.queue, run)))
        if status == "canceled":
            raise JobCanceled(f"flow run {ref.name} was canceled")
        reasons = yield from self.advancer.reasons(ref.queue, run)
        raise JobFailed("FLOW_FAILED", "", failure_of(reasons))

    def _changed(self, ref: RunRef, mutate: Callable[[RunState], bool], event: str, who: str) -> Plan[str]:
        run = yield from self._of_root(ref)
        yield from self.advancer.change(ref.queue, ref.id, mutate, event, who)
        yield from deliver_effects(self._broker, ref.queue, advance=True)
        run = yield from self._read(ref)
        return run.state.word

    def _of_root(self, ref: RunRef) -> Plan[Run]:
        """A run that is not a step of another one. Raises JobNotFound, JobConflict."""
        run: Run = yield from self._read(ref)
        if run.record.step_of:
            root = RunRef(ref.queue, run.record.step_of.run)
            raise JobNotFound(f"flow run {ref.name} is a step of {root.name}; name that one")
        return run

    def _read(self, ref: RunRef) -> Plan[Run]:
        record: RunRecord | None = yield self._broker.run_record(ref.queue, ref.id)
        if record is None:
            raise no_such_run(ref.name)
        try:
            return opened(record)
        except UNREADABLE as error:
            key = self._broker.keys.of(ref.queue, "flow", ref.id)
            remedy = f"to drop the run, delete {key} and {key}/ends"
            raise Unreadable(f"{ref.name}: its record cannot be read: {error!r}; {remedy}") from error


def deliver_effects(broker: Verbs, queue: str, *, advance: bool = False, pages: int = PAGES) -> Plan[int]:
    """
    Deliver what the effects of a queue has, and take the runs of flows a step further that go on by that.

    Args:
        broker: the verbs.
        queue: the queue.
        advance: its own runs are looked at first.
        pages: of entries, at most, from each queue.

    Returns:
        how many entries were delivered.
    """
    advancer, count, queues = Advancer(broker), 0, [queue]
    if advance:
        yield from advancer.advance_all(queue)
    while queues:
        delivered = yield from broker.delivery(queues.pop(), pages=pages)
        count += delivered.entries
        for other in delivered.to_advance:
            yield from advancer.advance_all(other)
        queues += delivered.to_advance
    return count
