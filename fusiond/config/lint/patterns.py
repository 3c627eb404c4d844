"""Schedules that can be read and are hardly meant: the traps of cron."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from fusiond.config.lint.walk import named, said
from fusiond.config.units import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Config, CronEntry
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node

_STEP: Final = re.compile(r"\*/([0-9]{1,4})")
#: fields whose range a step may not divide, and how many values each has
_RANGES: Final = (("minutes", 60), ("hours", 24))
_FROM: Final = datetime(2026, 1, 1)  # noqa: DTZ001 - wall-clock time; any moment will do
_TICKS: Final = 8


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each entry whose ticks are other ones than they look."""
    for name, node in named(root, "cron"):
        entry = config.cron[name]
        schedule = node.get("schedule")
        if schedule is not None and entry.schedule is not None and not entry.schedule.startswith("@"):
            yield from _text(schedule, entry.schedule.split())
        yield from _jitter(root, node, entry, config)
        if entry.missed == "all" and entry.starting_deadline is None and (missed := node.get("missed")) is not None:
            message = "missed: all without a starting_deadline makes up for every tick of a downtime, however long"
            yield missed.place.warning("unbounded-catch-up", message, "add starting_deadline: 1d")


def _text(node: Node, fields: list[str]) -> Iterator[Problem]:
    minute, hour, day, month, weekday = fields
    if minute == "*" and hour.isdigit():
        message = f"{node.raw!r} ticks 60 times, in each minute of the hour {hour}"
        yield node.place.warning("every-minute", message, f'write "{" ".join(["0", *fields[1:]])}" for once')
    for field, (noun, size) in zip((minute, hour), _RANGES, strict=True):
        match = _STEP.fullmatch(field)
        if match and int(match[1]) and size % int(match[1]):
            last = (size - 1) // int(match[1]) * int(match[1])
            message = f"{field} counts {noun} from 0 up to {last} and begins anew: the last gap is {size - last}"
            yield node.place.warning("uneven-step", message, f"write a step that divides {size}, or every:")
    if day[0] != "*" and weekday[0] != "*":
        message = f"{node.raw!r} ticks on the day {day} and on each weekday {weekday}: cron joins the two by or"
        yield node.place.warning("day-or-weekday", message, "write * for one of the two")
    yield from _missing_days(node, day, month)


def _missing_days(node: Node, day: str, month: str) -> Iterator[Problem]:
    if day in ("29", "30", "31") and month == "*":
        message = f"{node.raw!r} is silent in each month without a {day}th".replace("31th", "31st")
        yield node.place.warning("skipped-months", message, "write L for the last day of the month")
    elif day == "29" and month in ("2", "feb", "FEB"):
        message = f"{node.raw!r} ticks in leap years only"
        yield node.place.warning("skipped-months", message, "write L for the last day of February")


def _jitter(root: Node, node: Node, entry: CronEntry, config: Config) -> Iterator[Problem]:
    jitter = node.get("jitter")
    if jitter is None or not entry.jitter:
        return
    interval = _interval(entry)
    if entry.jitter >= interval:
        message = f"the jitter {jitter.raw} reaches beyond the next tick, {written(interval)} later"
        yield jitter.place.warning("jitter-above-interval", message, f"write less than {written(interval)}")
    task = config.tasks[entry.task]
    if task.expires is not None and task.expires <= entry.jitter:
        expires = said(root, "tasks", task.name, "expires")
        shown = expires.raw if expires is not None else written(task.expires)
        message = f"a job that {jitter.raw} of jitter delay may expire before it is due: {task.name!r} expires: {shown}"
        yield jitter.place.warning("jitter-above-expires", message, f"write less than {shown}")


def _interval(entry: CronEntry) -> float:
    """Seconds between ticks; of a schedule, between the two nearest of the first ones."""
    if entry.every is not None:
        return entry.every
    from croniter import croniter

    matcher = croniter(entry.schedule or "", _FROM)
    ticks = [matcher.get_next(float) for _ in range(_TICKS)]
    return float(min(later - earlier for earlier, later in pairwise(ticks)))
