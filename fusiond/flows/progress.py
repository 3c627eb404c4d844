"""
The state of a run of a flow, and what follows from the ends of its jobs. Pure.

    waiting -> running                 as many of the steps before it have ended as `join` says, and as `when` says
    waiting -> skipped                 that can no longer be
    waiting -> failed                  it cannot begin: a field it refers to is missing, or `for_each` is not a list
    waiting -> canceled                the run is canceled
    running -> finished                all of its jobs have finished
    running -> failed | canceled       all of them have ended, and one has failed or was canceled
    failed, canceled, skipped -> waiting    the run is requeued

A run has ended when all of its steps have. It has failed if one of them has.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from fusiond.config.model import rebuild
from fusiond.flows.shapes import FlowShape, StepShape

ENDED: Final = ("finished", "failed", "canceled", "skipped")
#: jobs of a step that are begun at once, so that a step of very many does not delay others
PAGE: Final = 1000


class Ends(NamedTuple):
    """How many jobs of a step have ended."""

    finished: int = 0
    failed: int = 0
    canceled: int = 0


@dataclass(slots=True)
class StepState:
    """How a step stands."""

    status: str = "waiting"
    #: jobs that it has, and how many of them were begun
    total: int = 0
    begun: int = 0
    #: in which round of the run it began last
    round: int = 1
    #: why it failed before it began, or was skipped
    reason: str = ""
    #: skipped, since a step before it failed
    after_failure: bool = False
    #: jobs behind `total` that finished in an earlier round: none of them begins again, as the step was cut short
    beyond: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it will run any more."""
        return self.status in ENDED

    @property
    def has_failed(self) -> bool:
        """Whether it has not done its work, and that was not meant."""
        return self.status in ("failed", "canceled") or self.after_failure

    @property
    def ends(self) -> int:
        """How many ends of its jobs there are once all have ended."""
        return self.total + self.beyond

    @property
    def left(self) -> int:
        """How many of its jobs are not begun."""
        return self.total - self.begun if self.status == "running" else 0


@dataclass(slots=True)
class RunState:
    """How a run stands."""

    steps: dict[str, StepState]
    #: running, finished, failed or canceled
    status: str = "running"
    #: nothing more begins until it is resumed
    suspended: bool = False
    #: the same, as the runs that are steps of this one were told
    told_suspended: bool = False
    #: a cancel was asked
    canceling: bool = False
    #: 1, and 1 more with each requeue
    round: int = 1

    def to_json(self) -> str:
        """What `from_json` reads."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, raw: str | bytes) -> "RunState":
        """Raises ValueError, TypeError, LookupError, AttributeError for what is none."""
        found: RunState = rebuild(cls, json.loads(raw), more=True)
        return found

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it will run any more."""
        return self.status != "running"

    @property
    def word(self) -> str:
        """How it stands, for people."""
        if self.has_ended:
            return self.status
        return "canceling" if self.canceling else "suspended" if self.suspended else self.status


def new_run(flow: FlowShape) -> RunState:
    """A run of which nothing has begun."""
    return RunState({name: StepState() for name in flow.steps})


def settle(flow: FlowShape, state: RunState, ends: Mapping[str, Ends]) -> list[str]:
    """
    Take in how the jobs have ended, and everything that follows from it.

    Args:
        flow: its shape.
        state: is changed.
        ends: of each step, in its last round.

    Returns:
        the steps that may begin now, in the order of the file: `begin` or `refuse` each of them, then settle again.
    """
    for name, step in state.steps.items():
        if step.status == "running":
            _end(state, step, ends.get(name, Ends()))
    ready: list[str] = []
    changed = True
    while changed:
        changed, ready = False, []
        for name, step in state.steps.items():
            if step.status != "waiting":
                continue
            word = "cancel" if state.canceling else _verdict(flow.steps[name], state)
            if word == "run":
                ready.append(name)
            elif word != "wait":
                _leave_out(flow.steps[name], state, step, word)
                changed = True
    if all(step.has_ended for step in state.steps.values()):
        state.status = _end_of_run(state)
    return [] if state.suspended else ready


def begin(state: RunState, name: str, jobs: int) -> None:
    """The step runs, with so many jobs."""
    state.steps[name] = StepState("running", jobs, round=state.round)


def refuse(state: RunState, name: str, reason: str) -> None:
    """The step cannot begin, or not go on: no further job of it begins, and it fails when those that run have ended."""
    step = state.steps[name]
    step.reason, step.total, step.round = reason, step.begun, state.round
    if not step.begun:
        step.status = "failed"


def suspend(state: RunState, *, on: bool) -> bool:
    """Have nothing more begin, or go on; whether that changes anything."""
    changes = not state.has_ended and state.suspended != on
    state.suspended = on if changes else state.suspended
    return changes


def cancel(state: RunState) -> bool:
    """Have it end; whether that changes anything."""
    changes = not (state.has_ended or state.canceling)
    state.canceling = state.canceling or changes
    return changes


def requeue(state: RunState, ends: Mapping[str, Ends]) -> list[str]:
    """
    Have the steps run again that did not finish. What finished stays as it is.

    Returns:
        the steps that had begun: of these only the jobs that did not finish run again.
    """
    state.round += 1
    state.status, state.canceling, state.suspended, state.told_suspended = "running", False, False, False
    again = [name for name, step in state.steps.items() if step.status in ("failed", "canceled", "skipped")]
    for name in again:
        state.steps[name] = StepState(round=state.round)
    return [name for name in again if any(ends.get(name, Ends()))]


def _end(state: RunState, step: StepState, ends: Ends) -> None:
    if state.canceling and step.left:
        step.total, step.reason = step.begun, step.reason or "it was canceled before all of its jobs had begun"
    if step.begun < step.total or sum(ends) < step.ends:
        return
    if ends.failed or (step.reason and not state.canceling):
        step.status = "failed"
    elif ends.canceled or step.reason:
        step.status = "canceled"
    else:
        step.status = "finished"


def _verdict(step: StepShape, state: RunState) -> str:
    """run, skip or wait."""
    before = [state.steps[name] for name in step.after]
    ended = [each for each in before if each.has_ended]
    if step.when == "always" or not before:
        return "run" if len(ended) >= step.need else "wait"
    if step.when == "failed":
        if len(ended) >= step.need and any(each.has_failed for each in ended):
            return "run"
        return "skip" if len(ended) == len(before) else "wait"
    good = sum(each.status == "finished" for each in ended)
    if good >= step.need:
        return "run"
    return "skip" if good + len(before) - len(ended) < step.need else "wait"


def _leave_out(shape: StepShape, state: RunState, step: StepState, word: str) -> None:
    if word == "cancel":
        step.status = "canceled"
        return
    failed = [name for name in shape.after if state.steps[name].has_failed]
    step.status, step.after_failure = "skipped", bool(failed) and shape.when == "finished"
    not_finished = [name for name in shape.after if state.steps[name].status in ("skipped", "failed", "canceled")]
    step.reason = "no step before it failed" if shape.when == "failed" else f"{', '.join(not_finished)} did not finish"


def _end_of_run(state: RunState) -> str:
    words = {step.status for step in state.steps.values()}
    if state.canceling and words & {"canceled", "failed"}:
        return "canceled"
    return "failed" if words & {"failed", "canceled"} else "finished"
