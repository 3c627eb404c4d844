"""
A daemon that works for long and is reloaded all the while.

1. calibrate   how many jobs a second each of two groups does with both at it, `fork` and `process`
2. load        a third of that, evenly
3. reload      each few seconds, by a file that is saved with something changed
4. sample      what the daemon and its Redis use of the machine
5. judge       the second fifth beside the last: nothing has grown, jobs take no longer, and each ran once

Prints a line for each minute, the verdict, and what is wrong; status 1 where something is. What Redis holds is judged
from 300 s up: each job is remembered for a minute, so that until then there are more and more.
"""

import threading
import time
from array import array
from collections import Counter
from pathlib import Path
from statistics import median
from typing import NamedTuple

import redis

from tests.support.running import PATIENCE, descendants, until
from tests.support.story import Story

GROUPS = ("fork", "process")
#: the share of full speed at which is worked
LOAD = 1 / 3
#: s between two batches of a producer
TICK = 0.02
#: jobs that wait in each queue while full speed is measured
BACKLOG = {"fork": 100, "process": 2000}
#: s that each job's function takes
WORK = 0.0005
TASKS = """
import os, time

def note(number, sent, log, work):
    '''Leaves a line: which, and s from its enqueue to here.'''
    time.sleep(work)
    line = f"{number} {time.monotonic() - sent:.6f}\\n".encode()
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)
"""


class Limit(NamedTuple):
    """How much higher the median of the last fifth may be than that of the second."""

    #: of the earlier median
    share: float
    #: on top of that, in the series' own unit
    slack: float


_MB = 1 << 20
#: Supervisor and scheduler live through all reloads; the groups are replaced, so that all together vary.
LIMITS = {
    "supervisor, bytes": Limit(0.02, 2 * _MB),
    "scheduler, bytes": Limit(0.02, 2 * _MB),
    "all programs, bytes": Limit(0.15, 16 * _MB),
    "supervisor, descriptors": Limit(0, 4),
    "scheduler, descriptors": Limit(0, 4),
    "all programs, descriptors": Limit(0.15, 48),
    "processes": Limit(0.15, 10),
    "Redis, bytes": Limit(0.15, 2 * _MB),
    "Redis, keys": Limit(0.15, 50),
    "fork, p99, ms": Limit(1.0, 50),
    "process, p99, ms": Limit(1.0, 50),
}


#: s for which Redis remembers each job after its end, however short its results are kept: so long keys must grow
REMEMBERED = 60


class Plan(NamedTuple):
    """How long, how often. All in s."""

    seconds: float = 1200.0
    reload: float = 5.0
    sample: float = 10.0
    #: over which a percentile is taken
    window: float = 60.0
    #: for which full speed is measured
    calibration: float = 10.0

    def limits(self):
        """What is judged: of Redis only where the second fifth begins after keys have begun to go as they come."""
        return {name: limit for name, limit in LIMITS.items() if self.seconds / 5 > REMEMBERED or "Redis" not in name}


def grown(series, limits=LIMITS):
    """
    What has grown, as sentences; none: nothing has.

    `series`: name → values in their order. Of each the second fifth is compared with the last, by their medians.
    """
    return [
        f"{name}: {early:,.1f} in the second fifth, {late:,.1f} in the last, above {allowed:,.1f}"
        for name, limit in limits.items()
        for early, late in [fifths(series.get(name, ()))]
        for allowed in [early * (1 + limit.share) + limit.slack]
        if late > allowed
    ] + [f"{name}: {len(series.get(name, ()))} values are too few" for name in limits if len(series.get(name, ())) < 5]


def fifths(values):
    """The medians of the second and of the last fifth; of fewer than five values nothing can be said."""
    if len(values) < 5:
        return 0.0, 0.0
    fifth = len(values) // 5
    return median(values[fifth : 2 * fifth]), median(values[-fifth:])


