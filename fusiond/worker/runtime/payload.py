"""
A job's JSON, in and out: arguments to call with, the result, the error.

Bounded, and never a surprise: what cannot be read, called with or written is a failure with a code of its own.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import json
from types import AsyncGeneratorType, CoroutineType, GeneratorType

from . import errortext, json_depth, task_errors, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

#: bytes; what is no longer cannot be too deep, and a one-job child has no page of that module copied
_SHALLOW = json_depth.MOST
#: s
_YEAR = 31536000.0
#: where the frames are that are not the user's
_OWN = __file__.rpartition("/")[0] + "/"

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
#: what is being encoded, by id, against circles
_open: dict[int, Any] = {}
# JSONEncoder.encode makes this again for each value: 3 µs, and 20 pages of a one-job child. The arguments are those of
# C: open, default, encoder, indent, two separators, sort_keys, skipkeys, allow_nan.
_make = getattr(json.encoder, "c_make_encoder", None)
_chunks = _make and _make(_open, _encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


class TaskFailed(Exception):
    """A failure that has a code of its own and is not retried."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def arguments(raw: bytes) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """Args, kwargs, and the other keys of an object that came through the inbox, out of raw JSON."""
    rest: dict[str, Any] = {}
    if len(raw) > _SHALLOW and json_depth.too_deep(raw):
        raise TaskFailed("BAD_ARGUMENTS", f"the arguments cannot be read: {json_depth.TOO_DEEP}")
    try:
        text = raw.decode()
        try:
            # The scanner in C alone, where nothing stands around the value.
            value, end = _scan(text, 0)
        except StopIteration:
            end = -1
        if end != len(text):
            value = json.loads(text)
        if isinstance(value, dict):
            rest, value = value, [value.get("args", []), value.get("kwargs", {})]
        args, kwargs = value
    except (ValueError, TypeError, RecursionError) as error:
        raise TaskFailed("BAD_ARGUMENTS", f"the arguments are not JSON of [args, kwargs]: {error}") from None
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise TaskFailed("BAD_ARGUMENTS", "args must be a list and kwargs an object")
    return args, kwargs, rest


def check_arguments(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
    """Raise TaskFailed where the arguments do not fit the signature."""
    import inspect

    try:
        signature = inspect.signature(function)
    except Exception:  # noqa: BLE001 - some built-ins have none, and a __signature__ of the task's may raise anything
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        what = f"{getattr(function, '__name__', 'the task')}{signature}"  # a partial has no name
        raise TaskFailed("BAD_ARGUMENTS", f"{what}: {error}") from None


#: what no function returns by mistake; looked up first, since most results are one of these
_PLAIN = frozenset((type(None), bool, int, float, str, list, tuple, dict))
#: type → what its values wait for
_UNRUN: dict[type, str] = {
    GeneratorType: "iterates over it",
    AsyncGeneratorType: "iterates over it",
    CoroutineType: "awaits it",
    map: "iterates over it",
    filter: "iterates over it",
    zip: "iterates over it",
}


def check_ran(value: Any) -> None:
    """Raise TaskFailed where a function has returned work in place of doing it: a generator, an awaitable, a future."""
    kind = type(value)
    if kind in _PLAIN:
        return
    missing = _UNRUN.get(kind)
    if kind.__module__ == "contextlib" and hasattr(value, "gen"):
        missing = "enters it"
    if missing is None and hasattr(kind, "__await__"):
        missing = "awaits it"
    if missing is None and hasattr(kind, "add_done_callback"):
        missing = "waits for it"
    if missing is not None:
        if kind is CoroutineType:
            value.close()  # otherwise Python warns of it a second time
        what = f"{errortext.type_name(kind)} was returned, and nothing {missing}"
        raise TaskFailed("NOT_RUN", f"{what}: the function must do its work before it returns")


def result_json(value: Any, *, keep: bool = True) -> bytes:
    """The result as JSON; null if it is not to be kept. Raises TaskFailed, also where the function has not run."""
    check_ran(value)
    if value is None or not keep:
        return b"null"
    try:
        text = "".join(_chunks(value, 0)) if _chunks else _encoder.encode(value)
        raw = text.encode()
    except RecursionError:
        _open.clear()
        raise TaskFailed("RESULT_NOT_SERIALIZABLE", f"the result cannot be stored: {json_depth.TOO_DEEP}") from None
    except (TypeError, ValueError) as error:
        _open.clear()
        raise TaskFailed("RESULT_NOT_SERIALIZABLE", f"the result is not JSON: {errortext.message(error)}") from None
    except BaseException:
        # A class of the task's raises what it likes. What stays here would be a circle to a later result.
        _open.clear()
        raise
    if len(raw) > _SHALLOW and json_depth.too_deep(raw):
        raise TaskFailed("RESULT_NOT_SERIALIZABLE", f"the result cannot be stored: {json_depth.TOO_DEEP}")
    if len(raw) > wire.MAX_RESULT:
        raise TaskFailed("RESULT_TOO_LARGE", f"the result has {len(raw)} bytes; at most {wire.MAX_RESULT} are kept")
    return raw


def error_json(code: str, error: BaseException, message: str = "", *, with_delay: bool = False) -> bytes:
    """The error as JSON, bounded; `message` stands for the exception's own; with the delay that it asks for."""
    name = errortext.type_name(type(error))
    delay = _retry_after(error) if with_delay else None
    return plain_error_json(code, name, message or errortext.message(error), trace(error), delay)


def plain_error_json(code: str, name: str, message: str, trace: str = "", retry_after: float | None = None) -> bytes:
    """The same from texts; no code of the task runs here."""
    error: dict[str, Any] = {
        "code": code,
        "type": name,
        "message": message[: errortext.MAX_MESSAGE],
        "traceback": trace,
    }
    if retry_after is not None:
        error["retry_after"] = retry_after
    return json.dumps(error).encode()


def _retry_after(error: BaseException) -> float | None:
    """The seconds in its attribute `retry_after`; None where that is no such number."""
    try:
        seconds: Any = getattr(error, "retry_after", None)
    except Exception:  # noqa: BLE001 - a property of the task's may raise anything
        return None
    # Exactly these classes: a subclass may compare as it likes. Nothing is longer than a year.
    return float(min(seconds, _YEAR)) if type(seconds) in (int, float) and seconds >= 0 else None


def trace(error: BaseException) -> str:
    """The traceback without the frames of this package."""
    first = errortext.frames(error)
    while first is not None and first.tb_next is not None and first.tb_frame.f_code.co_filename.startswith(_OWN):
        first = first.tb_next
    is_own = first is not None and first.tb_frame.f_code.co_filename.startswith(_OWN)
    if is_own and type(error) in (task_errors.ProgramFailed, task_errors.SoftTimeout):
        return ""  # of a command: no code of the user's has raised it
    return errortext.trace(error, first, (_OWN,))
