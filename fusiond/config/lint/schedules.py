"""
When a cron entry ticks.

1. check        what cannot be read, or never ticks: its cron text, its time zone
2. check_ticks  an interval that is too short, and what is valid but probably a mistake: the traps of cron, and jitter
"""

import contextlib
import functools
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Final

from fusiond.config.calendar_days import days_of, why_excluded
from fusiond.config.cron_text import FIELDS, CronTextError, matcher
from fusiond.config.layers import node_of
from fusiond.config.lint.suggest import did_you_mean, listed
from fusiond.config.model import Config, CronEntry
from fusiond.config.problems import Problem
from fusiond.config.units import written
from fusiond.config.yaml.nodes import Node

FORMS: Final = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_FIELDS: Final = ", ".join(field.name for field in FIELDS)
_CLOCK: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
# For croniter, H and R are "any value, drawn once": each daemon would tick at another time.
_DRAWN: Final = re.compile(r"(?<![A-Za-z])[HhRr](?![A-Za-z])")
#: texts that are surely valid (each field in its range, a day that every month has), since croniter is slow to import
_SURE: Final = re.compile(
    r"(\*|\*/[1-9]|\*/[1-5][0-9]|[1-5]?[0-9]) (\*|\*/[1-9]|\*/1[0-9]|\*/2[0-3]|1?[0-9]|2[0-3]) "
    r"(\*|[1-9]|1[0-9]|2[0-8]) (\*|[1-9]|1[0-2]) (\*|[0-7]|1-5)"
)
_STEP: Final = re.compile(r"(\*|[0-9]{1,4})/([0-9]{1,4})")
#: of the first four fields: what it counts, from where, and how many values it has
_RANGES: Final = (("minutes", 0, 60), ("hours", 0, 24), ("days", 1, 31), ("months", 1, 12))
#: ticks are counted from this moment; any other will do
_FROM: Final = datetime(2026, 1, 1)  # noqa: DTZ001 - wall-clock time
#: number of ticks that are searched for the shortest and the longest interval
_TICKS: Final = 8


def check(root: Node) -> Iterator[Problem]:
    """Each entry that cannot be read, or never ticks."""
    for key, entry in root.entries("cron"):
        if (text := entry.text("schedule")) and (found := schedule_problem(text)) is not None:
            code, message, remedy = found
            yield entry.nearest("schedule").error(code, f"cron.{key}.schedule: {message}", remedy)
        zone, name = entry.get("timezone"), entry.text("timezone")
        if zone is not None and name and name != "UTC":
            yield from _zone(zone, name)


def check_ticks(root: Node, config: Config) -> Iterator[Problem]:
    """Each entry that ticks too often, or probably at other moments than was meant."""
    for name, node in root.entries("cron"):
        entry, schedule = config.cron[name], node.get("schedule")
        if entry.every is not None and entry.every < 1:
            message = f"cron.{name}.every: {written(entry.every)} is below 1s"
            yield node.nearest("every").error("out-of-range", message, "write 1s or more")
        if entry.every is not None and "timezone" in node.keys:
            message = "timezone has no effect with every:, which counts from the epoch"
            yield node.keys["timezone"].warning("ignored-key", message, "remove it, or use schedule:")
        if schedule is not None and entry.schedule is not None and not entry.schedule.startswith("@"):
            yield from _traps(schedule, entry.schedule.split())
        yield from _jitter(root, node, entry, config)
        yield from _replaced(node, entry, config)
        yield from _alert(node, entry)
        yield from _calendars(node, entry)
        all_run = entry.missed == "all" and entry.overlap != "replace"
        if all_run and entry.starting_deadline is None and (missed := node.get("missed")) is not None:
            message = "missed: all without a starting_deadline makes up for every tick of a downtime, however long"
            yield missed.place.warning("unbounded-catch-up", message, "add starting_deadline: 1d")
    for name, node in root.entries("calendars"):
        if config.calendars[name].subdivision and not config.calendars[name].country:
            message = f"calendars.{name}.subdivision is a part of no country"
            yield node.nearest("subdivision").error("missing-key", message, "add country: with its code, such as DE")


