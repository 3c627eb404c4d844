"""From the save of the file until what it says runs, many times over; and what a reload costs the groups beside it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from benchmarks import calibration
from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure, Gate, percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: saves of each kind
SAVES = 60
#: seconds between two saves: all that the last one started is over
REST = 0.5
#: gates, in bare starts of Python
USUAL, WORST = 50, 85


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """Saves that replace a group, and that change it in place; each waits for READY=1, which follows the commit."""
    saves = max(2, int(SAVES * scale))
    with Daemon(group("process", 2)) as daemon:
        starts, replaced = [], []
        for count in range(saves):
            starts.append(calibration.interpreter() * 1e3)
            replaced.append(_saved(daemon, group("process", 2, seed=f"{count}")))
        changed = [_saved(daemon, group("process", 2 + count % 2, seed="x")) for count in range(saves + 1)][1:]
    for share, percent, ceiling in ((0.5, "p50", USUAL), (0.99, "p99", WORST)):
        time_taken = percentile(replaced, share)
        gate = Gate(time_taken / percentile(starts, 0.5), "a bare start of Python", ceiling=ceiling)
        yield Figure(f"save → new worker RUNNING, {percent}", time_taken, "ms", gate, f"of {saves}")
    yield Figure("save → changed in place", percentile(changed, 0.5), "ms", note=f"median of {saves}")
    yield from _beside(saves)


def _saved(daemon: Daemon, *groups: str) -> float:
    """Milliseconds from the save of this file until the daemon says that it serves so."""
    time.sleep(REST)
    began = time.monotonic()
    daemon.write(*groups)
    daemon.await_ready()
    return (time.monotonic() - began) * 1e3


def _beside(saves: int) -> Iterator[Figure]:
    """The longest time in which no job of one group ended, while another group is replaced again and again."""
    count = min(saves, 20)
    with Daemon(group("process", 2, "one"), _other(""), queues=("other",)) as daemon:
        quiet = _longest_gap(daemon, lambda: time.sleep(count * REST * 2))

        def reloads() -> None:
            for number in range(count):
                _saved(daemon, group("process", 2, "one"), _other(f"{number}"))

        during = _longest_gap(daemon, reloads)
    yield Figure("longest gap between jobs, no reload", quiet, "ms", note="one job after the other")
    yield Figure("longest gap, an unrelated group is replaced", during, "ms", note=f"{count} reloads")


def _other(seed: str) -> str:
    """A group that has nothing to do with the jobs."""
    return group("process", 1, "two", seed, queue="other")


def _longest_gap(daemon: Daemon, meanwhile: Callable[[], None]) -> float:
    """Milliseconds between two results in a row, at most, while something is done."""
    ended, gaps = threading.Event(), [0.0]

    def produce() -> None:
        with daemon.client() as client:
            last = time.monotonic()
            while not ended.is_set():
                client.enqueue("noop").result(timeout=30)
                now = time.monotonic()
                gaps.append((now - last) * 1e3)
                last = now

    producer = threading.Thread(target=produce)
    producer.start()
    meanwhile()
    ended.set()
    producer.join()
    return max(gaps[10:], default=0.0)
