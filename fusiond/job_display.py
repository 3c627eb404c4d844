"""What commands and pages show of a job: its arguments, its call, its time. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from fusiond.job import JobRecord, JobStatus

#: in place of a hidden argument
HIDDEN: Final = "•••"


def parsed(raw: bytes | None) -> Any:
    """The value of JSON; the text itself if it is none, as another program may have written it."""
    if raw is None:
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw.decode(errors="replace")


def arguments(raw: bytes, hide: Sequence[str] = ()) -> tuple[Any, dict[str, Any]]:
    """
    Positional and keyword arguments, from `[args, kwargs]` or from an object that was pushed to the inbox.

    `hide`: `kwargs.NAME` or `args.N` of each argument that is not shown. Of what has neither form the text is
    returned, or HIDDEN if anything is to be hidden.
    """
    value = parsed(raw)
    if isinstance(value, dict):
        value = [value.get("args", []), value.get("kwargs", {})]
    match value:
        case [list(args), dict(kwargs)]:
            return _hidden(args, kwargs, hide)
    return (HIDDEN if hide else raw.decode(errors="replace")), {}


def _hidden(args: list[Any], kwargs: dict[str, Any], hide: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    names = {name.removeprefix("kwargs.") for name in hide if name.startswith("kwargs.")}
    numbers = {int(name.removeprefix("args.")) for name in hide if name.startswith("args.")}
    shown = [HIDDEN if number in numbers else value for number, value in enumerate(args)]
    return shown, {name: HIDDEN if name in names else value for name, value in kwargs.items()}


def signature(record: JobRecord, hide: Sequence[str] = ()) -> str:
    """The call as Python would write it: `send_otp("+49", code="1234")`."""
    args, kwargs = arguments(record.args, hide)
    if not isinstance(args, list):
        return f"{record.task}: {args}"
    words = [json.dumps(value, ensure_ascii=False) for value in args]
    words += [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in kwargs.items()]
    return f"{record.task}({', '.join(words)})"


def moment(record: JobRecord) -> int | None:
    """When it ended, else when it began, is due, or was enqueued: epoch ms."""
    if record.status.ended:
        return record.ended_at
    begins = {JobStatus.SCHEDULED: record.due_at, JobStatus.STARTED: record.started_at}
    return begins.get(record.status) or record.created_at


def error_of(raw: bytes | None) -> tuple[str, str]:
    """Why it failed, in one line of code, type and message, and the traceback; both empty if nothing has failed."""
    error = parsed(raw)
    if not isinstance(error, dict):
        return "", ""
    code, kind, message = (str(error.get(name) or "") for name in ("code", "type", "message"))
    words = [code if code != "EXCEPTION" else "", kind, message]
    return ": ".join(filter(None, words)), str(error.get("traceback") or "")
