"""One run of a flow as it was read, what is written of one that starts over, and the ids of its jobs. Pure."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from fusiond.broker.flow_records import RunRecord, StepOf
from fusiond.flows import progress
from fusiond.flows.progress import Ends, RunState
from fusiond.flows.shapes import FlowShape, Shape, StepShape
from fusiond.job import id_of_key

#: what is raised for a record that no verb has written
UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
#: characters of an id that are left for the ids of steps
_LONGEST_ID: Final = 100


class Run(NamedTuple):
    """A run, read."""

    record: RunRecord
    shape: Shape
    inputs: dict[str, Any]
    state: RunState
    ends: dict[str, Ends]

    @property
    def flow(self) -> FlowShape:
        """The shape of its flow."""
        return self.shape.own


def opened(record: RunRecord) -> Run:
    """Raises UNREADABLE."""
    ends = {step: Ends(*each) for step, each in record.ends.items()}
    shape, state = Shape.from_json(record.shape), RunState.from_json(record.state)
    return Run(record, shape, json.loads(record.inputs), state, ends)


def new_fields(shape: Shape, round_: int = 1) -> dict[str, Any]:
    """The fields of a run that begins, without its inputs. In a later round no job has an id of an earlier one."""
    state = progress.new_run(shape.own)
    state.round = round_
    return {"shape": shape.to_json(), "state": state.to_json()}


def job_id(run: str, step: str, n: int | None, round_: int) -> str:
    """The id of a job of a step, or of a run that is a step: always the same."""
    name = ".".join([run, step, *([] if n is None else [str(n)]), *([f"r{round_}"] if round_ > 1 else [])])
    return name if len(name) <= _LONGEST_ID else id_of_key("flow", name)


def requeued_fields(run: Run) -> dict[str, Any]:
    """What is to be written of a run that ended, so that what did not finish runs again."""
    again = progress.requeue(run.state, run.ends)
    counts = {f"{letter} {name}": 0 for name in again for letter in "xc"}
    spans = {f"s {name}": "" for name in again}
    return {"state": run.state.to_json(), "ended_at": "", **counts, **spans}


def id_of_job(step: StepShape, where: StepOf) -> str:
    """The id of a job of a step, or of the run that it is."""
    return job_id(where.run, where.step, None if step.for_each is None else where.n, where.round)
