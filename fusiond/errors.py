"""
Every exception that a caller can act on.

    FusionError
    ├── ConfigError               the file cannot be used; carries its problems
    ├── BrokerError
    │   ├── BrokerUnavailable     Redis cannot be reached, or is loading, or refused the password
    │   ├── BrokerUnfit           Redis is too old, evicts keys, denies a right, or has a newer layout of the data
    │   └── BrokerFull            Redis is at maxmemory and accepts no new job
    ├── EnqueueError              nothing was stored; of `enqueue_many`, what `enqueued` names
    │   ├── UnknownTask           no daemon's file declares the task
    │   ├── BadArguments          the arguments are not JSON, or too large
    │   ├── QueueFull             the queue is at max_length
    │   └── JobConflict           the id or key is that of another job, or that is the same by `unique`
    ├── JobError
    │   ├── JobNotFound           no such job, or it was deleted after its ttl
    │   ├── JobFailed             carries code, type, message and traceback as text
    │   ├── JobCanceled
    │   └── ResultTimeout         the job has not ended in time; it goes on
    └── ControlError              the daemon cannot be reached, or refused what was asked
        └── ForeignDaemon         the daemon that was found runs another file
"""

from __future__ import annotations

from typing import NamedTuple


class Enqueued(NamedTuple):
    """The jobs that `enqueue_many` had stored when it raised; a job that is in neither map was not stored."""

    #: position in the call's jobs, from 0 → the job's full name, `queue/id`
    stored: dict[int, str]
    #: the same for jobs that were sent, but that Redis did not confirm
    unknown: dict[int, str]

    def __str__(self) -> str:
        """For people."""
        sent = f"{len(self.stored) or 'no'} {'job was' if len(self.stored) < 2 else 'jobs were'} stored before"
        return sent + (f", {len(self.unknown)} more may be stored" if self.unknown else "")


class FusionError(Exception):
    """The base class: one sentence for people, with the remedy."""

    #: of an exception that `enqueue_many` raised
    enqueued: Enqueued | None = None


class ConfigError(FusionError):
    """The file cannot be used; `str()` lists its problems, one a line."""


class BrokerError(FusionError):
    """Redis did not do what was asked."""


class BrokerUnavailable(BrokerError):
    """Redis cannot be reached, is loading, or refused the credentials. Trying again may help."""


class BrokerUnfit(BrokerError):
    """Redis is too old, evicts keys, denies a right, or has a newer layout of the data. Only an operator can help."""


class BrokerFull(BrokerError):
    """Redis is at its maxmemory; new jobs are refused, stored ones still run."""


class EnqueueError(FusionError):
    """The job was refused and nothing was stored."""


class UnknownTask(EnqueueError):
    """No daemon's file declares the task."""


class BadArguments(EnqueueError):
    """The arguments are not JSON, or too large."""


class QueueFull(EnqueueError):
    """The queue is at its max_length."""


class JobConflict(EnqueueError):
    """The id or key is that of a job with another task or other arguments; or another job is the same by `unique`."""


class JobError(FusionError):
    """Base class of the errors about one job."""


class JobNotFound(JobError):
    """There is no such job, or it was deleted after its ttl."""


class JobFailed(JobError):
    """
    The job ended as `failed`.

    Attributes:
        code: one of the error codes (`TIMEOUT`, `WORKER_CRASHED`, …) or `EXCEPTION`.
        type: the exception's dotted name, if there was one.
        message: its text.
        traceback: its traceback, as text.
    """

    def __init__(self, code: str, type: str, message: str, traceback: str = "") -> None:
        self.code, self.type, self.message, self.traceback = code, type, message, traceback
        super().__init__(f"{type or code}: {message}")


class JobCanceled(JobError):
    """The job ended as `canceled`."""


class ResultTimeout(JobError):
    """The job has not ended within the given time; it goes on."""


class ControlError(FusionError):
    """The daemon cannot be reached, or refused what was asked."""


class ForeignDaemon(ControlError):
    """The daemon that was found runs another file; it was not asked to do anything."""
