"""What follows from the ends of steps: pure, so each graph and each order of ends can be tried."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.flows import progress
from fusiond.flows.progress import Ends, RunState
from fusiond.flows.shapes import FlowShape, StepShape


@st.composite
def graphs(draw) -> FlowShape:
    """A flow of up to seven steps, each after some of those before it."""
    names = [f"s{n}" for n in range(draw(st.integers(1, 7)))]
    steps = {}
    for n, name in enumerate(names):
        after = tuple(draw(st.lists(st.sampled_from(names[:n]), unique=True))) if n else ()
        need = draw(st.integers(1, len(after))) if after else 0
        when = draw(st.sampled_from(["finished", "finished", "failed", "always"]))
        steps[name] = StepShape(task="t", after=after, need=need, when=when)
    return FlowShape(steps, "q")


class Walk:
    """A run whose jobs end as they are told."""

    def __init__(self, flow: FlowShape) -> None:
        self.flow, self.state = flow, progress.new_run(flow)
        self.ends: dict[str, list[int]] = {name: [0, 0, 0] for name in flow.steps}
        #: (step, round) → how often it began, and the steps that had ended by then
        self.began: list[tuple[str, dict[str, str]]] = []

    def settle(self) -> None:
        # what is stored is what counts
        self.state = RunState.from_json(self.state.to_json())
        while ready := progress.settle(self.flow, self.state, self.counted()):
            for name in ready:
                self.began.append((name, {each: step.status for each, step in self.state.steps.items()}))
                progress.begin(self.state, name, 1)
                self.state.steps[name].begun = 1

    def counted(self) -> dict[str, Ends]:
        return {name: Ends(*each) for name, each in self.ends.items()}

    def running(self) -> list[str]:
        return [name for name, step in self.state.steps.items() if step.status == "running"]

    def end(self, name: str, how: int) -> None:
        self.ends[name][how] += 1
        self.settle()

    def to_the_end(self, draw, hows: list[int]) -> None:
        self.settle()
        while running := self.running():
            self.end(draw(st.sampled_from(running)), draw(st.sampled_from(hows)))


def may_begin(step: StepShape, stood: dict[str, str]) -> bool:
    """The rule of the docs, written another way."""
    before = [stood[name] for name in step.after]
    ended = [word for word in before if word not in ("waiting", "running")]
    if step.when == "finished":
        return ended.count("finished") >= step.need
    return len(ended) >= step.need


@settings(max_examples=60, deadline=None)
@given(graphs(), st.data())
def test_each_run_ends_with_each_step_run_as_the_graph_says(flow, data):
    """Whatever ends in whatever order: the run ends, no step begins twice, none begins before it may."""
    walk = Walk(flow)
    walk.to_the_end(data.draw, [0, 0, 1, 2])
    assert walk.state.has_ended
    assert all(step.has_ended for step in walk.state.steps.values())
    names = [name for name, _ in walk.began]
    assert len(names) == len(set(names))
    for name, stood in walk.began:
        assert may_begin(flow.steps[name], stood)
    for name, step in walk.state.steps.items():
        assert (step.status == "skipped") == (name not in names)
    failed = any(sum(each[1:]) for each in walk.ends.values())
    assert walk.state.status == ("failed" if failed else "finished")


def run_of(**steps: StepShape) -> Walk:
    return Walk(FlowShape(steps, "q"))


def test_a_step_of_many_jobs_ends_with_the_last_of_them():
    """Also where they begin in pages; an empty list is finished at once."""
    walk = run_of(many=StepShape(task="t", for_each="input.list"), last=StepShape(task="t", after=("many",), need=1))
    assert progress.settle(walk.flow, walk.state, {}) == ["many"]
    progress.begin(walk.state, "many", 3)
    walk.state.steps["many"].begun = 2
    walk.ends["many"] = [2, 0, 0]
    assert progress.settle(walk.flow, walk.state, walk.counted()) == []
    walk.state.steps["many"].begun = 3
    assert progress.settle(walk.flow, walk.state, walk.counted()) == []
    walk.ends["many"] = [2, 1, 0]
    assert progress.settle(walk.flow, walk.state, walk.counted()) == []
    assert walk.state.steps["many"].status == "failed"
    assert walk.state.status == "failed"
    empty = run_of(many=StepShape(task="t", for_each="input.list"), last=StepShape(task="t", after=("many",), need=1))
    progress.settle(empty.flow, empty.state, {})
    progress.begin(empty.state, "many", 0)
    assert progress.settle(empty.flow, empty.state, {}) == ["last"]