def _calendars(node: Node, entry: CronEntry) -> Iterator[Problem]:
    """Calendars that have no effect, or that leave no day."""
    if entry.every is not None and entry.not_on:
        message = "not_on excludes days, and every: has none"
        yield node.keys["not_on"].error("exclusive-keys", message, "write a schedule, or remove not_on")
    elif "if_excluded" in node.keys and not entry.not_on:
        message = "if_excluded has no effect without not_on"
        yield node.keys["if_excluded"].warning("ignored-key", message, "remove it, or name calendars in not_on")
    elif entry.schedule is not None and entry.calendars and entry.if_excluded == "skip":
        with contextlib.suppress(ValueError):  # the holidays are not known here, which is another problem
            days = days_of(matcher(entry.schedule, _FROM), _FROM.date())
            if all(why_excluded(entry.calendars, day) for day in days):
                message = f"{entry.schedule!r} never fires: each of its days is excluded"
                yield node.keys["not_on"].error("never-fires", message, "check not_on, or write if_excluded: next_day")


def _replaced(node: Node, entry: CronEntry, config: Config) -> Iterator[Problem]:
    """An entry whose canceled job would keep the job out that is to replace it."""
    unique, overlap = config.work_of(entry).unique, node.get("overlap")
    if overlap is not None and entry.overlap == "replace" and unique and unique.for_:
        lasts = written(unique.for_)
        message = f"the canceled job keeps its lock (`unique` of {entry.work!r}) for {lasts}, and keeps the new one out"
        yield overlap.place.error("replace-unique", message, "write `until: ended` in place of `for`, or overlap: skip")


# -- what cannot be read ----------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8192)
def schedule_problem(text: str) -> tuple[str, str, str] | None:
    """Code, message and remedy for a cron text that cannot be used; None if it can."""
    if _SURE.fullmatch(text) or text in FORMS:
        return None
    if (found := _wrong_form(text)) is not None:
        return found
    from croniter.croniter import CroniterBadDateError

    try:
        matcher(text, _FROM).get_next(datetime)
    except CronTextError as error:
        return "bad-schedule", f"{text!r} is not a cron text: {error.reason}", error.remedy
    except CroniterBadDateError:
        return "never-fires", f"{text!r} never fires: there is no such date", "check day and month"
    return None


def _wrong_form(text: str) -> tuple[str, str, str] | None:
    """Code, message and remedy for a text that does not have the form of a cron text."""
    if text.startswith("@"):
        remedy = did_you_mean(text, FORMS) or f"write {listed(FORMS)}"
        return "bad-schedule", f"{text!r} is not a form of schedule", remedy
    if clock := _CLOCK.fullmatch(text):
        remedy = f'write "{int(clock[2])} {int(clock[1])} * * *"'
        return "bad-schedule", f"{text!r} is a time of day, not a cron text", remedy
    count = len(text.split())
    if count in (6, 7):
        message = f"{text!r} has {count} fields, and seconds and years are not supported"
        return "cron-fields", message, f"write five: {_FIELDS}; or every:"
    if count != 5:
        return "cron-fields", f"{text!r} has {count} field{'' if count == 1 else 's'}, not five", f"write {_FIELDS}"
    if _DRAWN.search(text):
        message = f"{text!r} has a random field (H or R)"
        return "bad-schedule", message, "write the value, and use jitter: to spread the load"
    return None


def _zone(node: Node, name: str) -> Iterator[Problem]:
    from zoneinfo import ZoneInfo, available_timezones

    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # KeyError: there is none; OSError: a directory, such as `Europe`
        zones = available_timezones()
        remedy = did_you_mean(name, zones) or "write a name such as Europe/Berlin"
        if not zones:
            remedy = "this machine has no time zones; install tzdata"
        yield node.place.error("unknown-timezone", f"time zone {node.raw!r} does not exist", remedy)


