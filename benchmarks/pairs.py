"""
`python -m benchmarks.pairs TREE_A TREE_B [MEASURE …]`: what a change costs or brings.

1. start   a daemon of each tree, each in the tree's own virtual environment
2. pair    a small block of work with the one, then with the other; the next pair in the other order
3. again   with new daemons
4. tell    the median of the pairs' ratios, B divided by A, with its quartiles, and the median of each pair of daemons

The machine's speed moves within minutes; both halves of a pair see the same second of it. From one daemon to the next
of the same tree, some figures differ by 3 %, as long as the daemons live.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import calibration
from benchmarks.daemon import Daemon, group
from benchmarks.figures import number, percentile, quartiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusiond import Client


class Measure(NamedTuple):
    """What one block does."""

    isolation: str
    what: str
    unit: str
    #: jobs of a block
    jobs: int
    #: children of the daemon
    children: int = 8


#: name → block; in units of which less is better `ms` is one
MEASURES = {
    "drain": Measure("process", "drain", "jobs/s", 20_000),
    "cpu": Measure("process", "cpu", "ms a job", 20_000),
    "fork": Measure("fork", "drain", "jobs/s", 1_500),
    "cpu-fork": Measure("fork", "cpu", "ms a job", 1_500),
    "rest": Measure("process", "rest", "jobs/s", 4_000, 50),
    "latency": Measure("process", "latency", "ms", 30),
    "latency-fork": Measure("fork", "latency", "ms", 30),
    "enqueue": Measure("process", "enqueue", "jobs/s", 2_000),
    "bulk": Measure("process", "bulk", "jobs/s", 20_000),
}
PAIRS, DAEMONS = 5, 4


def main() -> None:
    """Measure pairs of blocks; with --serve, be the half of one tree."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.pairs", description="Two trees in turn, in pairs of small blocks."
    )
    parser.add_argument("trees", nargs=2, type=Path, metavar="TREE", help="a checkout with its .venv")
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=", ".join(MEASURES))
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"of blocks, with each pair of daemons ({PAIRS})")
    parser.add_argument("--daemons", type=int, default=DAEMONS, help=f"of each tree, one after the other ({DAEMONS})")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the jobs of a block")
    options = parser.parse_args()
    if unknown := set(options.measures) - set(MEASURES):
        parser.error(f"no measure {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    if min(options.pairs, options.daemons) < 1:
        parser.error("--pairs and --daemons are 1 or more")
    for name in options.measures or MEASURES:
        measure, count = MEASURES[name], options.pairs
        rounds = [_pairs(options.trees, measure, count, options.scale) for _ in range(options.daemons)]
        print(line(name, measure.unit, rounds), flush=True)


def line(name: str, unit: str, rounds: Sequence[Sequence[tuple[float, float]]]) -> str:
    """What the pairs (A, B) of each round of daemons say."""
    values = [pair for each in rounds for pair in each]
    low, middle, high = quartiles([b / a for a, b in values])
    medians = ", ".join(f"{quartiles([b / a for a, b in each])[1]:.3f}" for each in rounds)
    first, second = (quartiles([pair[at] for pair in values])[1] for at in (0, 1))
    ratio = f"B ÷ A {middle:.3f} (half of the pairs {low:.3f} to {high:.3f})"
    return f"{name:<13} A {number(first)}, B {number(second)} {unit}; {ratio}; {len(values)} pairs; daemons {medians}"


def _pairs(trees: Sequence[Path], measure: Measure, count: int, scale: float) -> list[tuple[float, float]]:
    jobs = max(5, int(measure.jobs * scale))
    halves = [Half(tree, measure.isolation, measure.children) for tree in trees]
    try:
        # The first of each warms it up.
        for half in halves:
            half.block(measure.what, jobs)
        values = []
        for turn in range(count):
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            pair = {at: halves[at].block(measure.what, jobs) for at in order}
            values.append((pair[0], pair[1]))
        return values
    finally:
        for half in halves:
            half.end()


class Half:
    """The daemon of one tree, and the process in which its client is."""

    def __init__(self, tree: Path, isolation: str, children: int) -> None:
        # These benchmarks with that tree's package: it is what its environment imports.
        words = [str(tree / ".venv/bin/python"), "-c", _SERVE, str(Path(__file__).parent.parent)]
        words += [isolation, str(children)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tree)
        self._answer()

    def block(self, what: str, jobs: int) -> float:
        """What one block of work was measured as."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {jobs}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def end(self) -> None:
        """Have the daemon end."""
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self._process.args!r} has ended")
        return answer


_SERVE = """
import sys
import fusiond
sys.path.insert(0, sys.argv[1])
from benchmarks.pairs import serve
serve(sys.argv[2], int(sys.argv[3]))
"""


def serve(isolation: str, children: int) -> None:
    """Do the blocks that standard input names, and answer each with what was measured."""
    with Daemon(group(isolation, children)) as daemon, daemon.client() as client:
        client.enqueue("noop").result(timeout=30)
        print("ready", flush=True)
        for request in sys.stdin:
            what, jobs = request.split()
            print(_BLOCKS[what](daemon, client, int(jobs)), flush=True)


def _drain(daemon: Daemon, client: Client, jobs: int) -> float:
    return jobs / _drained(daemon, client, jobs)[0]


def _cpu(daemon: Daemon, client: Client, jobs: int) -> float:
    return _drained(daemon, client, jobs)[1] / jobs * 1e3


def _rest(daemon: Daemon, client: Client, jobs: int) -> float:
    return jobs / _drained(daemon, client, jobs, "rest")[0]


def _drained(daemon: Daemon, client: Client, jobs: int, task: str = "noop") -> tuple[float, float]:
    """Seconds, and CPU seconds of the daemon and of Redis."""
    goal = daemon.finished() + jobs
    daemon.suspend(on=True)
    client.enqueue_many((task,) for _ in range(jobs))
    before, began = _used(daemon), time.monotonic()
    daemon.suspend(on=False)
    daemon.await_finished(goal)
    return time.monotonic() - began, _used(daemon) - before


def _used(daemon: Daemon) -> float:
    return sum(use.cpu for use in daemon.use().values())


def _latency(_daemon: Daemon, client: Client, jobs: int) -> float:
    sent = []
    for _ in range(jobs):
        calibration.pause()
        sent.append((time.monotonic(), client.enqueue("clock")))
    return percentile([(job.result(timeout=30) - at) * 1e3 for at, job in sent], 0.5)


def _enqueue(daemon: Daemon, client: Client, jobs: int, *, bulk: bool = False) -> float:
    goal = daemon.finished() + jobs
    daemon.suspend(on=True)
    began = time.monotonic()
    if bulk:
        client.enqueue_many(("noop", ("+4915112345678",), {"code": "1234"}) for _ in range(jobs))
    else:
        for _ in range(jobs):
            client.enqueue("noop", "+4915112345678", code="1234")
    seconds = time.monotonic() - began
    daemon.suspend(on=False)
    daemon.await_finished(goal)
    return jobs / seconds


def _bulk(daemon: Daemon, client: Client, jobs: int) -> float:
    return _enqueue(daemon, client, jobs, bulk=True)


_BLOCKS = {"drain": _drain, "rest": _rest, "cpu": _cpu, "latency": _latency, "enqueue": _enqueue, "bulk": _bulk}


if __name__ == "__main__":
    main()
