"""What a simulation counts, and its result: a document of plain data, the same for the same seed."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any

from fusiond.broker.records import Counts

_PERCENTILES = (50, 95, 99)


class SimulatedFigures:
    """The counts of one simulation."""

    def __init__(self) -> None:
        #: task → ms that each attempt waited from when it was ready
        self.waits: dict[str, array[int]] = {}
        #: task → the longest of them, ms, and when it ended, ms from the begin
        self.longest: dict[str, tuple[int, int]] = {}
        #: task → what became of its jobs
        self.jobs: dict[str, Counter[str]] = {}
        #: queue → the most that waited at once, and when, ms from the begin
        self.peaks: dict[str, tuple[int, int]] = {}
        #: queue → the most that a limit held at once
        self.held: Counter[str] = Counter()
        #: cron entry → what became of its ticks
        self.ticks: dict[str, Counter[str]] = {}

    def count(self, task: str, what: str) -> None:
        """One more job of the task has come to that."""
        self.jobs.setdefault(task, Counter())[what] += 1

    def began(self, task: str, waited_ms: int, at_ms: int) -> None:
        """An attempt begins."""
        self.waits.setdefault(task, array("q")).append(waited_ms)
        if waited_ms > self.longest.setdefault(task, (waited_ms, at_ms))[0]:
            self.longest[task] = waited_ms, at_ms

    def look(self, queue: str, counts: Counts, at_ms: int) -> None:
        """What is in a queue at this moment."""
        backlog = counts.queued + counts.held
        if backlog > self.peaks.setdefault(queue, (0, 0))[0]:
            self.peaks[queue] = backlog, at_ms
        self.held[queue] = max(self.held[queue], counts.held)

    def tasks(self) -> dict[str, dict[str, Any]]:
        """Task → its figures; waits in s, None where no attempt began."""
        return {
            task: {
                "jobs": counted["arrived"],
                **_waits(self.waits.get(task, array("q"))),
                "wait_max_at": self.longest.get(task, (0, 0))[1] / 1000,
                **{name: counted[name] for name in ("finished", "failed", "expired", "retries", "rescued", "refused")},
            }
            for task, counted in sorted(self.jobs.items())
        }

    def queues(self, left: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        """Queue → its figures; `left`: what still waits in it at the end."""
        return {
            queue: {"backlog": peak, "backlog_at": at_ms / 1000, "held": self.held[queue], "left": left[queue]}
            for queue, (peak, at_ms) in sorted(self.peaks.items())
        }


def _waits(waits: array[int]) -> dict[str, float | None]:
    """Percentiles by the nearest rank."""
    ordered = sorted(waits)
    ranks = {f"wait_p{share}": -(-share * len(ordered) // 100) - 1 for share in _PERCENTILES} | {"wait_max": -1}
    return {name: ordered[rank] / 1000 if ordered else None for name, rank in ranks.items()}
