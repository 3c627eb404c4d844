"""
Take runs of flows a step further.

1. read     the record of a run, and its version
2. settle   what follows from the jobs that have ended (progress.py)
3. begin    each step that may: read the results that it refers to, make its arguments
4. write    the new state together with the jobs that begin, unless the run was changed since it was read. The jobs go
            as effects of the flow's queue; their ids follow from the run, so none begins twice
5. repeat   where somebody else was first, or a step has more jobs than are begun at once

Whoever takes in the end of a step, or sweeps, does this; a run that nobody has advanced within 3 s is told to the next.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from fusiond.argument_values import unique_key
from fusiond.broker.call import Plan
from fusiond.broker.flow_records import RunRecord, RunWrite, StepEnd, StepOf
from fusiond.broker.records import NewJob
from fusiond.broker.verbs import Verbs
from fusiond.enqueue_options import encoded
from fusiond.errors import BadArguments
from fusiond.flows import progress
from fusiond.flows.progress import PAGE, RunState
from fusiond.flows.references import NoValueError, value_of
from fusiond.flows.run_callbacks import callback_job
from fusiond.flows.runs import UNREADABLE, Run, id_of_job, new_fields, opened, requeued_fields
from fusiond.flows.shapes import Shape, StepShape

log = logging.getLogger(__name__)

#: runs that are advanced one after the other by one call
_AT_ONCE: Final = 20
#: ends that are read in one round trip
_ENDS_AT_ONCE: Final = 1000
#: ms after which a run that is being canceled is looked at again: a job may not have reached its queue yet
_CANCEL_AGAIN: Final = 1_000
#: ms after which a run with a refused step is looked at again: its last job may have ended before that was written
_REFUSED_AGAIN: Final = 1_000
#: bytes of arguments that are begun at once of a step, and those of one more job
_PAGE_BYTES: Final = 4_194_304
#: how a run that is a step says that it has ended
_LETTERS: Final = {"finished": "f", "failed": "x", "canceled": "c"}
#: ms for which a run is known after its end at least, so that a repeated start does not run it again
_REMEMBERED: Final = 60_000


class Advancer:
    """Takes the runs of a namespace a step further."""

    def __init__(self, broker: Verbs) -> None:
        self._broker = broker

    def change(
        self, queue: str, id_: str, mutate: Callable[[RunState], bool], event: str = "", who: str = ""
    ) -> Plan[Run | None]:
        """
        Change the state of a run; it is to be advanced then.

        Args:
            queue: of its flow.
            id_: the run.
            mutate: changes the state; returns whether it has.
            event: that is told, if it has changed.
            who: asked for that.
        """
        while True:
            record: RunRecord | None = yield self._broker.run_record(queue, id_)
            if record is None:
                return None
            run = opened(record)
            if not mutate(run.state):
                return run
            write = RunWrite({"state": run.state.to_json()}, again_ms=0, event=event, who=who)
            if (yield self._broker.write_run(queue, id_, record.version, write)):
                return run

    def advance_all(self, queue: str) -> Plan[int]:
        """Take each run of this queue that can go a step further as far as it goes; how many."""
        count = 0
        while advanced := (yield from self.advance_some(queue)):
            count += advanced
        return count

    def advance_some(self, queue: str) -> Plan[int]:
        """The same for up to _AT_ONCE of them; how many."""
        ids: list[str] = yield self._broker.runs_to_advance(queue, _AT_ONCE)
        for run in ids:
            try:
                yield from self.advance(queue, run)
            except UNREADABLE as error:
                # The others go on; this one is tried again later.
                log.error("flow run %s/%s does not go on: %s", queue, run, error)
        return len(ids)

    def advance(self, queue: str, id_: str) -> Plan[Run | None]:
        """Take one run as far as it goes. Returns it as it was written last; None: there is none."""
        while True:
            record: RunRecord | None = yield self._broker.run_record(queue, id_)
            if record is None:
                return None
            run = opened(record)
            write = yield from self._turn(queue, run)
            if (yield self._broker.write_run(queue, id_, record.version, write)) and write.again_ms != 0:
                return run

    def _turn(self, queue: str, run: Run) -> Plan[RunWrite]:
        """Settle and begin; what is to be written. Changes the state of the run."""
        state, write = run.state, RunWrite({}, step_of=run.record.step_of)
        yield from self._cut_short(queue, run)
        while ready := progress.settle(run.flow, state, run.ends):
            for name in ready:
                yield from self._begin(queue, run, name)
        for name, step in state.steps.items():
            if step.left and not (state.suspended or state.canceling) and len(write.jobs) + len(write.runs) < PAGE:
                yield from self._begin_jobs(queue, run, name, write)
        # a step may have been refused
        follows = progress.settle(run.flow, state, run.ends)
        if state.suspended != state.told_suspended:
            yield from self._tell_suspended(queue, run)
        if state.canceling:
            yield from self._cancel_jobs(queue, run)
            write.again_ms = None if state.has_ended else _CANCEL_AGAIN
        elif not state.suspended and (any(step.left for step in state.steps.values()) or follows):
            write.again_ms = 0
        elif any(step.reason and step.status == "running" for step in state.steps.values()):
            write.again_ms = _REFUSED_AGAIN
        write.fields = {"state": state.to_json()}
        write.fields |= {f"t {name}": step.ends for name, step in state.steps.items() if step.total}
        if state.has_ended:
            yield from self._end(queue, run, write)
        return write

    def _begin(self, queue: str, run: Run, name: str) -> Plan[None]:
        """The step runs; or it fails, since it has no list of items."""
        step = run.flow.steps[name]
        if step.for_each is None:
            progress.begin(run.state, name, 1)
            return
        try:
            items = yield from self._items(queue, run, step)
        except NoValueError as error:
            progress.refuse(run.state, name, str(error))
        else:
            progress.begin(run.state, name, len(items))

    def _items(self, queue: str, run: Run, step: StepShape) -> Plan[list[Any]]:
        """What `for_each` refers to. Raises NoValueError where that is not a list."""
        reference = step.for_each or ""
        results = yield from self.results(queue, run, [reference.partition(".")[0]])
        found = value_of(reference, run.inputs, results)
        if not isinstance(found, list):
            raise NoValueError(f"for_each: {reference} is not a list")
        return found

    def _begin_jobs(self, queue: str, run: Run, name: str, write: RunWrite) -> Plan[None]:
        """Have the next jobs of a running step begin; as many as there is room for."""
        step, stands = run.flow.steps[name], run.state.steps[name]
        room = PAGE - len(write.jobs) - len(write.runs)
        first, last = stands.begun, min(stands.total, stands.begun + room)
        try:
            items: Sequence[Any] = (yield from self._items(queue, run, step)) if step.for_each else ()
            named = yield from self.results(queue, run, [each.partition(".")[0] for each in step.inputs.values()])
            given = {key: value_of(each, run.inputs, named) for key, each in step.inputs.items()}
            done = (yield from self._finished(queue, run, name, first, last)) if run.state.round > 1 else set()
            size = 0
            for n in range(first, last):
                if size > _PAGE_BYTES:
                    break
                if n not in done:
                    item = {step.item: items[n]} if step.for_each else {}
                    kwargs = {**step.kwargs, **given, **item}
                    where = StepOf(run.record.id, name, n, stands.round)
                    if step.flow:
                        size += yield from self._begin_run(queue, run, where, kwargs, write)
                    else:
                        write.jobs.append((step.queue, _job(queue, step, where, kwargs)))
                        size += len(write.jobs[-1][1].args)
                stands.begun = n + 1
        except (NoValueError, BadArguments, ValueError) as error:
            yield from self._count_beyond(queue, run, name)
            progress.refuse(run.state, name, str(error))

    def _cut_short(self, queue: str, run: Run) -> Plan[None]:
        """Of a run that is canceled no further job begins."""
        for name, step in run.state.steps.items():
            if run.state.canceling and step.left:
                yield from self._count_beyond(queue, run, name)

    def _count_beyond(self, queue: str, run: Run, name: str) -> Plan[None]:
        """No further job of this step begins: those behind that finished in an earlier round are among its ends."""
        step = run.state.steps[name]
        if step.round > 1:
            step.beyond = len((yield from self._finished(queue, run, name, step.begun, step.total)))

    def _finished(self, queue: str, run: Run, name: str, first: int, last: int) -> Plan[set[int]]:
        """Of a step that is requeued, the jobs that finished before; `first` and `last` are numbers of jobs."""
        ends: list[StepEnd | None] = yield from self._ends(queue, run.record.id, name, first, last)
        return {first + n for n, end in enumerate(ends) if end and end.letter == "f"}

    def _begin_run(self, queue: str, run: Run, where: StepOf, kwargs: dict[str, Any], write: RunWrite) -> Plan[int]:
        """A run of another flow begins as a step of this one; one that was there is requeued. How many bytes."""
        step = run.flow.steps[where.step]
        id_ = id_of_job(step, where._replace(round=1))
        record = (yield self._broker.run_record(queue, id_)) if where.round > 1 else None
        if record is None:
            shape = Shape(step.flow, run.shape.flows)
            inputs = encoded(step.flow, (), kwargs)[4:-1]
            write.runs[id_] = new_fields(shape, where.round) | {"inputs": inputs, "step_of": where.to_text()}
        else:
            write.runs[id_] = requeued_fields(opened(record)) | {"step_of": where.to_text()}
        return sum(len(value) for value in write.runs[id_].values() if isinstance(value, str | bytes))

    # -- what is read -------------------------------------------------------------------------------------------------

    def results(self, queue: str, run: Run, names: Iterable[str]) -> Plan[dict[str, Any]]:
        """The results of these steps; those that did not finish have none."""
        found = {}
        for name in {*names} & run.state.steps.keys():
            if run.state.steps[name].status == "finished":
                found[name] = json.loads((yield from self._raw_result(queue, run, name)))
        return found

    def raw_result(self, queue: str, run: Run) -> Plan[bytes]:
        """The result of a run that finished: raw JSON of each last step's result."""
        parts = []
        for name in run.flow.last_steps():
            is_there = run.state.steps[name].status == "finished"
            raw = (yield from self._raw_result(queue, run, name)) if is_there else b"null"
            parts.append(b'"%b":%b' % (name.encode(), raw))
        return b"{%b}" % b",".join(parts)

    def _raw_result(self, queue: str, run: Run, name: str) -> Plan[bytes]:
        total = run.state.steps[name].total
        ends: list[StepEnd | None] = yield from self._ends(queue, run.record.id, name, 0, total)
        raws = [(end.payload if end else b"") or b"null" for end in ends]
        return raws[0] if run.flow.steps[name].for_each is None else b"[%b]" % b",".join(raws)

    def _ends(self, queue: str, id_: str, name: str, first: int, last: int) -> Plan[list[StepEnd | None]]:
        """How the jobs of a step from `first` up to `last` have ended."""
        found: list[StepEnd | None] = []
        for page in range(first, last, _ENDS_AT_ONCE):
            fields = [f"{name}.{n}" for n in range(page, min(page + _ENDS_AT_ONCE, last))]
            found += yield self._broker.step_ends(queue, id_, fields)
        return found

    def unended(self, queue: str, run: Run, name: str, first: int, last: int) -> Plan[list[StepOf]]:
        """Those jobs of a running step of whose end the run was not told, from number `first` up to `last`."""
        round_ = run.state.steps[name].round
        ends = yield from self._ends(queue, run.record.id, name, first, last)
        return [
            StepOf(run.record.id, name, n, round_)
            for n, end in enumerate(ends, first)
            if end is None or (end.round < round_ and end.letter != "f")
        ]

    def reasons(self, queue: str, run: Run) -> Plan[dict[str, str]]:
        """Step that has failed → why: what it says itself, or the first of its jobs that failed."""
        found = {}
        for name, step in run.state.steps.items():
            if step.status in ("failed", "canceled"):
                ends = [] if step.reason else (yield from self._ends(queue, run.record.id, name, 0, step.begun))
                texts = (end.payload.decode(errors="replace") for end in ends if end and end.letter != "f")
                found[name] = step.reason or next(texts, "") or "it was canceled"
        return found

    # -- the end ------------------------------------------------------------------------------------------------------

    def _end(self, queue: str, run: Run, write: RunWrite) -> Plan[None]:
        status, flow = run.state.status, run.flow
        ttl_ms = flow.result_ttl_ms if status == "finished" else flow.failure_ttl_ms
        write.again_ms, write.kept_ms = None, max(ttl_ms, _REMEMBERED)
        reasons = {} if status == "finished" else (yield from self.reasons(queue, run))
        key = {"finished": "on_success", "failed": "on_failure"}.get(status, "")
        result = b""
        if status == "finished" and (run.record.step_of or key in flow.callbacks):
            result = yield from self.raw_result(queue, run)
        if key in flow.callbacks:
            write.jobs.append(callback_job(queue, run, flow.callbacks[key], result, reasons))
        if run.record.step_of:
            why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            write.end = _LETTERS[status], result or why.encode()
        else:
            write.end = _LETTERS[status], b""

    def _tell_suspended(self, queue: str, run: Run) -> Plan[None]:
        """Suspend the runs that are steps of this one, or resume them."""
        on = run.state.told_suspended = run.state.suspended
        mutate = functools.partial(progress.suspend, on=on)
        for name, stands in run.state.steps.items():
            step = run.flow.steps[name]
            for n in range(stands.begun) if step.flow and stands.status == "running" else ():
                yield from self.change(queue, id_of_job(step, StepOf(run.record.id, name, n, 1)), mutate)

    def _cancel_jobs(self, queue: str, run: Run) -> Plan[None]:
        """Cancel what a run that is canceled has begun, and what has not ended."""
        for name, stands in run.state.steps.items():
            if stands.status != "running":
                continue
            step = run.flow.steps[name]
            wheres = yield from self.unended(queue, run, name, 0, stands.begun)
            if step.flow:
                for where in wheres:
                    yield from self.change(queue, id_of_job(step, where._replace(round=1)), progress.cancel)
            else:
                for page in range(0, len(wheres), PAGE):
                    ids = [id_of_job(step, where) for where in wheres[page : page + PAGE]]
                    yield [self._broker.cancel(step.queue, id_) for id_ in ids]


def _job(queue: str, step: StepShape, where: StepOf, kwargs: dict[str, Any]) -> NewJob:
    """Raises BadArguments, ValueError."""
    return NewJob(
        id_of_job(step, where),
        step.task,
        encoded(step.task, step.args, kwargs),
        step.priority,
        expires_ms=step.expires_ms,
        unique=unique_key(step.unique, step.args, kwargs) if step.unique else None,
        follow=step.follow or None,
        flow=f"{queue} {where.to_text()} {int(step.keep)}",
    )
