"""
The trace in which a producer enqueues a job.

1. the current span, if the program uses OpenTelemetry; nothing is imported for it
2. within a job, the trace in which that job was enqueued, which its child has put into the environment
"""

from __future__ import annotations

import os
import sys

from fusiond.enqueue_options import TRACEPARENT


def traceparent() -> str | None:
    """The W3C traceparent, `00-<trace>-<span>-<flags>`; None: there is none."""
    return _of_span() or (of_environment() if "FUSION_JOB_ID" in os.environ else None)


def of_environment() -> str | None:
    """What the variable TRACEPARENT says, in which OpenTelemetry hands a trace to another process."""
    said = os.environ.get("TRACEPARENT", "")
    return said if TRACEPARENT.fullmatch(said) else None


def _of_span() -> str | None:
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    try:
        context = trace.get_current_span().get_span_context()
        said = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    except (AttributeError, TypeError, ValueError):  # another package of this name, or half imported
        return None
    return said if context.is_valid else None
