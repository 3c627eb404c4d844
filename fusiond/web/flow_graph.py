"""The graph of a flow run as inline SVG: a column for each depth, a box for each step, a curve for each `after`."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

#: pixels: of a box, and between boxes
_WIDTH, _HEIGHT, _ACROSS, _DOWN, _EDGE = 170, 48, 56, 18, 10
#: characters of a name
_LONGEST: Final = 20
_BOX = Markup(
    '<a href="{}"><g class="{}"><title>{}: {}</title><rect x="{}" y="{}" width="{}" height="{}" rx="6"/>'
    '<text x="{}" y="{}">{}</text><text class="dim" x="{}" y="{}">{}</text></g></a>'
)
_CURVE = Markup('<path d="M{} {} C{} {} {} {} {} {}"/>')
_WHOLE = Markup('<svg class="steps" role="group" aria-label="{}" viewBox="0 0 {} {}" width="{}" height="{}">{}{}</svg>')

_BAR = Markup(
    '<svg class="bar-of {}" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">'
    '<rect x="{:.1f}" y="0" width="{:.1f}" height="10"/></svg>'
)


class _Place(NamedTuple):
    """The upper left corner of a box."""

    x: int
    y: int


def graph(steps: Sequence[Any], label: str, run: str) -> Markup:
    """The steps of a run, each with `name`, `status`, `after`, `depth`, `jobs` and what it runs."""
    rows: dict[int, int] = defaultdict(int)
    places: dict[str, _Place] = {}
    for step in steps:
        x = _EDGE + step.depth * (_WIDTH + _ACROSS)
        places[step.name] = _Place(x, _EDGE + rows[step.depth] * (_HEIGHT + _DOWN))
        rows[step.depth] += 1
    width = 2 * _EDGE + (max(rows, default=0) + 1) * (_WIDTH + _ACROSS) - _ACROSS
    height = 2 * _EDGE + max(rows.values(), default=1) * (_HEIGHT + _DOWN) - _DOWN
    curves = Markup("").join(
        _curve(places[before], places[step.name]) for step in steps for before in step.after if before in places
    )
    boxes = Markup("").join(_box(step, places[step.name], run) for step in steps)
    return _WHOLE.format(label, width, height, width, height, curves, boxes)


def _curve(one: _Place, other: _Place) -> Markup:
    x, y, to_x, to_y = one.x + _WIDTH, one.y + _HEIGHT // 2, other.x, other.y + _HEIGHT // 2
    middle = (x + to_x) // 2
    return _CURVE.format(x, y, middle, y, middle, to_y, to_x, to_y)


def _box(step: Any, place: _Place, run: str) -> Markup:
    many = f", {step.finished} of {step.jobs}" if step.jobs > 1 else ""
    texts = place.x + 12, place.y + 20, _short(step.name), place.x + 12, place.y + 38, _short(f"{step.status}{many}")
    return _BOX.format(address(step, run), step.status, step.name, step.status, *place, _WIDTH, _HEIGHT, *texts)


def address(step: Any, run: str) -> str:
    """Of the job of a step, or of the list of its jobs."""
    if step.jobs > 1 or not step.work:
        return f"/flows/{run}/steps/{step.name}"
    return f"/{'flows' if step.flow else 'jobs'}/{step.work}"


def by_time(steps: Sequence[Any]) -> list[Any]:
    """Those that failed first, then by their begin."""
    return sorted(steps, key=lambda step: (step.status != "failed", step.began_at or 2**60, step.depth))


def bar(step: Any, run: Any) -> Markup:
    """From when to when a step ran, as a part of the time from the begin of its run to its end, or to now."""
    if step.began_at is None:
        return Markup("")
    whole = max((run.ended_at or time.time() * 1000) - run.created_at, 1)
    x = min(max(1000 * (step.began_at - run.created_at) / whole, 0), 995)
    return _BAR.format(step.status, x, min(max(1000 * step.ms / whole, 5), 1000 - x))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
