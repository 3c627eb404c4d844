"""
The same work in several ways, in rounds: medians, and ratios within a round.

The machine's speed moves within minutes; the blocks of one round see nearly the same of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.figures import Figure, number, quartiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: quantity → its value, of one block of work
Block = dict[str, float]
UNITS = {
    "PING": "ms",
    "speed": "jobs/s",
    "of what the slots could do": "",
    "Redis' CPU": "µs a job",
    "dispatchers' CPU": "µs a job",
    "children's CPU": "µs a job",
    "processors in use": "cores",
    "commands in Redis": "a job",
    "scripts called": "per 1,000",
    "messages published": "per 1,000",
    "to Redis": "bytes/job",
    "from Redis": "bytes/job",
    "enqueue → start, p50": "ms",
    "enqueue → start, p99": "ms",
    "least host's share of an even one": "",
}


def rounds(name: str, ways: Sequence[str], count: int, block: Callable[[str], Block]) -> Iterator[Figure]:
    """
    Figures of each quantity that `block` measures, for each way.

    Each round does all ways, the next one in the other order; before the first each is done once to warm up.
    """
    for way in ways:
        block(way)
    found: dict[str, list[Block]] = {way: [] for way in ways}
    for turn in range(count):
        for way in ways if turn % 2 == 0 else reversed(ways):
            found[way].append(block(way))
    first = ways[0]
    for quantity in found[first][0]:
        for way in ways:
            values = [each[quantity] for each in found[way]]
            low, middle, high = quartiles(values)
            note = f"{number(low)} to {number(high)}"
            if way != first:
                note += _ratio(values, [each[quantity] for each in found[first]], first)
            yield Figure(f"{name}, {quantity}, {way}", middle, UNITS[quantity], note=note)


def _ratio(values: Sequence[float], others: Sequence[float], first: str) -> str:
    if not all(others):
        return ""
    low, middle, high = quartiles([value / other for value, other in zip(values, others, strict=True)])
    return f"; {number(middle)} × {first} ({number(low)} to {number(high)})"