def counted(expected, runs):
    """What is wrong with how often jobs ran: `expected` of them, numbered from 0; `runs`: number → times."""
    never = sum(number not in runs for number in range(expected))
    again = sum(times > 1 for times in runs.values())
    return [f"{never} jobs never ran"] * bool(never) + [f"{again} jobs ran more than once"] * bool(again)


class Lane:
    """One group, its queue, its producer, and what its jobs leave."""

    def __init__(self, story, name):
        self.story, self.name = story, name
        self.log = story.directory / f"runs-{name}"
        self.log.touch()
        self.sent, self.runs, self.latencies = 0, Counter(), array("d")
        #: (lowest, median, 99th percentile) of each window, ms
        self.windows = []
        self._client, self._file = story.client(), self.log.open()

    def send(self, count):
        """Enqueue so many jobs at once."""
        now, numbers = time.monotonic(), range(self.sent, self.sent + count)
        self._client.enqueue_many([(self.name, [number, now, str(self.log), WORK]) for number in numbers])
        self.sent += count

    def read(self):
        """Take in what has been done since the last time."""
        for line in self._file.readlines():
            number, took = line.split()
            self.runs[int(number)] += 1
            self.latencies.append(float(took) * 1e3)

    def waiting(self):
        self.read()
        return self.sent - len(self.runs)

    def close_window(self):
        """The percentiles of what has been done since the last window."""
        self.read()
        if found := sorted(self.latencies):
            self.windows.append((found[0], median(found), found[min(len(found) - 1, int(len(found) * 0.99))]))
        self.latencies = array("d")

    def produce(self, rate, ended):
        """So many jobs a second, evenly, until `ended` is set."""
        began, first = time.monotonic(), self.sent
        while not ended.wait(TICK):
            due = int((time.monotonic() - began) * rate) - (self.sent - first)
            if due > 0:
                self.send(due)


