"""When the steps of a run of a flow began and ended, and the jobs of one step: those that failed first."""

from __future__ import annotations

from typing import Final, NamedTuple

from fusiond.broker.call import Plan
from fusiond.broker.verbs import Verbs
from fusiond.flows.run_control import RunView

#: jobs of a running step of which the begin is read, and ends of jobs in one reply
_SAMPLES: Final = 10
_PAGE: Final = 1000
_STATUS: Final = {"f": "finished", "x": "failed", "c": "canceled"}
_ORDER: Final = ("failed", "canceled", "", "finished")


class StepTimes(NamedTuple):
    """The times of a step, of its last round: epoch ms."""

    #: None: it has not begun, or nobody knows
    began_at: int | None = None
    #: None: it has not ended, or nobody knows
    ended_at: int | None = None
    #: full name of the job that took longest, of those that have ended, and how long
    slowest: str = ""
    slowest_ms: int | None = None

    def ms(self, now: float) -> int | None:
        """How long it took, or takes until now."""
        return None if self.began_at is None else round((self.ended_at or now) - self.began_at)


class StepItem(NamedTuple):
    """A job of a step, or a run if the step is a flow."""

    #: its place in the list of `for_each`
    n: int
    name: str
    status: str
    #: epoch ms; None: it has not begun, or nobody knows
    began_at: int | None
    #: that it took; None: it has not ended
    ms: int | None
    why: str


def step_times(verbs: Verbs, view: RunView) -> Plan[dict[str, StepTimes]]:
    """The times of each step that has begun."""
    found = {}
    for name, stands in view.run.state.steps.items():
        if span := view.run.record.spans.get(name):
            ended_at = span.ended_at if stands.has_ended else None
            found[name] = StepTimes(span.began_at, ended_at, view.work(name, span.slowest), span.most_ms)
        elif stands.status == "running":
            begins = []
            for each in view.works(name, _SAMPLES):
                begins.append((yield from _state(verbs, view, name, each))[1])  # noqa: PERF401 - it yields
            found[name] = StepTimes(min(filter(None, begins), default=None))
    return found


def step_items(verbs: Verbs, view: RunView, step: str, first: int, count: int) -> Plan[list[StepItem]]:
    """Some jobs of a step that have begun: in all those that failed come first, then the slowest of each state."""
    begun, found = view.run.state.steps[step].begun, []
    for page in range(0, begun, _PAGE):
        last = min(page + _PAGE, begun) - 1
        ends = yield verbs.step_items(view.ref.queue, view.ref.id, step, page, last)
        for n, end in enumerate(ends, page):
            # of an earlier round only what finished still counts
            stays = end and (end.letter == "f" or end.round == view.run.state.steps[step].round)
            if end and stays:
                why = end.payload.decode(errors="replace")
                name = view.work(step, n, end.round)
                found.append(StepItem(n, name, _STATUS[end.letter], end.began_at, end.ms, why))
            else:
                found.append(StepItem(n, view.work(step, n), "", None, None, ""))
    found.sort(key=lambda item: (_ORDER.index(item.status), -(item.ms or 0), item.n))
    shown = []
    for item in found[first : first + count]:
        status, began_at = ("", None) if item.status else (yield from _state(verbs, view, step, item.name))
        shown.append(item if item.status else item._replace(status=status, began_at=began_at))
    return shown


def _state(verbs: Verbs, view: RunView, step: str, name: str) -> Plan[tuple[str, int | None]]:
    """The state of a job that has not ended, as far as its run knows, and when it began."""
    queue, _, id_ = name.rpartition("/")
    if view.run.flow.steps[step].flow:
        run = yield verbs.run_record(queue, id_)
        return ("running", run.created_at) if run else ("on its way", None)
    job = yield verbs.job(queue, id_)
    return (str(job.status), job.started_at) if job else ("on its way", None)
