"""
What a call says of its job that holds instead of what the job's task says: retry policy, result_ttl, failure_ttl.

They are in the job's header, which another program may have written: what cannot be read is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from fusiond.config.model import RetryPolicy, Task

#: s, more than a producer may give
_LONGEST = 1e9


class CallOptions(NamedTuple):
    """None: what the task says holds."""

    #: the name of a retry policy, which this file may not have
    retry: str | None = None
    #: s
    result_ttl: float | None = None
    failure_ttl: float | None = None

    def applied(self, task: Task, policy: RetryPolicy, policies: Mapping[str, RetryPolicy]) -> tuple[Task, RetryPolicy]:
        """The task and its policy with what the call says; `policies`: those of the file."""
        times = {name: time for name, time in self._asdict().items() if name != "retry" and time is not None}
        return replace(task, **times), policies.get(self.retry or "", policy)


#: what most calls have
NO_CALL_OPTIONS = CallOptions()


def call_options(header: bytes) -> CallOptions:
    """The options in a job's header. Few jobs have any, so that must cost little to find out."""
    if not header or not (b'"retry"' in header or b'_ttl"' in header):
        return NO_CALL_OPTIONS
    try:
        said = json.loads(header)
        retry, *times = (said.get(name) for name in ("retry", "result_ttl", "failure_ttl"))
    except (ValueError, AttributeError, RecursionError):
        return NO_CALL_OPTIONS
    return CallOptions(retry if isinstance(retry, str) else None, *map(_seconds, times))


def _seconds(said: object) -> float | None:
    return float(said) if isinstance(said, (int, float)) and 0 <= said <= _LONGEST else None
