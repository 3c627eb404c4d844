"""
The trace in which a job was enqueued, for the task's own code.

1. environment  `TRACEPARENT`, as OpenTelemetry has it, where the process runs one job at a time
2. context      if the task's program uses OpenTelemetry, the producer's span is the current one: spans of the task are
                its children, and so are the jobs that the task enqueues

Nothing is imported for it. Standard library only, CPython 3.9 and later: it runs under the application's own
interpreter.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_NAME = "TRACEPARENT"


def enter(traceparent: object, *, alone: bool) -> Callable[[], None]:
    """
    Make it the current trace; the function that is returned undoes that.

    Args:
        traceparent: of the job's header, which another program may have written.
        alone: whether the process runs no other job meanwhile.
    """
    numbers = _numbers(traceparent)
    if numbers is None:
        return _nothing
    before = os.environ.get(_NAME)
    if alone:
        os.environ[_NAME] = str(traceparent)
    detach = _attach(*numbers)

    def leave() -> None:
        detach()
        if alone and before is None:
            os.environ.pop(_NAME, None)
        elif alone:
            os.environ[_NAME] = str(before)

    return leave


def _numbers(traceparent: object) -> tuple[int, int, int] | None:
    """Trace, span and flags."""
    parts = traceparent.split("-") if isinstance(traceparent, str) else []
    if [len(part) for part in parts] != [2, 32, 16, 2]:
        return None
    try:
        _, trace, span, flags = (int(part, 16) for part in parts)
    except ValueError:
        return None
    return (trace, span, flags) if trace and span else None


def _attach(trace: int, span: int, flags: int) -> Callable[[], None]:
    """Have OpenTelemetry know of it, if it is loaded; what undoes that."""
    api: Any = sys.modules.get("opentelemetry.trace")
    context: Any = sys.modules.get("opentelemetry.context")
    if api is None or context is None:
        return _nothing
    try:
        remote = api.SpanContext(trace, span, is_remote=True, trace_flags=api.TraceFlags(flags))
        token = context.attach(api.set_span_in_context(api.NonRecordingSpan(remote)))
    except Exception:  # noqa: BLE001 - another package of this name, or an older version
        return _nothing
    return lambda: context.detach(token)


def _nothing() -> None:
    pass