class Soak:
    """One daemon and its two lanes."""

    def __init__(self, story, plan):
        self.story, self.plan = story, plan
        (story.app / "soaked.py").write_text(TASKS)
        self.colours, self.sizes = dict.fromkeys(GROUPS, 0), dict(zip(GROUPS, (2, 3), strict=True))
        self.reloads, self.series = Counter(), {name: [] for name in LIMITS if "p99" not in name}
        self.redis = redis.Redis(unix_socket_path=story.url.removeprefix("unix://"))
        self.lanes = []

    def body(self):
        """The file as it is meant now."""
        groups = "\n  ".join(
            f"{name}: {{queues: [{name}], processes: {self.sizes[name]}, isolation: {name},"
            f" environment: {{COLOUR: '{self.colours[name]}'}}}}"
            for name in GROUPS
        )
        tasks = "".join(
            f"  {name}: {{run: soaked.note, queue: {name}, result_ttl: {REMEMBERED}s}}\n" for name in GROUPS
        )
        return self.story.body(groups, tasks=tasks, more="queues: {fork: {}, process: {}}\n")

    def soak(self, say=print):
        """All of it; returns what is wrong, as sentences."""
        self.story.start(self.body())
        self.lanes = [Lane(self.story, name) for name in GROUPS]
        rates = self.calibrate()
        say(", ".join(f"{name}: {rate:,.0f} jobs/s at full speed" for name, rate in rates.items()))
        ended = threading.Event()
        producers = [
            threading.Thread(target=lane.produce, args=(rates[lane.name] * LOAD, ended)) for lane in self.lanes
        ]
        for producer in producers:
            producer.start()
        try:
            self._go_on(say)
        finally:
            ended.set()
            for producer in producers:
                producer.join()
        self._await_all()
        return self.judge()

    def calibrate(self):
        """Jobs a second of each group, both at work and neither ever without a job."""
        before, began = [], 0.0
        for lap in ("warm", "measured"):
            began = time.monotonic()
            before = [len(lane.runs) for lane in self.lanes]
            while time.monotonic() < began + self.plan.calibration * (0.3 if lap == "warm" else 1):
                for lane in self.lanes:
                    if lane.waiting() < BACKLOG[lane.name]:
                        lane.send(BACKLOG[lane.name])
                time.sleep(TICK)
        took = time.monotonic() - began
        rates = {lane.name: (len(lane.runs) - count) / took for lane, count in zip(self.lanes, before, strict=True)}
        self._await_all()
        for lane in self.lanes:
            lane.latencies = array("d")
        return rates

    def _await_all(self):
        for lane in self.lanes:
            until(lambda lane=lane: lane.waiting() == 0, self.story.text, timeout=4 * PATIENCE)

    def _go_on(self, say):
        """Reload, sample and close windows, each in its time, until the time is over."""
        plan, began = self.plan, time.monotonic()
        # In this order: what a reload has replaced is gone when the next sample is taken.
        chores = {self.sample: plan.sample, self.reload: plan.reload, lambda: self.close(say): plan.window}
        due = dict(chores)
        while time.monotonic() < began + plan.seconds:
            for chore, pause in chores.items():
                if time.monotonic() >= began + due[chore]:
                    chore()
                    due[chore] += pause
            time.sleep(TICK)
        self.close(say)

    def reload(self):
        """Save the file with something changed: either group is replaced, or they swap sizes, so that the sum stays."""
        match self.reloads.total() % 3:
            case 2:
                self.sizes = dict(zip(GROUPS, reversed(self.sizes.values()), strict=True))
            case number:
                self.colours[GROUPS[number]] += 1
        # The file's watcher may have been first.
        self.reloads[self.story.reload(self.body())["result"]] += 1

    def sample(self):
        """Note what is used, once what was replaced has ended."""
        until(lambda: not any(program["draining"] for program in self.story.programs().values()), self.story.text)
        pids = {"scheduler": self.story.pid("scheduler"), "supervisor": self.story.process.pid}
        server = self.story.pid("redis")
        ours = {pid for pid, _ in descendants(self.story.process.pid)} | {self.story.process.pid}
        # Redis counts what it uses itself; its own memory is not a program's.
        ours -= {pid for pid, _ in descendants(server)} | {server}
        values = {"processes": len(ours), "Redis, keys": self.redis.dbsize()}
        values["Redis, bytes"] = self.redis.info("memory")["used_memory"]
        for name, chosen in [*((name, {pid}) for name, pid in pids.items()), ("all programs", ours)]:
            values[f"{name}, bytes"] = sum(map(resident, chosen))
            values[f"{name}, descriptors"] = sum(map(descriptors, chosen))
        for name, value in values.items():
            self.series[name].append(value)

    def close(self, say):
        """End a window, and say how it was."""
        for lane in self.lanes:
            lane.close_window()
            if lane.windows:
                _, middle, high = lane.windows[-1]
                say(f"{lane.name:<8} {len(lane.runs):>10,} done, p50 {middle:.1f} ms, p99 {high:.1f} ms", flush=True)

    def judge(self):
        """What is wrong, of all that was seen."""
        for lane in self.lanes:
            self.series[f"{lane.name}, p99, ms"] = [high for _, _, high in lane.windows]
        wrong = grown(self.series, self.plan.limits())
        if set(self.reloads) - {"applied", "unchanged"} or not self.reloads["applied"]:
            wrong.append(f"reloads: {dict(self.reloads)}")
        return wrong + [f"{lane.name}: {each}" for lane in self.lanes for each in counted(lane.sent, lane.runs)]


def resident(pid):
    """Bytes; none of a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) << 12
    except (FileNotFoundError, ProcessLookupError):
        return 0


def descriptors(pid):
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0


def soaked(plan, say=print):
    """A soak, in a daemon of its own; returns it and what is wrong."""
    story = Story()
    try:
        soak = Soak(story, plan)
        wrong = soak.soak(say)
        if status := story.stop():
            wrong.append(f"the daemon ended with status {status}")
    finally:
        story.close()
    return soak, wrong
