"""
Schedules as Ruby's schedulers write them → the keys of a cron entry.

Sidekiq-Cron and Solid Queue read them with Fugit, sidekiq-scheduler with Rufus. Both take cron texts with a field for
seconds in front and a time zone behind, durations such as `1h30m`, and Fugit phrases such as `every day at 4:15am`.
What is none of these is handed on as a cron text, which the loader refuses with its reason.
"""

import re
from typing import Final

_DAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DAY: Final = {
    "day": "*", "weekday": "1-5", "weekend": "0,6",
    **{day[:length]: str(number) for number, day in enumerate(_DAYS) for length in (3, len(day))},
}  # fmt: skip
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_UNITS: Final = {"second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d", "week": "w"}
#: unit → how many of it a cron field counts, and the fields behind that one
_FIELDS: Final = {"m": (60, "{} * * * *"), "h": (24, "0 {} * * *")}
_ZONE: Final = re.compile(r"(?:Etc/)?UTC|GMT|[A-Z][A-Za-z_]+/[A-Za-z0-9_/+-]+")
_DURATION: Final = re.compile(r"(?:\d+[smhdw])+")
_CLOCK: Final = re.compile(r"(\d{1,2})(?::(\d\d))?(?::00)? ?(am|pm)?")
_INTERVAL: Final = re.compile(r"every (?:(\d+) ?)?([a-z]+?)s?")
_AT_MINUTE: Final = re.compile(r"every hour at minute (\d{1,2})")
_MONTHLY: Final = re.compile(r"every month(?: on day (\d{1,2}))?(?: at (.+))?")
_DAILY: Final = re.compile(r"every ([a-z, ]+?)(?: at (.+))?")
_BEGINS_WITH_TIME: Final = re.compile(r"at (.+?) (every .+)")

Timing = dict[str, str]


def timing(text: str) -> Timing:
    """`schedule` or `every`, and `timezone` if the text has one."""
    words = text.split()
    zone = {"timezone": words.pop()} if len(words) > 1 and _ZONE.fullmatch(words[-1]) else {}
    if zone and words[-1].lower() in ("in", "on"):
        words.pop()
    said = " ".join(words)
    found = _phrase(said.lower()) or _cron(words) or {"schedule": said}
    return {**found, **(zone if "schedule" in found else {})}


def interval(text: str) -> Timing:
    """`every` of a duration such as `1h30m`; what is none is handed on."""
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+)([smhdw])", text.replace(" ", "")))
    return {"every": f"{seconds}s"} if _DURATION.fullmatch(text.replace(" ", "")) else {"every": text}


def _cron(words: list[str]) -> Timing | None:
    """A cron text with seconds in front: without them if they are 0, or an interval."""
    if len(words) != 6:
        return None
    if words[0] in ("0", "00"):
        return {"schedule": " ".join(words[1:])}
    if words[1:] == ["*"] * 5 and (step := re.fullmatch(r"(?:\*|0)/(\d+)", words[0])):
        return {"every": f"{step[1]}s"}
    return None


def _phrase(said: str) -> Timing | None:
    """A phrase of Fugit; None: it is none."""
    if turned := _BEGINS_WITH_TIME.fullmatch(said):
        said = f"{turned[2]} at {turned[1]}"
    if said == "every year":
        return {"schedule": "0 0 1 1 *"}
    if found := _AT_MINUTE.fullmatch(said):
        return {"schedule": f"{int(found[1])} * * * *"}
    if (found := _INTERVAL.fullmatch(said)) and (unit := _UNITS.get(found[2], found[2])) in _SECONDS:
        return _each(int(found[1] or 1), unit)
    if found := _MONTHLY.fullmatch(said):
        return _at(found[2], f"{int(found[1] or 1)} * *")
    if found := _DAILY.fullmatch(said):
        days = [_DAY.get(day) for day in re.split(r",? and |, ?", found[1])]
        return _at(found[2], "* * " + ",".join(filter(None, days))) if all(days) else None
    return None


def _each(number: int, unit: str) -> Timing:
    """Every so many units: a cron text where it means the same, as Fugit makes one."""
    size, fields = _FIELDS.get(unit, (0, ""))
    if number and size and size % number == 0:
        step = "*" if number == 1 else f"*/{number}"
        return {"schedule": fields.format("0" if number == size else step)}
    if number == 1 and unit in "dw":
        return {"schedule": "0 0 * * *" if unit == "d" else "0 0 * * 0"}
    return {"every": f"{number}{unit}" if unit != "w" else f"{7 * number}d"}


def _at(clock: str | None, days: str) -> Timing | None:
    """At times of day, `9am and 5:00pm`, whose minutes are the same; midnight without one."""
    times = [_time(part) for part in re.split(r",? and |, ?", clock or "midnight")]
    known = [time for time in times if time is not None]
    if len(known) < len(times) or len({minute for _, minute in known}) > 1:
        return None
    return {"schedule": f"{known[0][1]} {','.join(str(hour) for hour, _ in known)} {days}"}


def _time(text: str) -> tuple[int, int] | None:
    """Hour and minute of a time of day."""
    if text in ("noon", "midnight"):
        return (12 if text == "noon" else 0), 0
    if not (found := _CLOCK.fullmatch(text)):
        return None
    hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return hour, minute
