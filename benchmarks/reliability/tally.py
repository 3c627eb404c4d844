"""What came of each job, from the lines that producer and jobs left. Nothing else, so that all are judged alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of jobs, if not said otherwise."""

    #: whose enqueue returned
    acknowledged: int
    #: of these, never begun
    never_run: int
    #: begun at least once and never ended
    never_ended: int
    #: ended more than once
    ended_again: int
    #: begun more than once, of whatever end
    begun_again: int
    #: processes killed, and those of the schedule that found none of their kind before the load was over
    kills: int
    missed: int
    #: what the runner itself still has, by its own name: what is here is not forgotten
    left: dict[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Acknowledged, and never run to the end."""
        return self.never_run + self.never_ended


def tally(acknowledged: str, runs: str, kills: int, missed: int, left: dict[str, int]) -> Tally:
    """
    Judge by two texts: `acknowledged` has a number per line, `runs` has `<number> began` or `<number> ended`.

    Job 0, which only waits for the workers, is acknowledged elsewhere and so not counted.
    """
    asked = {int(line) for line in acknowledged.splitlines()}
    lines = Counter(tuple(line.split()) for line in runs.splitlines())
    began = {number: lines[str(number), "began"] for number in asked}
    ended = {number: lines[str(number), "ended"] for number in asked}
    return Tally(
        acknowledged=len(asked),
        never_run=sum(not began[number] for number in asked),
        never_ended=sum(bool(began[number]) and not ended[number] for number in asked),
        ended_again=sum(ended[number] > 1 for number in asked),
        begun_again=sum(began[number] > 1 for number in asked),
        kills=kills,
        missed=missed,
        left={name: count for name, count in left.items() if count},
    )
