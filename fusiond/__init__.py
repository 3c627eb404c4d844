"""
A job runner that is described, not programmed.

    from fusiond import Client
    jobs = Client("redis://localhost")
    job = jobs.enqueue("send_otp", "+4912345", code="1234")
    job.result(timeout=10)

This is the producer's face; task code needs none of it. What is named here is loaded when it is used, so that
`import fusiond` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusiond.client import AsyncClient, AsyncJob, Client, Job
    from fusiond.errors import (
        BadArguments,
        BrokerError,
        BrokerFull,
        BrokerUnavailable,
        BrokerUnfit,
        ConfigError,
        ControlError,
        EnqueueError,
        FusionError,
        JobCanceled,
        JobConflict,
        JobError,
        JobFailed,
        JobNotFound,
        QueueFull,
        ResultTimeout,
        UnknownTask,
    )
    from fusiond.job import JobRecord, JobStatus

    __version__: str

__all__ = [
    "AsyncClient",
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
    "FusionError",
    "Job",
    "JobCanceled",
    "JobConflict",
    "JobError",
    "JobFailed",
    "JobNotFound",
    "JobRecord",
    "JobStatus",
    "QueueFull",
    "ResultTimeout",
    "UnknownTask",
]

_HOMES = {
    "AsyncClient": "fusiond.client",
    "AsyncJob": "fusiond.client",
    "Client": "fusiond.client",
    "Job": "fusiond.client",
    "JobRecord": "fusiond.job",
    "JobStatus": "fusiond.job",
}


def __getattr__(name: str) -> Any:
    """Load what was asked for, once."""
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = found = version("fusiond")
        return found
    if name not in __all__:
        raise AttributeError(f"module 'fusiond' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "fusiond.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What `dir` and a shell's completion show, loaded or not."""
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, "__version__"})
