"""When a cron entry ticks: its text, its interval, its time zone."""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from fusiond.config.lint.suggest import did_you_mean, listed
from fusiond.config.lint.walk import named
from fusiond.config.units import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node

FORMS: Final = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_FIELDS: Final = "minute, hour, day of month, month, day of week"
_CLOCK: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
# croniter takes H and R for "any value, drawn once": each daemon would tick at another time.
_DRAWN: Final = re.compile(r"(?<![A-Za-z])[HhRr](?![A-Za-z])")
#: plain texts of which croniter need not be asked: each field in its range, a day that every month has
_SURE: Final = re.compile(
    r"(\*|\*/[1-9]|\*/[1-5][0-9]|[1-5]?[0-9]) (\*|\*/[1-9]|\*/1[0-9]|\*/2[0-3]|1?[0-9]|2[0-3]) "
    r"(\*|[1-9]|1[0-9]|2[0-8]) (\*|[1-9]|1[0-2]) (\*|[0-7]|1-5)"
)
#: any moment will do to see whether a text fires at all
_FROM: Final = datetime(2026, 1, 1, tzinfo=UTC)
_SHORTEST: Final = 1.0


def check(root: Node) -> Iterator[Problem]:
    """Each schedule that cannot be read, or never fires."""
    for _, entry in named(root, "cron"):
        yield from _schedule(entry.get("schedule"))
        yield from _every(entry)
        yield from _timezone(entry.get("timezone"))


def _schedule(node: Node | None) -> Iterator[Problem]:
    if node is None or not isinstance(node.value, str) or not node.value:
        return
    found = schedule_problem(node.value)
    if found is not None:
        yield node.place.error(*found)


@functools.lru_cache(maxsize=8192)
def schedule_problem(text: str) -> tuple[str, str, str] | None:
    """Code, message and remedy of a cron text that cannot be used; None where it can."""
    if _SURE.fullmatch(text):
        return None
    from croniter import croniter  # slow to import, and many files have no cron text
    from croniter.croniter import CroniterBadDateError

    if (shape := _shape_problem(text)) is not None:
        return shape
    try:
        croniter(text, _FROM).get_next(datetime)
    except CroniterBadDateError:
        return "never-fires", f"{text!r} never fires: there is no such date", "check day and month"
    except (ValueError, KeyError) as error:
        return "bad-schedule", f"{text!r} is not a cron text: {_reason(error)}", f"the fields are {_FIELDS}"
    return None


def _reason(error: Exception) -> str:
    """What croniter says, without the text that it begins with."""
    words = re.sub(r"^\[.*?\] ?", "", str(error)).removeprefix("is not acceptable")
    return words.strip(" ,.") or "a field is not a number or name"


def _shape_problem(text: str) -> tuple[str, str, str] | None:
    """Code, message and remedy where already the text's shape is wrong."""
    if text.startswith("@"):
        if text in FORMS:
            return None
        remedy = did_you_mean(text, FORMS) or f"write {listed(FORMS)}"
        return "bad-schedule", f"{text!r} is not a form of schedule", remedy
    clock = _CLOCK.fullmatch(text)
    if clock:
        remedy = f'write "{int(clock[2])} {int(clock[1])} * * *"'
        return "bad-schedule", f"{text!r} is a time of day, not a cron text", remedy
    count = len(text.split())
    if count in (6, 7):
        return (
            "cron-fields",
            f"{text!r} has {count} fields, and seconds and years are not supported",
            f"write five: {_FIELDS}; or every:",
        )
    if count != 5:
        return "cron-fields", f"{text!r} has {count} field{'' if count == 1 else 's'}, not five", f"write {_FIELDS}"
    if _DRAWN.search(text):
        message = f"{text!r} has a random field (H or R)"
        return "bad-schedule", message, "write the value, and use jitter: to spread the load"
    return None


def _every(entry: Node) -> Iterator[Problem]:
    node, text = entry.get("every"), entry.text("every")
    if node is None or text is None:
        return
    try:
        interval = seconds(text)
    except ValueError:
        return  # the schema says so
    if interval < _SHORTEST:
        yield node.place.error("out-of-range", f"every: {text} is below 1s", "write 1s or more")
    if "timezone" in entry.keys:
        message = "timezone has no effect beside every:, which counts from the epoch"
        yield entry.keys["timezone"].warning("ignored-key", message, "remove it, or use schedule:")


def _timezone(node: Node | None) -> Iterator[Problem]:
    if node is None or not isinstance(node.value, str) or not node.value or _zone_exists(node.value):
        return
    import zoneinfo

    zones = zoneinfo.available_timezones()
    if zones:
        remedy = did_you_mean(node.value, zones) or "write a name such as Europe/Berlin"
    else:
        remedy = "this machine has no time zones; install tzdata"
    yield node.place.error("unknown-timezone", f"time zone {node.raw!r} does not exist", remedy)


@functools.lru_cache(maxsize=1024)
def _zone_exists(name: str) -> bool:
    if name == "UTC":
        return True
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # not found is a KeyError; a directory such as `Europe` an OSError
        return False
    return True
