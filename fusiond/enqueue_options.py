"""
What a producer may say beside task and arguments, and how each becomes what Redis holds: JSON, ms, a dotted path.

Whatever cannot be one is refused here, before anything is stored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from fusiond.config import units
from fusiond.config.kinds import HARD_AFTER_SOFT
from fusiond.errors import BadArguments, EnqueueError, UnknownTask
from fusiond.nesting import TOO_DEEP, too_deep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: seconds as a number, `5m`, or a timedelta
Duration = float | str | timedelta
#: a time with its zone, ISO 8601 text with an offset, or epoch seconds
Moment = datetime | str | float

#: bytes of a job's arguments, and of its meta, as JSON
MOST_BYTES = 1024 * 1024
#: seconds, 10 years
LONGEST = 10 * 365 * 86400
#: seconds, the shortest that is not 0 to the file, which counts in ms
SHORTEST = 0.001
#: epoch seconds, in the year 5138; and bytes of a key, a log tag: both as of what is pushed to an inbox
LATEST, LONGEST_TEXT = 1e11, 255

# What holds itself is a RecursionError all the same; to look for it beforehand is a third of the time.
_encode = json.JSONEncoder(check_circular=False, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a call says beside task and arguments; what is None is the task's own."""

    #: not before so long
    delay: Duration | None = None
    #: not before this time
    at: Moment | None = None
    #: a name of the file, or 0 to 255, more first
    priority: str | int | None = None
    #: a second job of the same task with the same key is the first one
    key: str | None = None
    queue: str | None = None
    #: not begun within it, the job fails with EXPIRED
    expires: Duration | None = None
    #: JSON that the function is handed with `pass_job`
    meta: dict[str, Any] | None = None
    log_tag: str | None = None
    #: of one attempt: an exception then, SIGKILL 10 s later
    timeout: Duration | None = None
    #: the job's id, 1 to 128 letters, digits and _:.-; as a rule one is made
    id: str | None = None


#: most calls have none
NO_OPTIONS = Options()


def encoded(task: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bytes:
    """`[args, kwargs]` as JSON. Raises BadArguments."""
    try:
        return _encoded([args, kwargs])
    except (TypeError, ValueError) as error:
        raise BadArguments(f"task {task!r}: the arguments cannot be stored as JSON: {error}") from None


def _encoded(value: Any) -> bytes:
    """A value as JSON. Raises TypeError or ValueError."""
    try:
        body: bytes = _encode(value).encode()
    except RecursionError:
        raise ValueError(f"{TOO_DEEP}, or holds itself") from None
    if too_deep(body):
        raise ValueError(TOO_DEEP)
    if len(body) > MOST_BYTES:
        raise ValueError(f"{len(body)} bytes, {MOST_BYTES} are the most; store it elsewhere and pass a reference")
    return body


def encoded_meta(meta: dict[str, Any]) -> bytes:
    """The meta as JSON. Raises EnqueueError."""
    if not isinstance(meta, dict):
        raise EnqueueError(f"meta: {shown(meta)} is not a dict")
    try:
        return _encoded(meta)
    except (TypeError, ValueError) as error:
        raise EnqueueError(f"meta cannot be stored as JSON: {error}") from None


def encoded_timeout(timeout: Duration) -> bytes:
    """The soft and the hard timeout as JSON, seconds. Raises EnqueueError."""
    soft = lasting("timeout", timeout)
    return _encode({"soft": soft, "hard": soft + HARD_AFTER_SOFT}).encode()


def shown(given: object) -> str:
    """What was given, for a sentence about it; an object may fail to describe itself, a number be too long to."""
    try:
        return f"{given!r:.200}"
    except Exception:  # noqa: BLE001 - whatever a caller's class raises
        return f"a {type(given).__name__}"


def duration(what: str, given: Duration) -> float:
    """Seconds, not below 0. Raises EnqueueError."""
    if isinstance(given, timedelta):
        found = given.total_seconds()
    elif isinstance(given, str):
        try:
            found = units.seconds(given)
        except ValueError as error:
            raise EnqueueError(f"{what}: {error}") from None
    else:
        found = _number(what, given)
    if not 0 <= found < LONGEST:
        raise EnqueueError(f"{what}: {shown(given)} is not between 0 and 10 years")
    return found


def lasting(what: str, given: Duration) -> float:
    """Seconds, above 0, as the file has it of a timeout and an expiry. Raises EnqueueError."""
    found = duration(what, given)
    if found < SHORTEST:
        raise EnqueueError(f"{what}: {shown(given)} lets no job run; use 1s or more")
    return found


def _number(what: str, given: object) -> float:
    try:
        return float(given)  # type: ignore[arg-type]  # whatever it is, it says so
    except (TypeError, ValueError, OverflowError):
        raise EnqueueError(f"{what}: {shown(given)} is no number of seconds") from None


def moment(what: str, given: Moment) -> float:
    """Epoch seconds. Raises EnqueueError."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            raise EnqueueError(f"{what}: {shown(given)} is no time such as 2030-01-31T02:00+01:00") from None
    if isinstance(given, datetime) and given.tzinfo is None:
        raise EnqueueError(f"{what}: {given} has no time zone; use datetime.now(UTC) or .astimezone()")
    found = given.timestamp() if isinstance(given, datetime) else _number(what, given)
    if not -LATEST <= found <= LATEST:
        late = str(given) if isinstance(given, datetime) else shown(given)
        raise EnqueueError(f"{what}: {late} is no time in epoch seconds up to {LATEST:.0f}, in the year 5138")
    return found


def text(what: str, given: object) -> str | None:
    """The text itself, or None. Raises EnqueueError where it is none, or Redis could not keep it as one."""
    if given is None:
        return None
    try:
        if isinstance(given, str) and 0 < len(given.encode()) <= LONGEST_TEXT:
            return given
    except UnicodeEncodeError:
        pass  # a lone surrogate
    raise EnqueueError(f"{what}: {shown(given)} is not a text of 1 to {LONGEST_TEXT} bytes in UTF-8")


def dotted_path(function: Callable[..., Any]) -> str:
    """What a task's `run` says of this function."""
    module = name = None
    if callable(function):
        module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise UnknownTask(f"{shown(function)} is no function that a task can name; pass the task's name")
    return f"{module}.{name}"
