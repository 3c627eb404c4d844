"""
How far a simulation is from what happened: jobs that sleep, at 50, 80 and 95 % load, on a real daemon with a sink that
records. The recording is simulated, and its waits are compared with those that the daemon measured. And how many jobs a
second a simulation has.

Named only, as it takes 10 minutes.
"""

from __future__ import annotations

import heapq
import json
import random
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.daemon import COMMAND, PATIENCE, QUEUE, Daemon, group
from benchmarks.figures import Figure, percentile
from fusiond import Client
from fusiond.broker.event_reading import newest

if TYPE_CHECKING:
    from collections.abc import Iterator

#: children; s that a job sleeps, on the average
_CHILDREN, _SLEEPS = 8, 0.25
#: s between two arrivals, and that a job sleeps, on the average
_STORY = {"letter": (1 / 15, 0.4), "code": (1 / 10, 0.05)}
#: what is edited → keys of `code`, keys of `letter`, children
EDITS = {
    "as it is": ("", "", 8),
    "code has priority": (", priority: high", "", 8),
    "7 children in place of 8": ("", "", 7),
    "at most 5 letters at once": ("", ", limit: {max_running: 5}", 8),
}
_SPEED_FILE = """\
version: 1
queues: {sms: {}, reports: {max_running: 2}}
tasks:
  otp: {run: fusiond.tasks.echo, queue: sms, priority: high, expires: 30s}
  campaign: {run: fusiond.tasks.echo, queue: sms, priority: low}
  report: {run: fusiond.tasks.echo, queue: reports, timeout: 10m}
workers:
  sms: {queues: [sms], processes: 6}
  reports: {queues: [reports], processes: {min: 1, max: 4}}
"""


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """The difference at p50 and p95, for each load; jobs a second, and memory, of a day with 1,000,000 jobs."""
    with tempfile.TemporaryDirectory(prefix="fb", dir="/tmp") as directory:
        for share in (0.5, 0.8, 0.95):
            yield from _difference(share, 180 * scale, Path(directory))
        yield from _edits(90 * scale, Path(directory))
        yield from _speed(1_000_000 * scale, Path(directory))


def _difference(share: float, seconds: float, directory: Path) -> Iterator[Figure]:
    recording = directory / f"{share:g}.jsonl"
    text = f"events:\n  sinks:\n    load: {{kind: load, path: {recording}}}\n"
    with Daemon(group("process", _CHILDREN), text) as daemon:
        jobs = _enqueue(daemon, {"doze": (_SLEEPS / share / _CHILDREN, _SLEEPS)}, seconds)
        waits = _measured(daemon, jobs)["doze"]
        _await_lines(recording, 2 * jobs)
        simulated = _simulate("--load", str(recording), "-c", str(daemon.file))["tasks"]["doze"]
    for percent, part in (("p50", 0.5), ("p95", 0.95)):
        yield _beside(f"simulation, {share:.0%} load, {percent}", percentile(waits, part), simulated[f"wait_{percent}"])


def _edits(seconds: float, directory: Path) -> Iterator[Figure]:
    """What a simulation says of three edits, from what was recorded before, and what a daemon then did."""
    recording = directory / "edits.jsonl"
    for edit, (code, letter, children) in EDITS.items():
        tasks = f"  code: {{run: bench_tasks.doze{code}}}\n  letter: {{run: bench_tasks.doze{letter}}}\n"
        sink = "" if recording.exists() else f"{{kind: load, path: {recording}}}"
        text = f"events:\n  sinks: {{{f'load: {sink}' if sink else ''}}}\n"
        with Daemon(group("process", children), text, tasks=tasks) as daemon:
            jobs = _enqueue(daemon, _STORY, seconds)
            waits = _measured(daemon, jobs)
            if sink:
                _await_lines(recording, 2 * jobs)
            found = _simulate("--load", str(recording), "-c", str(daemon.file))["tasks"]
        for task in _STORY:
            yield _beside(f"{edit}: {task}, p95", percentile(waits[task], 0.95), found[task]["wait_p95"])


def _beside(name: str, real: float, simulated: float) -> Figure:
    """The difference between two waits in s, in ms."""
    note = f"the daemon {real * 1000:.0f} ms, the simulation {simulated * 1000:.0f} ms"
    return Figure(name, (simulated - real) * 1000, "ms", note=note)


def _enqueue(daemon: Daemon, tasks: dict[str, tuple[float, float]], seconds: float) -> int:
    """Enqueue jobs at random for so long, those of each task so far apart and as long as it says; their number."""
    rand, began, jobs = random.Random(1), time.monotonic(), 0
    coming = [(rand.expovariate(1 / apart), task) for task, (apart, _) in tasks.items()]
    with Client(daemon.url) as client:
        while coming:
            at, task = heapq.heappop(coming)
            if at < seconds:
                time.sleep(max(0.0, began + at - time.monotonic()))
                client.enqueue(task, rand.lognormvariate(0, 0.5) * tasks[task][1] / 1.133)
                heapq.heappush(coming, (at + rand.expovariate(1 / tasks[task][0]), task))
                jobs += 1
    return jobs


def _measured(daemon: Daemon, jobs: int) -> dict[str, list[float]]:
    """Task → seconds that each job waited, as the daemon's events say, once all have ended."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        events, _ = daemon.connection.run(newest(daemon.broker, QUEUE, lambda each: each.name == "finished", jobs))
        if len(events) == jobs:
            waits: dict[str, list[float]] = {}
            for event in events:
                waits.setdefault(event.task, []).append((event.number_of("w") or 0) / 1000)
            return waits
        time.sleep(0.2)
    raise SystemExit("jobs are left")


def _await_lines(file: Path, lines: int) -> None:
    until = time.monotonic() + PATIENCE
    while file.read_bytes().count(b"\n") < lines + 1:
        if time.monotonic() > until:
            raise SystemExit(f"the recording has not all of {lines} lines")
        time.sleep(0.2)


def _simulate(*words: str) -> dict[str, Any]:
    said = subprocess.run([COMMAND, "simulate", "--json", *words], check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(said)["after"]
    return found


def _speed(jobs: float, directory: Path) -> Iterator[Figure]:
    """A day with so many jobs: three tasks, two groups, 70 % load."""
    file, load, rate = directory / "speed.yaml", directory / "speed.jsonl", jobs / 86_400
    file.write_text(_SPEED_FILE)
    day = [("otp", 0.25, 6 * 0.7 / rate), ("campaign", 0.749, 6 * 0.7 / rate), ("report", 0.001, 900 / rate)]
    lines = [
        {"task": task, "rate": f"{round(jobs * part)}/24h", "for": "24h", "takes": {"p50": f"{round(s * 1e3)}ms"}}
        for task, part, s in day
    ]
    load.write_text("".join(json.dumps(line) + "\n" for line in lines))
    began = time.monotonic()
    found = _simulate("--load", str(load), str(file))
    seconds, done = time.monotonic() - began, sum(said["jobs"] for said in found["tasks"].values())
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield Figure("simulation, speed", done / seconds, "jobs/s", note=f"{done} jobs of a day in {seconds:.0f} s")
    yield Figure("simulation, memory", memory, "MB", note="at most, of the command")
