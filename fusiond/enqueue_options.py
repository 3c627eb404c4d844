"""
The options of an enqueue, and how each value becomes what Redis holds: JSON, milliseconds, a dotted path.

A value that cannot be stored is refused here, before anything is sent.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from fusiond.broker.records import check_id
from fusiond.config import units
from fusiond.config.lint.suggest import listed
from fusiond.config.model.on_end import URL
from fusiond.config.model.tasks import HARD_AFTER_SOFT
from fusiond.errors import BadArguments, EnqueueError, UnknownTask
from fusiond.job import id_of_key, new_id
from fusiond.json_depth import TOO_DEEP, too_deep

#: seconds as a number, `5m`, or a timedelta
Duration = float | str | timedelta
#: a time with its zone, ISO 8601 text with an offset, or epoch seconds
Moment = datetime | str | float

#: bytes of a job's arguments, and of its meta, as JSON
MOST_BYTES = 1024 * 1024
#: seconds, 10 years
LONGEST = 10 * 365 * 86400
#: seconds; a shorter time is 0 in Redis, which counts in ms
SHORTEST = 0.001
#: epoch seconds, in the year 5138; bytes of a key or log tag. The script that reads pushed jobs has the same limits
LATEST, LONGEST_TEXT = 1e11, 255

# A value that contains itself raises RecursionError in any case; the check for it takes a third of the time.
_JSON = json.JSONEncoder(check_circular=False, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
# JSONEncoder makes such an encoder for each value, which takes longer than most jobs' arguments do.
_make_encoder = getattr(json.encoder, "c_make_encoder", None)
_chunks = _make_encoder and _make_encoder(
    None, _JSON.default, json.encoder.encode_basestring, None, ":", ",", False, False, False
)


def _encode(value: Any) -> str:
    return "".join(_chunks(value, 0)) if _chunks else _JSON.encode(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one call, in addition to task and arguments; None: the task's own value applies."""

    #: the job does not begin until this time has passed
    delay: Duration | None = None
    #: the job does not begin before this time
    at: Moment | None = None
    #: a name from the file's `priorities`, or 0 to 255; a higher one goes first
    priority: str | int | None = None
    #: a second call with the same task and key returns the first job
    key: str | None = None
    queue: str | None = None
    #: no attempt begins later than this after the enqueue: the job fails with EXPIRED
    expires: Duration | None = None
    #: JSON that the function gets through `pass_job`
    meta: dict[str, Any] | None = None
    log_tag: str | None = None
    #: after this time an exception ends the attempt; SIGKILL follows 10 s later
    timeout: Duration | None = None
    #: what is called when the job has finished, or has failed: {"task": NAME} or {"webhook": URL}; in place of the
    #: task's own; {} calls nothing
    on_success: dict[str, str] | None = None
    on_failure: dict[str, str] | None = None
    #: a retry policy of the file
    retry: str | None = None
    #: how long the job is kept once it has finished, or has failed or was canceled
    result_ttl: Duration | None = None
    failure_ttl: Duration | None = None
    #: a text for people
    description: str | None = None
    #: the span in which the job is enqueued, as a W3C traceparent; None: the current one
    traceparent: str | None = None
    #: jobs, or their full names: this one waits until they have ended
    after: Sequence[Any] | None = None
    #: how many of these must end well, `all`, `any` or a number; and what becomes of the job once that cannot be:
    #: `fail`, or `run`, by which each end is a good one
    join: str | int | None = None
    on_parent_failure: str | None = None
    #: the job's id, 1 to 128 letters, digits and _:.-; None: one is generated
    id: str | None = None

    def given(self) -> dict[str, Any]:
        """Name → value of those that are set, as they were given."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}


#: a W3C traceparent; no trace and no span is 0
TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

#: what most calls have
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
        raise ValueError(f"{len(body)} bytes, at most {MOST_BYTES} are allowed; store them elsewhere, pass a reference")
    return body


def encoded_meta(meta: dict[str, Any]) -> bytes:
    """The meta as JSON. Raises EnqueueError."""
    if not isinstance(meta, dict):
        raise EnqueueError(f"meta: {safe_repr(meta)} is not a dict")
    try:
        return _encoded(meta)
    except (TypeError, ValueError) as error:
        raise EnqueueError(f"meta cannot be stored as JSON: {error}") from None


def encoded_timeout(timeout: Duration) -> bytes:
    """The soft and the hard timeout as JSON, seconds. Raises EnqueueError."""
    soft = positive_seconds("timeout", timeout)
    return _encode({"soft": soft, "hard": soft + HARD_AFTER_SOFT}).encode()


def encoded_options(options: Options) -> dict[str, Any]:
    """What a NewJob has of these options, except priority, queue and id. Raises EnqueueError."""
    found = {
        "delay_ms": None if options.delay is None else _ms(duration("delay", options.delay)),
        "at_ms": None if options.at is None else _ms(moment("at", options.at)),
        "key": text("key", options.key),
        "meta": None if options.meta is None else encoded_meta(options.meta),
        "log_tag": text("log_tag", options.log_tag),
        "timeout": None if options.timeout is None else encoded_timeout(options.timeout),
        "retry": _encoded_text("retry", options.retry),
        "result_ttl": _encoded_time("result_ttl", options.result_ttl),
        "failure_ttl": _encoded_time("failure_ttl", options.failure_ttl),
        "description": _encoded_text("description", options.description),
        "traceparent": _trace(options.traceparent),
        "after": waiting_for(options),
    }
    if options.expires is not None:
        found["expires_ms"] = _ms(positive_seconds("expires", options.expires))
    return found


def _trace(given: str | None) -> str | None:
    """The text itself. Raises EnqueueError if it is not a trace."""
    if given is not None and not TRACEPARENT.fullmatch(text("traceparent", given) or ""):
        example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        raise EnqueueError(f"traceparent: {safe_repr(given)} is not a W3C traceparent, such as {example}")
    return given


def _encoded_text(what: str, given: str | None) -> bytes | None:
    """As JSON. Raises EnqueueError."""
    return None if given is None else _encode(text(what, given)).encode()


def _encoded_time(what: str, given: Duration | None) -> bytes | None:
    """Seconds as JSON. Raises EnqueueError."""
    return None if given is None else _encode(duration(what, given)).encode()


def waiting_for(options: Options) -> str | None:
    """The jobs for which a job waits, as Redis is told; None: for none. Raises EnqueueError."""
    if options.after is None:
        if options.join is not None or options.on_parent_failure is not None:
            raise EnqueueError("join and on_parent_failure say something of `after` only, which this call has not")
        return None
    try:
        names = names_of(options.after)
    except TypeError:
        raise EnqueueError(f"after: {safe_repr(options.after)} is not a list of jobs") from None
    if wrong := next((name for name in names if not _PARENT.fullmatch(name)), None):
        raise EnqueueError(f"after: {safe_repr(wrong)} is neither a job nor a full name of one, which is queue/id")
    need, rule = _join(options.join, len(set(names))), options.on_parent_failure or "fail"
    if rule not in ("fail", "run"):
        raise EnqueueError(f"on_parent_failure: {safe_repr(rule)} is neither 'fail' nor 'run'")
    return f"{need} {int(rule == 'run')} {' '.join(names)}" if names else None


def names_of(jobs: Iterable[Any]) -> list[str]:
    """The full names of jobs, each given as a job or by its name."""
    return [str(getattr(each, "name", each)) for each in jobs]


#: a job's full name
_PARENT = re.compile(r"[A-Za-z0-9_.:@-]{1,255}/[A-Za-z0-9_:.-]{1,128}")


def _join(join: str | int | None, count: int) -> int:
    """How many of so many parents must end well; 0: all. Raises EnqueueError."""
    if join in (None, "all"):
        return 0
    need = 1 if join == "any" else join
    if type(need) is not int or not 1 <= need <= max(1, count):
        raise EnqueueError(f"join: {safe_repr(join)} is neither 'all' nor 'any' nor a number from 1 to {count}")
    return need


def job_id(options: Options, task: str) -> str:
    """The id that a call says, or that its key makes, or a new one. Raises EnqueueError."""
    if options.key is not None:
        if options.id is not None:
            raise EnqueueError("id and key exclude each other: the id is made of the key")
        return id_of_key(task, text("key", options.key) or "")
    if options.id is None:
        return new_id()
    try:
        return check_id(options.id)
    except (ValueError, TypeError) as error:
        raise EnqueueError(str(error)) from None


def priority_number(given: str | int, named: Mapping[str, int]) -> int:
    """The number of a priority that is given by its name or number. Raises EnqueueError."""
    number = named.get(given) if isinstance(given, str) else given
    if not isinstance(number, int) or not 0 <= number <= 255:
        known = f"one of {listed(named)}" if named else "a name"
        raise EnqueueError(f"priority {safe_repr(given)} is neither {known} nor a number from 0 to 255")
    return int(number)  # of a subclass, a bool: hiredis takes no other


def callback_target(key: str, given: dict[str, str] | None) -> tuple[str, str]:
    """What a callback calls: ("task", NAME), ("webhook", URL), or ("", "") for nothing. Raises EnqueueError."""
    if given is None or given == {}:
        return "", ""
    try:
        [(kind, target)] = given.items()
    except (AttributeError, ValueError):
        kind, target = "", ""
    if kind not in ("task", "webhook") or not isinstance(target, str):
        raise EnqueueError(f'{key}: {safe_repr(given)} is neither {{"task": NAME}} nor {{"webhook": URL}}')
    if kind == "webhook" and (not re.fullmatch(URL.schema["pattern"], target) or len(target) > URL.schema["maxLength"]):
        raise EnqueueError(f"{key}: {safe_repr(target)} is not an address such as https://ops.example.com/failed")
    return kind, target


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def safe_repr(given: object) -> str:
    """The value's repr, for an error message. repr() may raise, for example for a very long number."""
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
        raise EnqueueError(f"{what}: {safe_repr(given)} is not between 0 and 10 years")
    return found


