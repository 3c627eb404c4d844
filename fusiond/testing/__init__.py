"""
Test an application that enqueues jobs: record them without Redis, or run them in a real daemon.

    from fusiond.testing import recorded
    with recorded("fusion.yaml") as jobs:
        sign_up("ada@example.com")
        jobs.assert_enqueued("welcome", "ada@example.com")
        jobs.run()

pytest loads `plugin.py` in each of its runs, so that nothing else is loaded until it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusiond.testing.cases import RecordsJobs, UsesDaemon
    from fusiond.testing.embedded_daemon import EmbeddedDaemon, embedded
    from fusiond.testing.recorded_jobs import RecordedJob
    from fusiond.testing.recorder import NotRecorded, Recorder, recorded

__all__ = [
    "EmbeddedDaemon",
    "NotRecorded",
    "RecordedJob",
    "Recorder",
    "RecordsJobs",
    "UsesDaemon",
    "embedded",
    "recorded",
]

_HOMES = {
    "EmbeddedDaemon": "embedded_daemon",
    "NotRecorded": "recorder",
    "RecordedJob": "recorded_jobs",
    "Recorder": "recorder",
    "RecordsJobs": "cases",
    "UsesDaemon": "cases",
    "embedded": "embedded_daemon",
    "recorded": "recorder",
}


def __getattr__(name: str) -> Any:
    """Load what was asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fusiond.testing' has no attribute {name!r}")
    return getattr(import_module(f"fusiond.testing.{_HOMES[name]}"), name)
