"""What commands and pages show of a job: its arguments, its call, its time. Pure."""

from __future__ import annotations

import json
from typing import Any

from fusiond.job import JobRecord, JobStatus


def parsed(raw: bytes | None) -> Any:
    """The value of JSON; the text itself if it is none, as another program may have written it."""
    if raw is None:
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw.decode(errors="replace")


def arguments(raw: bytes) -> tuple[Any, dict[str, Any]]:
    """
    Positional and keyword arguments, from `[args, kwargs]` or from an object that was pushed to the inbox.

    Of what has neither form the text is returned.
    """
    value = parsed(raw)
    if isinstance(value, dict):
        value = [value.get("args", []), value.get("kwargs", {})]
    match value:
        case [list(args), dict(kwargs)]:
            return args, kwargs
    return raw.decode(errors="replace"), {}


def signature(record: JobRecord) -> str:
    """The call as Python would write it: `send_otp("+49", code="1234")`."""
    args, kwargs = arguments(record.args)
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


def last_moment(record: JobRecord) -> int:
    """When the job ended, otherwise when it began, otherwise when it was enqueued: epoch ms."""
    return record.ended_at or record.started_at or record.created_at or 0


def error_of(raw: bytes | None) -> tuple[str, str]:
    """Why it failed, in one line of code, type and message, and the traceback; both empty if nothing has failed."""
    error = parsed(raw)
    if not isinstance(error, dict):
        return "", ""
    code, kind, message = (str(error.get(name) or "") for name in ("code", "type", "message"))
    words = [code if code != "EXCEPTION" else "", kind, message]
    return ": ".join(filter(None, words)), str(error.get("traceback") or "")
