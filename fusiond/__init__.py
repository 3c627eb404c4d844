"""
A job runner that is described, not programmed.

    from fusiond import Client
    jobs = Client("redis://localhost")
    job = jobs.enqueue("send_otp", "+4912345", code="1234")
    job.result(timeout=10)

This is the producer's face; task code needs none of it. Clients are loaded when they are used, so that `import fusiond`
costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fusiond.errors import *

if TYPE_CHECKING:
    from fusiond.client import AsyncClient, AsyncFlowRun, AsyncJob, Client, FlowRun, Job
    from fusiond.job import JobProgress, JobRecord, JobStatus, PastAttempt

    __version__: str

__all__ = [
    "AsyncClient",
    "AsyncFlowRun",
    "AsyncJob",
    "BadArguments",
    "BrokerError",
    "BrokerFull",
    "BrokerUnavailable",
    "BrokerUnfit",
    "Client",
    "ConfigError",
    "ControlError",
    "EnqueueError",
    "FlowRun",
    "FusionError",
    "Job",
    "JobCanceled",
    "JobConflict",
    "JobError",
    "JobFailed",
    "JobNotFound",
    "JobProgress",
    "JobRecord",
    "JobStatus",
    "PastAttempt",
    "QueueFull",
    "ResultTimeout",
    "UnknownTask",
]

_HOMES = {
    "AsyncClient": "fusiond.client",
    "AsyncFlowRun": "fusiond.client",
    "AsyncJob": "fusiond.client",
    "Client": "fusiond.client",
    "FlowRun": "fusiond.client",
    "Job": "fusiond.client",
    "JobProgress": "fusiond.job",
    "JobRecord": "fusiond.job",
    "JobStatus": "fusiond.job",
    "PastAttempt": "fusiond.job",
}


def __getattr__(name: str) -> Any:
    """Load what was asked for, once."""
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = found = version("fusiond")
        return found
    if name not in _HOMES:
        raise AttributeError(f"module 'fusiond' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What `dir` and a shell's completion show, loaded or not."""
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, "__version__"})
