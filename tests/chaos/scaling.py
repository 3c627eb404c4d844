"""
`python -m tests.chaos.scaling`: a group whose processes follow its load, under reloads and kills; status 1 where more
children or jobs than its `max` were there at once, or where a group of other hosts ran (I23).

1. burst   more jobs than the least children can do, then nothing, so that children are added and end again
2. reload  replace the group in the middle of that; some jobs of the old one go on until the new one has grown
3. watch   the processes: of all generations together there are no more children than `max`, and one on trial
4. judge   from the lines that each run leaves: no more jobs than `max` at once, and each has ended
"""

import random
import signal
import sys
import threading
import time

from tests.chaos import repeat
from tests.chaos.package import SHORTER, Edit
from tests.chaos.plant import CHILD, DISPATCHER, Plant, played
from tests.support.running import alive, send, until

#: the most children; jobs of a burst, and of those that go on; s in which no more of them end
MOST, JOBS, HELD, PEACE = 4, 40, 2, 40.0
FILE = """
broker: {{url: embedded}}
defaults:
  tasks: {{pass_job: job, result_ttl: 1h, retry: patient}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}, COLOUR: '{colour}'}}, drain_timeout: 30s}}
tasks: {{work: {{run: work.run}}, held: {{run: work.run_until}}}}
retry_policies: {{patient: {{max_crashes: 1000, max_attempts: 1000, delay: 100ms, backoff: fixed}}}}
workers:
  main: {{isolation: {isolation}, processes: {{min: 1, max: {most}, target_latency: 200ms}}}}
  far: {{hosts: [no-such-host-*], processes: 9}}
"""
#: so that children are added, and end, within a burst
QUICKER = (
    Edit("worker/dispatcher/scaler.py", "LOOK = 1.0", "LOOK = 0.1"),
    Edit("worker/dispatcher/scaling.py", "RATE, QUIET = 10.0, 60.0", "RATE, QUIET = 2.0, 0.8"),
)


class Scaled(Plant):
    """The daemon, with one group that runs here."""

    declares = ("work",)

    def __init__(self, edits, isolation):
        super().__init__((*SHORTER, *QUICKER, *edits))
        self._colour, self._isolation = 0, isolation
        self.write(self.body())

    def body(self):
        """The file, each time with another environment, so that a reload replaces the group."""
        self._colour += 1
        return FILE.format(app=self.app, runs=self.runs, colour=self._colour, most=MOST, isolation=self._isolation)


class Watch(threading.Thread):
    """Counts the children again and again, and notes what is too many."""

    def __init__(self, plant):
        super().__init__(daemon=True)
        self._plant, self._over = plant, threading.Event()
        self.found, self.most = [], 0

    def run(self):
        before = set()
        while not self._over.wait(0.02):
            kinds = self._plant.kinds()
            # Who lives before and after the look lived at once; and one that ends is gone at the second look.
            here = {pid for pid, kind in kinds.items() if kind == CHILD and alive(pid)}
            lasting, before = here & before, here
            self.most = max(self.most, len(lasting))
            if len(lasting) > MOST + 1:
                dispatchers = sum(kind == DISPATCHER for kind in kinds.values())
                self.found.append(f"I23 {len(lasting)} children of {dispatchers} dispatchers, and {MOST} is the most")

    def end(self):
        self._over.set()
        self.join(10)


def violations(edits=(), seed=0):
    """What was too many, or has not ended, a sentence each."""
    rand = random.Random(seed)

    def story(plant, client):
        watch = Watch(plant)
        watch.start()
        try:
            plant.await_all(_harm(plant, client, rand), PEACE)
        finally:
            watch.end()
        yield from [*watch.found[:1], *_judge(plant.runs.read_text())]
        if any("far" in name for name in plant.programs()):
            yield "I23 a group of other hosts runs"
        if watch.most < MOST:
            yield f"I23 there were never more than {watch.most} children"

    return played(Scaled(edits, rand.choice(["process", "fork"])), "I23", story)


def _harm(plant, client, rand):
    """Bursts, a reload in the middle of each, killed children, and a pause in which children end."""
    jobs = []
    for number in range(2):
        gate = plant.directory / f"gate{number}"
        held = client.enqueue_many([("held", [str(gate)]) for _ in range(HELD)])
        jobs += [*held, *client.enqueue_many([("work", [rand.uniform(0.3, 0.9)]) for _ in range(JOBS)])]
        until(lambda: all(job.status() == "started" for job in held), plant.text)  # noqa: B023
        answer = plant.reload(plant.body())
        assert answer["result"] == "applied", answer
        until(lambda: _most_wanted(plant) == MOST, plant.text)
        time.sleep(rand.uniform(0.5, 1.0))
        gate.touch()
        if rand.random() < 0.5 and (pids := plant.pids(CHILD)):
            send(signal.SIGKILL, rand.choice(pids))
        if rand.random() < 0.5:
            plant.await_all(jobs, PEACE)
            time.sleep(1.5)
    return jobs


def _most_wanted(plant):
    """How many children the newest generation would have if it were alone."""
    groups = {name: each for name, each in plant.programs().items() if name.startswith("worker:main@")}
    newest = max(groups, key=lambda name: int(name.partition("@")[2]))
    return groups[newest]["scaled"].get("processes")


def _judge(lines):
    """More runs at once than children may be there; one that was killed has no end, and does not count."""
    runs = {}
    for line in lines.splitlines():
        what, job, attempt, *_, at = line.split()
        runs.setdefault((job, attempt), {})[what] = float(at)
    ended = [run for run in runs.values() if len(run) == 2]
    moments = sorted([(run["end"], -1) for run in ended] + [(run["begin"], 1) for run in ended])
    running = 0
    for _, change in moments:
        running += change
        if running > MOST:
            yield f"I23 {running} jobs ran at once, and {MOST} is the most"
            return


if __name__ == "__main__":
    sys.exit(repeat.main("scaling", __doc__, violations, times=5))
