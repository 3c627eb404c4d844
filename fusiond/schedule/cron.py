"""
When a cron entry ticks: (entry, moment) → next tick.

1. croniter finds the times of a cron text by the wall clock. It knows neither zone nor daylight saving
2. each wall-clock time becomes an instant, by one of two rules:
   - the schedule names hours (`30 2 * * *`): each of its times runs exactly once. One that the clocks skip runs at the
     moment after the gap, one that comes twice runs the first time
   - it runs in each hour (`*/5 * * * *`): it is meant as an interval, so it follows elapsed time. Nothing is made up
     for an hour that does not exist, and an hour that comes twice is served twice
3. `every:` has no zone at all: its ticks are the multiples of the interval since the epoch
4. with `not_on`, the days of a cron text are moved or left out first (config/calendar_days.py). On each day that is
   left its minutes and hours become instants by the rules of 2. So the ticks are still one set of instants

Instants are epoch ms. Pure: time is an argument, and a result depends on the arguments only.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from fusiond.config import cron_text
from fusiond.config.calendar_days import DAY, days_of, end_of_excluded, moved, why_excluded
from fusiond.config.model import CronEntry
from fusiond.config.model.cron_entries import Calendar, IfExcluded

if TYPE_CHECKING:
    from croniter import croniter

_DAY = 86_400
_SECOND = timedelta(seconds=1)
#: ticks of a cron text that are counted at most: each takes 80 µs
MOST_COUNTED = 5000
#: excluded days that `explain` names for a tick
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class ComingTick:
    """One line of `fusiond cron explain`."""

    #: epoch ms
    at: int
    #: the same in the entry's zone; knows its UTC offset
    local: datetime
    #: what daylight saving and calendars do to it; mostly empty
    note: str = ""


def next_tick(entry: CronEntry, after: int) -> int | None:
    """The first tick later than `after`, in epoch ms; None if there is none in the next 50 years."""
    if entry.every is not None:
        interval = max(1, round(entry.every * 1000))
        return (after // interval + 1) * interval
    at = _next_on_days(entry.schedule or "", entry.timezone, after // 1000, entry.calendars, entry.if_excluded)
    return None if at is None else at * 1000


def ticks(entry: CronEntry, after: int, until: int, limit: int) -> list[int]:
    """The first `limit` ticks later than `after` and not later than `until`."""
    return list(islice(takewhile(lambda tick: tick <= until, _ticks(entry, after)), limit))


def count_ticks(entry: CronEntry, after: int, until: int) -> int:
    """How many ticks there are later than `after` and not later than `until`; of a cron text, 5,000 at most."""
    if entry.every is not None:
        interval = max(1, round(entry.every * 1000))
        return until // interval - after // interval
    return len(ticks(entry, after, until, MOST_COUNTED))


def latest_tick(entry: CronEntry, after: int, until: int) -> int | None:
    """The last tick later than `after` and not later than `until`, however many there are."""

    def is_last(moment: int) -> bool:
        tick = next_tick(entry, moment)
        return tick is None or tick > until

    if is_last(after):
        return None
    first = next_tick(entry, after)
    if first is not None and is_last(first):
        return first  # nearly always
    # The last tick is the earliest moment that no due tick follows: bisection finds it among a month of minutes.
    return range(after, until + 1)[bisect_left(range(after, until + 1), True, key=is_last)]


def problem_here(entry: CronEntry) -> str | None:
    """Why this host cannot compute the entry's ticks: it lacks the time zone, or the holidays, of its file; or None."""
    try:
        if entry.inputs:
            ZoneInfo(entry.timezone)
        next_tick(entry, 0)
    except KeyError as error:
        return f"{error.args[0]}; install its time zones"
    except (ValueError, OSError) as error:
        return str(error)
    return None


