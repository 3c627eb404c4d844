"""
The shape of a flow: what a run is started with. Pure.

A run keeps its shape to its end, whatever a reload brings: its steps, and of each task the queue, priority, expiry and
uniqueness that it had then. It has the shapes of all flows that its steps run, too.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fusiond.config.model import Config, CronEntry, Flow, rebuild
from fusiond.config.model.flow_steps import INPUT, FlowStep
from fusiond.flows.following import callbacks_in, follow_of


@dataclass(frozen=True, slots=True)
class StepShape:
    """One step."""

    #: what it runs: a task, or a flow
    task: str = ""
    flow: str = ""
    #: of a task: where its jobs go, and how
    queue: str = ""
    priority: int = 1
    expires_ms: int | None = None
    #: as `Unique.to_text` gives it
    unique: str | None = None
    after: tuple[str, ...] = ()
    #: how many of `after` it waits for
    need: int = 0
    #: finished, failed or always
    when: str = "finished"
    inputs: Mapping[str, str] = field(default_factory=dict)
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    for_each: str | None = None
    item: str = "item"
    #: the callbacks of its jobs, as `fusiond.callbacks.follow_text` gives them
    follow: str = ""
    #: its result is needed: by another step, or as a result of the flow
    keep: bool = True

    def references(self) -> Iterator[str]:
        """All of its references."""
        yield from self.inputs.values()
        if self.for_each:
            yield self.for_each


def depths(steps: Mapping[str, StepShape]) -> dict[str, int]:
    """Of each step how many steps are before it on the longest way."""
    found: dict[str, int] = {}
    while len(found) < len(steps):
        for name, step in steps.items():
            if all(other in found for other in step.after):
                found[name] = 1 + max((found[other] for other in step.after), default=-1)
    return found


@dataclass(frozen=True, slots=True)
class FlowShape:
    """One flow."""

    steps: Mapping[str, StepShape]
    #: where the record of a run is
    queue: str
    result_ttl_ms: int = 86_400_000
    failure_ttl_ms: int = 30 * 86_400_000
    #: `on_success`, `on_failure`: of the job that is called, as far as there is one
    callbacks: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def inputs(self) -> list[str]:
        """The names of its inputs."""
        pairs = (each.partition(".") for step in self.steps.values() for each in step.references())
        return sorted({rest.partition(".")[0] for head, _, rest in pairs if head == INPUT})

    def last_steps(self) -> list[str]:
        """The steps after which no other comes: their results are the result of the flow."""
        before = {name for step in self.steps.values() for name in step.after}
        return [name for name in self.steps if name not in before]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run is started with."""

    flow: str
    #: this flow, and those that its steps run
    flows: Mapping[str, FlowShape]

    @property
    def own(self) -> FlowShape:
        """The shape of the run's own flow."""
        return self.flows[self.flow]

    def to_json(self) -> str:
        """What `from_json` reads."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, raw: str | bytes) -> "Shape":
        """Raises ValueError, TypeError, LookupError, AttributeError for what is none."""
        return cls.from_dict(json.loads(raw))

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> "Shape":
        """Raises as `from_json`."""
        found: Shape = rebuild(cls, said, more=True)
        found.own  # noqa: B018 - raises LookupError
        return found


def shape_of(config: Config, name: str) -> Shape:
    """The shape of a flow of this file, which has no errors."""
    wanted, found = [name], dict[str, FlowShape]()
    while wanted:
        flow = config.flows[wanted.pop()]
        found[flow.name] = _flow_shape(config, flow)
        wanted += [step.flow for step in flow.steps.values() if step.flow and step.flow not in found]
    return Shape(name, found)


def shape_of_entry(config: Config, entry: CronEntry) -> Shape | None:
    """The shape of the flow of a cron entry; None: it has a task."""
    return shape_of(config, entry.flow) if entry.flow else None


def _flow_shape(config: Config, flow: Flow) -> FlowShape:
    before = {name for step in flow.steps.values() for name in step.after}
    referred = {each.partition(".")[0] for step in flow.steps.values() for each in references_of(step)}
    steps = {
        name: _step_shape(config, step, keep=name in referred or name not in before)
        for name, step in flow.steps.items()
    }
    times = round(flow.result_ttl * 1000), round(flow.failure_ttl * 1000)
    return FlowShape(steps, flow.queue, *times, callbacks_in(config, flow))


def references_of(step: FlowStep) -> Iterator[str]:
    """All references of a step of the file."""
    yield from step.inputs.values()
    if step.for_each:
        yield step.for_each


def need_of(step: FlowStep) -> int:
    """How many of the steps before it a step waits for."""
    if isinstance(step.join, int):
        return step.join
    return len(step.after) if step.join == "all" else min(1, len(step.after))


def _step_shape(config: Config, step: FlowStep, *, keep: bool) -> StepShape:
    shape = StepShape(
        task=step.task,
        flow=step.flow,
        after=step.after,
        need=need_of(step),
        when=step.when,
        inputs=step.inputs,
        args=step.args,
        kwargs=step.kwargs,
        for_each=step.for_each,
        item=step.as_,
        keep=keep,
    )
    if not step.task:
        return shape
    task = config.tasks[step.task]
    return dataclasses.replace(
        shape,
        queue=task.queue,
        priority=task.priority,
        expires_ms=None if task.expires is None else round(task.expires * 1000),
        unique=task.unique.to_text() if task.unique else None,
        follow=follow_of(config, task),
    )
