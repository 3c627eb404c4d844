"""A job in a list, for pages and programs; what is given is masked already. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fusiond.job import JobRecord, JobStatus
from fusiond.job_display import error_of, moment, signature

#: characters of a call or an error in a list
_DETAIL: Final = 300


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in a list."""

    #: its full name, `queue/id`
    name: str
    queue: str
    id: str
    task: str
    status: str
    attempts: int
    #: when it ended, else when it began, is due, or was enqueued: epoch ms
    at: int | None
    #: the call, as Python would write it
    call: str
    #: why it failed, in a line; empty: it has not
    error: str
    log_tag: str


def row_of(record: JobRecord) -> JobRow:
    """A job."""
    # An error of an earlier attempt says nothing about a job that has finished since, or runs again.
    failed = record.status in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SCHEDULED)
    error = error_of(record.error)[0] if failed else ""
    return JobRow(
        name=record.name,
        queue=record.queue,
        id=record.id,
        task=record.task,
        status=str(record.status),
        attempts=record.attempts,
        at=moment(record),
        call=signature(record)[:_DETAIL],
        error=(f"cannot be read: {record.broken}" if record.broken else error)[:_DETAIL],
        log_tag=record.log_tag,
    )
