"""Flows: the runs, and one run as a graph with the state of each step; suspend, resume, cancel, requeue, start."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fusiond.broker.call import Plan
from fusiond.flows.run_control import RunControl, RunRef, RunView
from fusiond.flows.shapes import depths, shape_of
from fusiond.inspecting.flow_times import StepItem, StepTimes, step_items, step_times
from fusiond.job import new_id
from fusiond.masking import HIDDEN
from fusiond.owners import Owner
from fusiond.producer.flow_calls import check_inputs
from fusiond.web.endpoint import Done, NotThere, WebCall, acts, reads
from fusiond.web.inputs import Input
from fusiond.web.pages.queue_pages import NAME

_RUN = (NAME, Input("run", "the id of a run", "path", pattern=r"[A-Za-z0-9_:.-]{1,128}", longest=128, required=True))
_LIMIT = Input("limit", "runs of a queue to show", form="number", default=25, least=1, most=200)
_ITEMS = (
    *_RUN,
    Input("step", "a step of the run", "path", pattern="[A-Za-z0-9_.-]{1,100}", required=True),
    Input("start", "jobs to pass over", form="number", default=0, least=0, most=1_000_000),
    Input("limit", "jobs to show", form="number", default=100, least=1, most=1000),
)
_START = (
    Input("flow", "the name of a flow", "path", pattern="[A-Za-z0-9_.-]{1,100}", required=True),
    Input("inputs", "its inputs, a JSON object", "body", "object", longest=1_048_576),
)
#: steps of a run that are shown
_STEPS: Final = 500


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run."""

    #: its full name, `queue/id`
    name: str
    flow: str
    #: running, suspended, canceling, finished, failed or canceled
    status: str
    #: epoch ms; 0: it goes on
    created_at: int
    ended_at: int
    #: steps that have ended, and all
    done: int
    steps: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step of a run."""

    name: str
    #: what it runs
    task: str
    flow: str
    status: str
    after: list[str]
    #: how many steps are before it on the longest way
    depth: int
    #: its jobs, and how they ended
    jobs: int
    finished: int
    failed: int
    canceled: int
    #: full name of its job, or of its run if it is a flow; of the slowest one that has ended, if it has several
    work: str
    reason: str
    #: of its last round, epoch ms; None: it has not begun or ended, or nobody knows
    began_at: int | None
    ended_at: int | None
    #: that it took, or takes until now; and the slowest of its jobs
    ms: int | None
    slowest_ms: int | None


@dataclass(frozen=True, slots=True)
class StepItems:
    """Some jobs of a step: in all those that failed come first, then the slowest of each state."""

    run: str
    flow: str
    step: StepRow
    #: jobs before these
    start: int
    jobs: list[StepItem]


@dataclass(frozen=True, slots=True)
class Flows:
    """Runs, those that go on first."""

    runs: list[RunRow]
    #: the flows of this host's file, with the names of their inputs
    flows: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class RunStory:
    """One run."""

    run: RunRow
    #: the run of which it is a step; empty: it is none
    parent: str
    inputs: Any
    steps: list[StepRow]
    owner: str
    runbook_url: str


async def _list(call: WebCall) -> Flows:
    backend = call.backend
    found = await backend.run(backend.runs.runs(await backend.queues(), call["limit"]))
    flows = {name: shape_of(backend.config, name).own.inputs() for name in backend.config.flows}
    return Flows([_row(view) for view in found[: call["limit"] * 2]], flows)


def _row(view: RunView) -> RunRow:
    steps = len(view.run.state.steps)
    return RunRow(view.ref.name, view.flow, view.status, view.created_at, view.ended_at, view.steps_done, steps)


async def _show(call: WebCall) -> RunStory:
    view = await _view(call)
    depth = depths(view.run.flow.steps)
    times = await call.backend.run(step_times(call.backend.verbs, view))
    steps = [_step(view, name, depth[name], times.get(name)) for name in [*view.run.state.steps][:_STEPS]]
    inputs = view.masked(await call.backend.secret()).inputs
    owner = (await call.backend.catalogue()).owners.get(f"flow {view.flow}", Owner())
    shown = HIDDEN if inputs and call.backend.hides_arguments else inputs
    return RunStory(_row(view), view.parent, shown, steps, *owner)


async def _items(call: WebCall) -> StepItems:
    view, step, verbs = await _view(call), call["step"], call.backend.verbs
    if step not in view.run.state.steps:
        raise NotThere(f"run {view.ref.name} has no step {step!r}")
    times = await call.backend.run(step_times(verbs, view))
    items = await call.backend.run(step_items(verbs, view, step, call["start"], call["limit"]))
    return StepItems(view.ref.name, view.flow, _step(view, step, 0, times.get(step)), call["start"], items)


def _step(view: RunView, name: str, depth: int, took: StepTimes | None) -> StepRow:
    took = took or StepTimes()
    shape, state, ends = view.run.flow.steps[name], view.run.state.steps[name], view.ends(name)
    return StepRow(
        name=name,
        task=shape.task,
        flow=shape.flow,
        status=state.status,
        after=[*shape.after],
        depth=depth,
        jobs=state.total,
        finished=ends.finished,
        failed=ends.failed,
        canceled=ends.canceled,
        work=took.slowest or next(iter(view.works(name, 1)), ""),
        reason=view.reason(name),
        began_at=took.began_at,
        ended_at=took.ended_at,
        ms=took.ms(time.time() * 1000),
        slowest_ms=took.slowest_ms,
    )


async def _view(call: WebCall) -> RunView:
    """The run that the call names. Raises JobNotFound, BrokerError."""
    return await call.backend.run(call.backend.runs.view(_ref(call)))


def _ref(call: WebCall) -> RunRef:
    return RunRef(call["queue"], call["run"])


async def _steer(call: WebCall, change: Callable[[RunControl, RunRef, str], Plan[Any]], refused: str) -> Done:
    ref = _ref(call)
    done = bool(await call.backend.run(change(call.backend.runs, ref, call.asker)))
    status = (await _view(call)).status
    return Done(f"run {ref.name} {f'is {status}' if done else refused}", done)


async def _suspend(call: WebCall) -> Done:
    return await _steer(call, lambda control, ref, who: control.suspend(ref, on=True, who=who), "is not there")


async def _resume(call: WebCall) -> Done:
    return await _steer(call, lambda control, ref, who: control.suspend(ref, on=False, who=who), "is not there")


async def _cancel(call: WebCall) -> Done:
    return await _steer(call, lambda control, ref, who: control.cancel(ref, who=who), "has ended already")


async def _requeue(call: WebCall) -> Done:
    return await _steer(
        call, lambda control, ref, who: control.requeue(ref, who=who), "neither failed nor was canceled"
    )


async def _start(call: WebCall) -> Done:
    backend, name, inputs = call.backend, call["flow"], call["inputs"] or {}
    if name not in backend.config.flows:
        raise NotThere(f"this host's file has no flow {name!r}")
    shape = shape_of(backend.config, name)
    check_inputs(shape, inputs)
    run = await backend.run(backend.runs.start(RunRef(shape.own.queue, new_id()), shape, inputs))
    return Done(f"run {run.name} of flow {name} has begun")


_reads, _acts = partial(reads, everywhere=True), partial(acts, everywhere=True)
_ONE = "/flows/{queue}/{run}"
ENDPOINTS = (
    _reads("/flows", _list, "Runs of flows, those that go on first", Flows, "flows.html", (_LIMIT,)),
    _acts("enqueue", "/flows/{flow}/start", _start, "Start a run of a flow", _START),
    _reads(_ONE, _show, "One run, with the state of each step", RunStory, "flow.html", _RUN),
    _reads(f"{_ONE}/steps/{{step}}", _items, "Jobs of a step, failed ones first", StepItems, "step.html", _ITEMS),
    _acts("suspend", f"{_ONE}/suspend", _suspend, "Have no further step begin", _RUN),
    _acts("suspend", f"{_ONE}/resume", _resume, "Undo suspend", _RUN),
    _acts("cancel", f"{_ONE}/cancel", _cancel, "Cancel what waits or runs of a run", _RUN),
    _acts("requeue", f"{_ONE}/requeue", _requeue, "Run again what did not finish", _RUN),
)
