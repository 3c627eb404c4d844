"""What a test sees of a recorded job: what was passed, where it stands, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fusiond.broker.records import NewJob
from fusiond.job import JobStatus

#: characters of the arguments that are shown
_SHOWN = 200


@dataclass(slots=True, eq=False)
class RecordedJob:
    """One job that was enqueued, and that no worker runs. Times are seconds since 1970 by the recorder's clock."""

    #: the queue that it waits in
    queue: str
    #: as it would have been sent to Redis
    new: NewJob
    status: JobStatus
    created_at: float
    #: it does not begin before
    due_at: float
    #: the options of its call, as they were given
    options: dict[str, Any]
    #: the place in the order in which jobs were enqueued
    number: int
    _run: Callable[[RecordedJob], Any]
    #: of two jobs of a priority, the one with the smaller place runs first
    place: int
    #: attempts that were counted
    attempts: int = 0
    #: it has begun once, so that it does not expire any more
    has_begun: bool = False
    #: raw JSON of how it ended, or of its last failure
    raw_result: bytes | None = None
    raw_error: bytes | None = None
    #: what its function raised last; None: nothing
    exception: BaseException | None = None
    #: of a job that replaced others of the same lock: when the first of them was enqueued
    replaces_since: float | None = None
    #: since when each attempt has said that its time has not come
    snoozed_since: float | None = None
    #: the jobs that it waits for and that have not ended; how many must end well, and how many have
    parents: set[str] = field(default_factory=set)
    need: int = 0
    got: int = 0
    is_canceled: bool = False

    @property
    def task(self) -> str:
        """The name of its task."""
        return self.new.task

    @property
    def id(self) -> str:
        """Its id."""
        return self.new.id

    @property
    def name(self) -> str:
        """`queue/id`, its full name."""
        return f"{self.queue}/{self.id}"

    @property
    def args(self) -> list[Any]:
        """Its positional arguments, as the function gets them: through JSON."""
        return list(self._body()[0])

    @property
    def kwargs(self) -> dict[str, Any]:
        """Its keyword arguments, as the function gets them: through JSON."""
        return dict(self._body()[1])

    @property
    def priority(self) -> int:
        """0 to 255, that of the call or of the task."""
        return self.new.priority

    @property
    def due(self) -> datetime | None:
        """Until when it waits; None: it waits for no time."""
        return datetime.fromtimestamp(self.due_at, UTC) if self.status is JobStatus.SCHEDULED else None

    @property
    def result(self) -> Any:
        """What its function returned, through JSON; None: nothing, or it has not finished."""
        return json.loads(self.raw_result or b"null")

    @property
    def error(self) -> dict[str, Any] | None:
        """Its last failure: code, type, message, traceback. None: it has not failed."""
        return json.loads(self.raw_error) if self.raw_error else None

    def run(self) -> Any:
        """
        Run one attempt now, whatever its time is; returns what the function returned, through JSON.

        Raises:
            Exception: what the function raised, also if the job is tried again later.
            JobFailed: it could not be called, or its result could not be stored.
            ValueError: the job waits for others, or has ended.
        """
        return self._run(self)

    def _body(self) -> list[Any]:
        return json.loads(self.new.args)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        words = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        options = "".join(f" {name}={value!r}" for name, value in self.options.items())
        return f"<{self.task}({', '.join(words):.{_SHOWN}}){options} {self.status} in {self.queue}>"