# -- valid but probably a mistake -------------------------------------------------------------------------------------


def _traps(node: Node, fields: list[str]) -> Iterator[Problem]:
    minute, hour, day, month, weekday = fields
    if minute == "*" and hour.isdigit():
        message = f"{node.raw!r} ticks 60 times, in each minute of the hour {hour}"
        yield node.place.warning("every-minute", message, f'write "{" ".join(["0", *fields[1:]])}" for one tick')
    for field, (noun, lowest, size) in zip(fields, _RANGES, strict=False):
        if (match := _STEP.fullmatch(field)) and (step := int(match[2])):
            first = lowest if match[1] == "*" else int(match[1])
            last = first + (lowest + size - 1 - first) // step * step
            if (gap := first + size - last) != step:
                message = (
                    f"{field} counts {noun} from {first} to {last} and starts again at {first}: the last gap is {gap}"
                )
                remedy = (
                    "list the days, or write every:"
                    if noun == "days"
                    else f"write a step that divides {size}, or every:"
                )
                yield node.place.warning("uneven-step", message, remedy)
    if {day, weekday}.isdisjoint(("*", "?")):
        message = f"{node.raw!r} ticks on the day {day} and on each weekday {weekday}: one of the two is enough"
        yield node.place.warning("day-or-weekday", message, "write * for one of the two")
    if day in ("29", "30", "31") and month == "*":
        message = f"{node.raw!r} does not tick in months without a {day}th".replace("31th", "31st")
        yield node.place.warning("skipped-months", message, "write L for the last day of the month")
    elif day == "29" and month in ("2", "feb", "FEB"):
        message = f"{node.raw!r} ticks in leap years only"
        yield node.place.warning("skipped-months", message, "write L for the last day of February")


def _jitter(root: Node, node: Node, entry: CronEntry, config: Config) -> Iterator[Problem]:
    jitter, task = node.get("jitter"), config.work_of(entry)
    if jitter is None or not entry.jitter:
        return
    interval = min(_intervals(entry))
    if entry.jitter >= interval:
        message = f"the jitter {jitter.raw} reaches beyond the next tick, {written(interval)} later"
        yield jitter.place.warning("jitter-above-interval", message, f"write less than {written(interval)}")
    if task.expires is not None and task.expires <= entry.jitter:
        expires = node_of(root, "tasks", task.name, "expires")
        shown = expires.raw if expires is not None else written(task.expires)
        message = f"a job may expire before its delay of up to {jitter.raw} is over: {task.name!r} has expires: {shown}"
        yield jitter.place.warning("jitter-above-expires", message, f"write less than {shown}")


def _alert(node: Node, entry: CronEntry) -> Iterator[Problem]:
    """A time without success that ends before the next tick."""
    allowed, alert = entry.alert_if_no_success, node.get("alert_if_no_success")
    if alert is None or allowed is None:
        return
    if allowed == 0:
        message = "with alert_if_no_success: 0s the entry is overdue for ever"
        yield alert.place.error("out-of-range", message, "write more than the time from one tick to the next")
        return
    interval = max(_intervals(entry))
    if allowed <= interval:
        message = f"{alert.raw} without success is no alarm: from one tick to the next it can be {written(interval)}"
        yield alert.place.warning("alert-below-interval", message, f"write more than {written(interval)}")


def _intervals(entry: CronEntry) -> list[float]:
    """The intervals between the first ticks, in seconds."""
    if entry.every is not None:
        return [entry.every]
    found = matcher(entry.schedule or "", _FROM)
    ticks = [found.get_next(float) for _ in range(_TICKS)]
    return [later - earlier for earlier, later in pairwise(ticks)]
