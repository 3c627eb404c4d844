"""
Read the five fields of a cron text.

1. written_out  text → a text with the same ticks and no range; raises CronTextError if a field cannot be read
2. matcher      text → a croniter that walks its ticks

croniter gets each range as the list of its values. By itself it takes `5-5` for every value, `59/15` for 59 or for
0,15,30,45, depending on its version, and `50-10/7` for 50, 57 and 5, where 4 is right. A `*` stays, since croniter
looks for it to tell whether both day fields are restricted.

Knows neither a file nor a time zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from croniter import croniter


class CronTextError(ValueError):
    """A field cannot be read."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason, self.remedy = reason, remedy


@dataclass(frozen=True, slots=True)
class CronField:
    """What one of the five fields may have."""

    #: as messages call it
    name: str
    low: int
    high: int
    #: number of different values
    size: int
    #: of the values from `low` on
    names: tuple[str, ...] = ()
    #: stands for `high` at the end of a range
    end_name: str = ""
    #: what else a remedy names
    more: str = ""

    def number(self, word: str, part: str) -> int:
        """The value of a number or a name in a part of the field."""
        if word.lower() in self.names:
            return self.low + self.names.index(word.lower())
        if not word.isdigit():
            raise self.unreadable(part)
        if self.low <= int(word) <= self.high:
            return int(word)
        side = f"below {self.low}" if int(word) < self.low else f"above {self.high}"
        raise CronTextError(f"the {self.name} {word} is {side}", f"write {self.low} to {self.high}{self.more}")

    def end(self, word: str, part: str) -> int:
        """The value of the last word of a range."""
        return self.high if word.lower() == self.end_name else self.number(word, part)

    def values(self, first: int, last: int, step: int) -> list[int]:
        """The values of a range; if `last` is below `first`, the range continues at the start of the field."""
        until = last if first <= last else last + self.size
        return [(value - self.low) % self.size + self.low for value in range(first, until + 1, step)]

    def unreadable(self, part: str) -> CronTextError:
        """The error about a part that is not a value, range or step."""
        remedy = f"write * or {self.low} to {self.high}{self.more}"
        return CronTextError(f"the {self.name} {part!r} cannot be read", remedy)


_MINUTE: Final = CronField("minute", 0, 59, 60)
_HOUR: Final = CronField("hour", 0, 23, 24)
_DAY: Final = CronField("day of month", 1, 31, 31, end_name="l", more=", or L for the last day")
_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = CronField("month", 1, 12, 12, _MONTH_NAMES, more=", or jan to dec")
_WEEKDAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: 7 is Sunday, as 0 is
_WEEKDAY: Final = CronField("weekday", 0, 7, 7, _WEEKDAY_NAMES, more=", or sun to sat")
FIELDS: Final = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)

_EACH: Final = re.compile(r"\*(?:/(?P<step>[0-9]{1,9}))?")
_RANGE: Final = re.compile(
    r"(?P<first>[0-9]{1,9}|[A-Za-z]+)(?:-(?P<last>[0-9]{1,9}|[A-Za-z]+))?(?:/(?P<step>[0-9]{1,9}))?"
)
_NEAREST: Final = re.compile(r"[Ww](?P<after>[0-9]{1,9})|(?P<before>[0-9]{1,9})[Ww]")
_LAST_WEEKDAY: Final = re.compile(r"[Ll]([0-9]{1,9})")


def matcher(text: str, start: datetime) -> croniter:
    """A croniter that begins after `start`."""
    # Here: it takes 1 MB, and many files have no schedule, or all of theirs are `every:`.
    from croniter import croniter

    return croniter(written_out(text), start)


def written_out(text: str) -> str:
    """
    The text with each range as the list of its values.

    Raises:
        CronTextError: a field cannot be read.
    """
    if text.startswith("@"):
        return text
    minute, hour, day, month, weekday = text.split()
    _check_days(day, weekday)
    times = f"{_list(_MINUTE, minute)} {_list(_HOUR, hour)}"
    return f"{times} {_days(day)} {_list(_MONTH, month)} {_weekdays(weekday)}"


def _check_days(day: str, weekday: str) -> None:
    """Refuse two day fields of which croniter ignores one, or with which it finds no date."""
    if {day, weekday}.isdisjoint(("*", "?")) and (_has_nearest(day) or any(map(_is_of_month, weekday.split(",")))):
        reason = f"the day of month {day} and the weekday {weekday} cannot be combined"
        raise CronTextError(reason, "write * for one of the two, or two entries")


def _list(field: CronField, written: str) -> str:
    return _once(_values(field, part) for part in written.split(","))


def _once(lists: Iterable[str]) -> str:
    """The lists as one, each value once: croniter takes seconds for a hundred thousand values."""
    return ",".join(dict.fromkeys(value for each in lists for value in each.split(",")))


def _values(field: CronField, part: str) -> str:
    """`*` and `*/5` as they are; the values of `5`, `5-9`, `5-9/2`, and of `5/15`, which ends with the field."""
    match = _EACH.fullmatch(part) or _RANGE.fullmatch(part)
    if match is None:
        raise field.unreadable(part)
    step = match["step"]
    if step and not int(step):
        raise CronTextError(f"the step of the {field.name} {part!r} is below 1", "write a step of 1 or more")
    if part.startswith("*"):
        return part
    first = field.number(match["first"], part)
    if not match["last"] and not step:
        return str(first)
    last = field.end(match["last"], part) if match["last"] else field.low + field.size - 1
    return ",".join(str(value) for value in field.values(first, last, int(step or 1)))


def _days(written: str) -> str:
    if written == "?":
        return "*"
    if "," in written and _has_nearest(written):
        raise CronTextError(f"the day of month {written!r} has W in a list", "write W with a single day, such as 15W")
    return _once(_day(part) for part in written.split(","))


def _day(part: str) -> str:
    if part in ("L", "l"):
        return part
    if nearest := _NEAREST.fullmatch(part):
        return f"{_DAY.number(nearest['before'] or nearest['after'], part)}W"
    return _values(_DAY, part)


def _has_nearest(day: str) -> bool:
    return any(_NEAREST.fullmatch(part) for part in day.split(","))


def _weekdays(written: str) -> str:
    if written == "?":
        return "*"
    parts = written.split(",")
    if len({_is_of_month(part) for part in parts}) > 1:
        raise CronTextError(f"the weekday {written!r} has a part with # or L and one without", "write two entries")
    return _once(_weekday(part) for part in parts)


def _weekday(part: str) -> str:
    if last := _LAST_WEEKDAY.fullmatch(part):
        return f"L{_WEEKDAY.number(last[1], part) % _WEEKDAY.size}"
    days, mark, which = part.partition("#")
    if mark and (days.startswith("*") or not which):
        raise _WEEKDAY.unreadable(part)
    if mark and which not in tuple("12345"):
        raise CronTextError(f"the number after # in {part!r} is not 1 to 5", "write #1 to #5, such as fri#2")
    return ",".join(f"{day}{mark}{which}" for day in _values(_WEEKDAY, days).split(","))


def _is_of_month(weekday: str) -> bool:
    """Whether it is one weekday of the month, not each: `fri#2`, `L5`."""
    return "#" in weekday or _LAST_WEEKDAY.fullmatch(weekday) is not None
