"""How a job is shown, to people and to programs."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli.terminal.table import fields
from fusiond.cli.terminal.text import one_line, when
from fusiond.job import JobStatus

if TYPE_CHECKING:
    from fusiond.job import JobRecord


def document(record: JobRecord) -> dict[str, Any]:
    """The whole record as JSON; times are epoch ms. `args` is text if it cannot be read as JSON."""
    known = dataclasses.asdict(record)
    args, kwargs = arguments(record.args)
    known |= {"name": record.name, "status": record.status.value, "args": args, "kwargs": kwargs}
    return known | {name: _parsed(known[name]) for name in ("result", "error", "meta")}


def arguments(raw: bytes) -> tuple[Any, dict[str, Any]]:
    """Positional and keyword arguments, from `[args, kwargs]` or from an object that was pushed to the inbox."""
    value = _parsed(raw)
    match value:
        case [list(args), dict(kwargs)]:
            return args, kwargs
        case dict():
            return value.get("args", []), value.get("kwargs", {})
    return raw.decode(errors="replace"), {}


#: fields that are shown under their own names: numbers unless they are 0, and moments
_NUMBERS: Final = ("crashes", "rescues", "interrupted")
_MOMENTS: Final = ("created_at", "due_at", "expires_at", "started_at", "ended_at")


def page(record: JobRecord, now_ms: float) -> str:
    """Everything about a job, one line for each field that is set."""
    return fields(
        [
            ("job", record.name),
            ("task", record.task),
            ("status", record.status.value),
            ("call", signature(record)),
            ("priority", record.priority),
            ("key", record.key),
            ("log tag", record.log_tag),
            ("meta", record.meta and record.meta.decode(errors="replace")),
            ("attempts", record.attempts),
            *((name, getattr(record, name) or None) for name in _NUMBERS),
            ("last outcome", record.last_outcome),
            *((name.removesuffix("_at"), when(getattr(record, name), now_ms)) for name in _MOMENTS),
            ("result", record.result and record.result.decode(errors="replace")),
            ("error" if record.status is JobStatus.FAILED else "last error", _error(record.error)),
            ("broken", record.broken),
        ]
    )


def row(record: JobRecord, now_ms: float) -> tuple[object, ...]:
    """The cells of `job list`: job, task, status, attempts, when, call or error."""
    moments = {JobStatus.SCHEDULED: record.due_at, JobStatus.STARTED: record.started_at}
    moment = record.ended_at if record.status.ended else moments.get(record.status, record.created_at)
    # The error of an earlier attempt is not shown if the job has finished since, or runs again.
    failed = record.status in (JobStatus.FAILED, JobStatus.SCHEDULED, JobStatus.CANCELED) and record.error
    detail = _error(record.error).partition("\n")[0] if failed else signature(record)
    if record.broken:
        detail = f"broken: {record.broken}"
    return record.name, record.task, record.status.value, record.attempts, when(moment, now_ms), one_line(detail, 60)


def last_moment(record: JobRecord) -> int:
    """When the job ended, otherwise when it started, otherwise when it was enqueued: epoch ms."""
    return record.ended_at or record.started_at or record.created_at or 0


def signature(record: JobRecord) -> str:
    """The call as Python would write it: `send_otp("+49", code="1234")`."""
    args, kwargs = arguments(record.args)
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        return str(args)
    words = [json.dumps(value, ensure_ascii=False) for value in args]
    words += [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in kwargs.items()]
    return f"{record.task}({', '.join(words)})"


def _error(raw: bytes | None) -> str:
    """One line with code, type and message, then the traceback; "" if there is no error."""
    error = _parsed(raw)
    if not isinstance(error, dict):
        return ""
    code, kind, message = error.get("code", ""), error.get("type", ""), error.get("message", "")
    headline = ": ".join(str(part) for part in (code if code != "EXCEPTION" else "", kind, message) if part)
    return f"{headline}\n{error.get('traceback') or ''}".rstrip()


def _parsed(raw: bytes | None) -> Any:
    """The value, or the text itself if it is not JSON, as another program may have written it."""
    if raw is None:
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw.decode(errors="replace")
