"""
`python -m tests.chaos.graphs`: runs of flows whose processes are killed and stopped; status 1 where a run does not end,
or ends otherwise than its graph says, or a step begins before it may, or has a job too many (I22).

1. load     runs of a flow with branches, a step for each item of a list, a step that is a flow, and one that fails
2. faults   children, dispatchers, the scheduler and Redis are killed; dispatchers stand still for longer than a lease
3. rest     each run has ended; what the jobs have noted is compared with the graph
"""

import contextlib
import random
import sys
import time

from fusiond.errors import BrokerError, EnqueueError
from fusiond.flows.run_control import RunControl, RunRef
from tests.chaos import repeat
from tests.chaos.faults import FaultsBeside
from tests.chaos.package import SHORTER
from tests.chaos.plant import Plant, played
from tests.support.running import run_down

FILE = """
broker: {{url: embedded}}
retry_policies:
  hardy: {{max_crashes: 1000}}
  once: {{max_attempts: 1, max_crashes: 1000}}
queues: {{left: {{}}, right: {{}}}}
defaults:
  tasks: {{pass_job: job, result_ttl: 1h, retry: hardy}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s}}
tasks:
  list: {{run: graph_work.list_items, queue: left}}
  item: {{run: graph_work.item, queue: right}}
  leaf: {{run: graph_work.leaf, queue: left}}
  fails: {{run: graph_work.fails, queue: right, retry: once}}
flows:
  inner: {{queue: left, steps: {{a: {{task: leaf}}, b: {{task: item, after: [a], kwargs: {{n: 1}}}}}}}}
  whole:
    steps:
      list: {{task: list, inputs: {{count: input.count}}}}
      each: {{task: item, after: [list], for_each: list.items, as: n}}
      other: {{task: leaf, after: [list]}}
      sub: {{flow: inner, after: [other]}}
      sum: {{task: leaf, after: [each, sub], inputs: {{values: each}}}}
      fails: {{task: fails, after: [list]}}
      never: {{task: leaf, after: [fails]}}
      mend: {{task: leaf, after: [never], when: failed}}
      tidy: {{task: leaf, after: [sum, mend], when: always}}
workers:
  one: {{queues: "*", processes: 2, isolation: fork}}
  two: {{queues: "*", processes: 2, isolation: process}}
"""
WORK = """
import work

def list_items(count, *, job):
    work.run(0.01, job=job)
    return {"items": list(range(count))}

def item(n, *, job):
    work.run(0.02 * (n % 3), job=job)
    return n * n

def leaf(values=None, *, job):
    work.run(0.05, job=job)
    return values

def fails(*, job):
    work.run(0.0, job=job)
    raise ValueError("as the graph says")
"""
#: step → how the graph says that it ends
ENDS = {
    "list": "finished", "each": "finished", "other": "finished", "sub": "finished", "sum": "finished",
    "fails": "failed", "never": "skipped", "mend": "finished", "tidy": "finished",
}  # fmt: skip
#: step → those that must have ended before it begins
AFTER = {"each": ["list"], "other": ["list"], "sub.a": ["other"], "sub.b": ["sub.a"], "sum": ["each", "sub.b"],
         "fails": ["list"], "mend": ["fails"], "tidy": ["sum", "mend"]}  # fmt: skip
#: seconds of load, between two faults, and in which no more runs end
LOAD, PAUSE, PEACE = 8.0, 1.0, 60


class Graphs(Plant):
    """The daemon, with two groups that serve both queues."""

    declares = ("whole",)

    def __init__(self, edits):
        super().__init__((*SHORTER, *edits))
        (self.app / "graph_work.py").write_text(WORK)
        self.write(FILE.format(app=self.app, runs=self.runs))


def violations(edits=(), seed=0):
    """What was found, a sentence each."""
    rand = random.Random(seed)
    return played(Graphs(edits), "I22", lambda plant, client: _rest(plant, _storm(plant, client, rand)))


def _storm(plant, client, rand):
    """Load and faults; the runs, each with its number of items."""
    end, runs = time.monotonic() + LOAD, {}
    with FaultsBeside(plant, rand, PAUSE, schedulers=0.2) as faults:
        while time.monotonic() < end:
            count = rand.choice((0, 1, 3, 12))
            with contextlib.suppress(BrokerError, EnqueueError):
                runs[client.run_flow("whole", count=count)] = count
            time.sleep(0.3)
            faults.look()
    return runs


def _rest(plant, runs):
    """What is wrong once all runs have ended. AssertionError: one has not."""
    control = RunControl(plant.broker)

    def views():
        with contextlib.suppress(BrokerError):
            return [plant.run(control.view(RunRef(run.queue, run.id))) for run in runs]
        return []

    def going_on():
        found = views()
        return [view for view in found if not view.ended_at] if len(found) == len(runs) else runs

    run_down(lambda: len(going_on()), lambda: f"{len(going_on())} of {len(runs)} runs have not ended", PEACE, 0.5)
    noted = _noted(plant)
    return {problem for view in views() for problem in judge(view, runs[_run_of(runs, view)], noted)}


def _run_of(runs, view):
    return next(run for run in runs if run.id == view.ref.id)


def _noted(plant):
    """Job → when it began first, and when it ended first; inf: it never did."""
    found = {}
    for line in plant.runs.read_text().splitlines():
        what, id_, *_, at = line.split()
        began, ended = found.get(id_, (float("inf"), float("inf")))
        found[id_] = (min(began, float(at)), ended) if what == "begin" else (began, min(ended, float(at)))
    return found


def judge(view, count, noted):
    """What is wrong with one run that has ended."""
    stands = {name: step.status for name, step in view.run.state.steps.items()}
    for name, word in ENDS.items():
        if stands[name] != word:
            yield f"I22 step {name} of {view.ref.id} is {stands[name]}, not {word}"
    if view.status != "failed":
        yield f"I22 the run {view.ref.id} is {view.status}"
    jobs = {id_.removeprefix(f"{view.ref.id}."): times for id_, times in noted.items() if id_.startswith(view.ref.id)}
    wanted = {f"each.{n}" for n in range(count)} | {"list", "other", "sub.a", "sub.b", "sum", "fails", "mend", "tidy"}
    for name in wanted ^ jobs.keys():
        yield f"I22 job {name} of {view.ref.id} {'never ran' if name in wanted else 'ran and should not'}"
    for name, before in AFTER.items():
        begins = [jobs[job][0] for job in jobs if job == name or (name == "each" and job.startswith("each."))]
        for other in before if begins else ():
            # two processes read the clock
            if other in jobs and min(begins) < jobs[other][1] - 0.001:
                yield f"I22 step {name} of {view.ref.id} began before {other} had ended"


if __name__ == "__main__":
    sys.exit(repeat.main("graphs", __doc__, violations))
