"""
A job's JSON, in and out: arguments to call with, the result, the error.

Bounded, and never a surprise: what cannot be read, called with or written is a failure with a code of its own.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import json

from . import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

#: characters; what is kept of a message and of a traceback (its end, where the error is)
MAX_MESSAGE, MAX_TRACEBACK = 4096, 16384

#: where the frames are that are not the user's
_OWN = __file__.rpartition("/")[0] + "/"

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
#: what is being encoded, by id, against circles
_open: dict[int, Any] = {}
# JSONEncoder.encode makes this anew for each value: 3 µs, and 20 pages of a fresh child. The arguments are those of C:
# open, default, encoder, indent, two separators, sort_keys, skipkeys, allow_nan.
_make = getattr(json.encoder, "c_make_encoder", None)
_chunks = _make and _make(_open, _encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


class TaskFailed(Exception):  # noqa: N818 - what the job did, not what went wrong here
    """A failure that has a code of its own and is not retried."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def arguments(raw: bytes) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """Args, kwargs, and the other keys of an object that came through the inbox, out of raw JSON."""
    rest: dict[str, Any] = {}
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
    except (TypeError, ValueError):  # some built-ins have none
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TaskFailed("BAD_ARGUMENTS", f"{function.__name__}{signature}: {error}") from None


def result_json(value: Any) -> bytes:
    """The result as JSON. Raises TaskFailed."""
    if value is None:
        return b"null"
    try:
        text = "".join(_chunks(value, 0)) if _chunks else _encoder.encode(value)
        raw = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        _open.clear()
        raise TaskFailed("RESULT_NOT_SERIALIZABLE", f"the result is not JSON: {error}") from None
    if len(raw) > wire.MAX_RESULT:
        raise TaskFailed("RESULT_TOO_LARGE", f"the result has {len(raw)} bytes; at most {wire.MAX_RESULT} are kept")
    return raw


def error_json(code: str, error: BaseException | None, message: str = "") -> bytes:
    """The error as JSON, bounded."""
    try:
        message = message or str(error)
    except BaseException as broken:  # noqa: BLE001 - an exception may fail to describe itself
        message = f"({type(broken).__name__} in its own __str__)"
    name, text = "", ""
    if error is not None:
        import traceback

        kind = type(error)
        name = kind.__qualname__
        if kind.__module__ not in ("builtins", "fusiond"):
            name = f"{kind.__module__}.{name}"
        lines = traceback.format_exception(kind, error, _own_frames_off(error))
        # The frame that raises a soft timeout is ours as well; it stands last but for the exception itself.
        text = "".join(line for line in lines if not line.startswith(f'  File "{_OWN}'))[-MAX_TRACEBACK:]
    document = {"code": code, "type": name, "message": message[:MAX_MESSAGE], "traceback": text}
    return json.dumps(document).encode()


def _own_frames_off(error: BaseException) -> Any:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN):
        trace = trace.tb_next
    return trace