def positive_seconds(what: str, given: Duration) -> float:
    """Seconds, above 0, as the file requires of a timeout and an expiry. Raises EnqueueError."""
    found = duration(what, given)
    if found < SHORTEST:
        raise EnqueueError(f"{what}: {safe_repr(given)} is too short for any job; use 1s or more")
    return found


def _number(what: str, given: object) -> float:
    try:
        return float(given)  # type: ignore[arg-type]  # whatever it is, it says so
    except (TypeError, ValueError, OverflowError):
        raise EnqueueError(f"{what}: {safe_repr(given)} is not a number of seconds") from None


def moment(what: str, given: Moment) -> float:
    """Epoch seconds. Raises EnqueueError."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            raise EnqueueError(f"{what}: {safe_repr(given)} is not a time such as 2030-01-31T02:00+01:00") from None
    if isinstance(given, datetime) and given.tzinfo is None:
        raise EnqueueError(f"{what}: {given} has no time zone; use datetime.now(UTC) or .astimezone()")
    found = given.timestamp() if isinstance(given, datetime) else _number(what, given)
    if not -LATEST <= found <= LATEST:
        late = str(given) if isinstance(given, datetime) else safe_repr(given)
        raise EnqueueError(f"{what}: {late} is not a time in epoch seconds up to {LATEST:.0f}, in the year 5138")
    return found


def text(what: str, given: object) -> str | None:
    """The text itself, or None. Raises EnqueueError if it is not a text, or too long to be stored."""
    if given is None:
        return None
    try:
        if isinstance(given, str) and 0 < len(given.encode()) <= LONGEST_TEXT:
            return given
    except UnicodeEncodeError:
        pass  # a lone surrogate
    raise EnqueueError(f"{what}: {safe_repr(given)} is not a text of 1 to {LONGEST_TEXT} bytes in UTF-8")


def dotted_path(function: Callable[..., Any]) -> str:
    """The dotted path of a function, as a task's `run` has it."""
    module = name = None
    if callable(function):
        module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise UnknownTask(f"{safe_repr(function)} is not a function that a task can name; pass the task's name")
    return f"{module}.{name}"