def explain(entry: CronEntry, after: int, count: int) -> list[ComingTick]:
    """The next `count` ticks with their local time, and what daylight saving and calendars do to them."""
    zone, found = ZoneInfo(entry.timezone), list[ComingTick]()
    before = _wall(zone, after // 1000).date() - DAY
    for tick in islice(_ticks(entry, after), count):
        local = datetime.fromtimestamp(tick / 1000, zone)
        notes = _note(entry, zone, tick // 1000), _excluded(entry, before, local.date()) if entry.calendars else ""
        found.append(ComingTick(tick, local, "; ".join(filter(None, notes))))
        before = local.date()
    return found


def _excluded(entry: CronEntry, before: date, day: date) -> str:
    """Which excluded days the ticks of this day come after, or stand for; `before`: the day of the tick before."""
    first, last = before + DAY, day
    if entry.if_excluded == "previous_day":
        first, last = day + DAY, end_of_excluded(entry.calendars, day, DAY)
    days = takewhile(lambda each: each <= last, days_of(_matcher(entry.schedule or ""), first))
    why = [f"{each} ({reason})" for each in days if (reason := why_excluded(entry.calendars, each))]
    what = "not on" if entry.if_excluded == "skip" else "also for"
    return f"{what} {', '.join(why[:_MOST_NAMED])}{', …' if len(why) > _MOST_NAMED else ''}" if why else ""


def _ticks(entry: CronEntry, after: int) -> Iterator[int]:
    tick = next_tick(entry, after)
    while tick is not None:
        yield tick
        tick = next_tick(entry, tick)


# --- wall-clock time; what follows counts in epoch seconds


@functools.lru_cache(maxsize=4096)  # `due` asks some moments twice, and many entries share a timetable
def _next_at(text: str, timezone: str, after: int) -> int | None:
    from croniter.croniter import CroniterBadDateError

    zone, matcher = ZoneInfo(timezone), _matcher(text)
    rule = _next_by_interval if _runs_in_each_hour(matcher) else _next_by_wall_clock
    try:
        return rule(matcher, zone, after)
    except CroniterBadDateError:  # `0 0 30 2 *`
        return None


def _next_on_days(
    text: str, timezone: str, after: int, calendars: tuple[Calendar, ...], if_excluded: IfExcluded
) -> int | None:
    if not calendars:
        return _next_at(text, timezone, after)
    zone, matcher = ZoneInfo(timezone), _matcher(text)
    # On each day that the calendars leave it, it ticks at the times of this one.
    minutes, hours = (",".join(map(str, field)) for field in matcher.expanded[:2])
    daily, today = f"{minutes} {hours} * * *", _wall(zone, after).date()
    first = end_of_excluded(calendars, today, -DAY) if if_excluded == "next_day" else today
    for day in days_of(matcher, first):
        to = moved(calendars, if_excluded, day)
        if to is None:
            continue
        begin = _first_instant(zone, datetime(to.year, to.month, to.day))  # noqa: DTZ001 - wall-clock time
        at = _next_at(daily, timezone, max(after, begin - 1))
        if at is not None and _wall(zone, at).date() == to:
            return at
    return None


@functools.lru_cache(maxsize=1024)
def _matcher(text: str) -> croniter:
    return cron_text.matcher(text, datetime(1970, 1, 1))  # noqa: DTZ001 - wall-clock time


def _runs_in_each_hour(matcher: croniter) -> bool:
    return matcher.expanded[1] == ["*"]


def _next_wall(matcher: croniter, wall: datetime) -> datetime:
    found: datetime = matcher.get_next(datetime, start_time=wall)
    return found


def _wall(zone: ZoneInfo, at: int) -> datetime:
    return datetime.fromtimestamp(at, zone).replace(tzinfo=None, fold=0)


def _offset(zone: ZoneInfo, at: int) -> timedelta:
    return datetime.fromtimestamp(at, zone).utcoffset() or timedelta()


def _first_instant(zone: ZoneInfo, wall: datetime) -> int:
    """The moment when clocks first show this time; if they skip it, the first moment after the gap."""
    at = int(wall.replace(tzinfo=zone).timestamp())
    if _wall(zone, at) == wall:
        return at
    # In a gap, fold=0 uses the offset before it and so gives a moment after it; fold=1 the reverse (PEP 495).
    span = range(int(wall.replace(tzinfo=zone, fold=1).timestamp()), at + 1)
    return span[bisect_left(span, True, key=lambda moment: _wall(zone, moment) > wall)]


def _next_by_wall_clock(matcher: croniter, zone: ZoneInfo, after: int) -> int:
    wall = _wall(zone, after)
    while True:
        wall = _next_wall(matcher, wall)
        at = _first_instant(zone, wall)
        if at > after:  # false while the clocks show an hour for the second time
            return at


def _next_by_interval(matcher: croniter, zone: ZoneInfo, after: int) -> int:
    start = after
    while True:
        offset = _offset(zone, start)
        utc = _next_wall(matcher, _naive(after) + offset) - offset
        at = int((utc - _naive(0)).total_seconds())
        change = _first_change(zone, start, at)
        if change is None:
            return at
        start, after = change, change - 1  # go on with the new offset; the moment of the change itself may match


def _naive(at: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(seconds=at)  # noqa: DTZ001 - an offset is added to it


def _first_change(zone: ZoneInfo, after: int, until: int) -> int | None:
    """The first moment in (after, until] whose UTC offset is not that of `after`. No zone changes twice in a day."""
    offset = _offset(zone, after)
    for start in range(after, until, _DAY):
        span = range(start, min(start + _DAY, until) + 1)
        if _offset(zone, span[-1]) != offset:
            return span[bisect_left(span, True, key=lambda moment: _offset(zone, moment) != offset)]
    return None


def _note(entry: CronEntry, zone: ZoneInfo, at: int) -> str:
    """What daylight saving does to this tick."""
    if entry.every is not None:
        return ""
    matcher, wall = _matcher(entry.schedule or ""), _wall(zone, at)
    named = not _runs_in_each_hour(matcher)
    last_before = _wall(zone, at - 1)
    if named and wall - last_before > _SECOND and (skipped := _next_wall(matcher, last_before)) < wall:
        return f"{skipped:%H:%M} does not exist on this day: runs when the clocks have moved on"
    first, second = (wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    if first >= second:
        return ""
    if named:
        return f"{wall:%H:%M} comes twice on this day: runs the first time only"
    return f"{wall:%H:%M} comes twice on this day: this is the {'first' if at == first else 'second'}"
