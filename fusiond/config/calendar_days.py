"""
Which days calendars exclude, and on which days a cron text ticks instead.

The package `holidays` is loaded for a calendar with a country only. Pure: a result depends on the arguments, and on the
version of that package, which knows dates of years to come better than older ones.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from fusiond.config.model.cron_entries import Calendar, IfExcluded

if TYPE_CHECKING:
    from croniter import croniter
    from holidays import HolidayBase

DAY: Final = timedelta(days=1)
#: years ahead in which days are looked for: calendars may exclude all days of a cron text
_YEARS: Final = 10
#: Saturday and Sunday, as `date.weekday` counts them
_WEEKEND: Final = frozenset({5, 6})


@functools.cache
def holidays_of(country: str, subdivision: str | None) -> HolidayBase:
    """The holidays of a country. Raises ValueError: it is not known, or the package is not installed."""
    try:
        from holidays import country_holidays

        return country_holidays(country, subdiv=subdivision)
    except ImportError:
        raise ValueError("the package holidays is not installed; pip install 'fusiond[calendars]'") from None
    except NotImplementedError as error:
        raise ValueError(f"the package holidays says: {error}") from None


def why_excluded(calendars: Sequence[Calendar], day: date) -> str:
    """The holiday, `weekend`, or the name of the calendar that has this date; "": it is not excluded. As above."""
    for calendar in calendars:
        holidays = holidays_of(calendar.country, calendar.subdivision) if calendar.country else None
        if day.isoformat() in calendar.dates:
            return calendar.name
        if holidays is not None and (name := holidays.get(day)):
            return name
        if calendar.weekends and day.weekday() in (_WEEKEND if holidays is None else holidays.weekend):
            return "weekend"
    return ""


def moved(calendars: Sequence[Calendar], if_excluded: IfExcluded, day: date) -> date | None:
    """The day on which the tick of a day runs; None: on none. As above."""
    step = {"next_day": DAY, "previous_day": -DAY}.get(if_excluded)
    if not why_excluded(calendars, day):
        return day
    return end_of_excluded(calendars, day, step) + step if step else None


def end_of_excluded(calendars: Sequence[Calendar], day: date, step: timedelta) -> date:
    """The last of the excluded days that follow this day without a gap, or the day itself. As above."""
    while why_excluded(calendars, day + step):
        day += step
    return day


def days_of(matcher: croniter, first: date) -> Iterator[date]:
    """The days on which a cron text ticks by the wall clock, ten years from the first one on, which counts."""
    from croniter.croniter import CroniterBadDateError

    day = first - DAY
    with contextlib.suppress(CroniterBadDateError):  # `0 0 30 2 *`
        while day.year <= first.year + _YEARS:
            day = matcher.get_next(datetime, start_time=datetime.combine(day, time(23, 59, 59))).date()
            yield day


@functools.lru_cache(maxsize=256)
def dates_of(calendar: Calendar, year: int) -> str:
    """Of each day of this year and the next, whether it is excluded: 0 or 1; "?": not known on this host."""
    try:
        return "".join("01"[bool(why_excluded([calendar], date(year, 1, 1) + n * DAY))] for n in range(731))
    except ValueError:
        return "?"
