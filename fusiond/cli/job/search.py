"""
Find jobs: over queues and statuses, newest first.

1. page    the newest jobs of each status of each queue, in one round trip
2. filter  by task, tag, time and text
3. repeat  until each has as many as are wanted, has no more, or as many jobs were looked at as are permitted; if jobs
           are kept for different times, until the latter
4. merge   what was found, by time
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fusiond.broker.queries import are_by_end
from fusiond.cli.job.record import last_moment
from fusiond.job import JobStatus
from fusiond.masking import masked_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusiond.broker.queries import JobPage
    from fusiond.cli.find.broker import Session
    from fusiond.errors import BrokerError
    from fusiond.job import JobRecord

#: jobs of one status of one queue that are read at once; bytes of their texts are limited, too
_PAGE: Final = 100
_ENDED: Final = frozenset({"finished", "failed", "canceled"})


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a job must be like; None and empty: anything."""

    tasks: Sequence[str] = ()
    tags: Sequence[str] = ()
    #: it ended, began or was enqueued at this time or later, epoch s
    since: float | None = None
    #: is part of its arguments, its error or its id; upper and lower case are the same
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.tasks or self.tags or self.since is not None or self.text)

    def passes(self, job: JobRecord) -> bool:
        """Whether the job is like that."""
        return (
            (not self.tasks or job.task in self.tasks)
            and (not self.tags or job.log_tag in self.tags)
            and (self.since is None or last_moment(job) >= self.since * 1000)
            and self._has_text(job)
        )

    def _has_text(self, job: JobRecord) -> bool:
        text = self.text.lower()
        parts = (job.args, job.error or b"", job.id.encode())
        return not text or any(text in part.decode(errors="replace").lower() for part in parts)


@dataclass(slots=True)
class FoundJobs:
    """What a search has found."""

    jobs: list[JobRecord]
    #: jobs that were looked at
    looked: int
    #: whether there are jobs that were not looked at and could have been found
    more: bool
    #: of queues that cannot be read
    unreadable: list[BrokerError]


def search(
    session: Session, queues: Sequence[str], statuses: Sequence[str], wanted: JobFilter, *, limit: int, depth: int
) -> FoundJobs:
    """
    The newest `limit` jobs that pass, of all queues and statuses together.

    `depth`: jobs that are looked at, at most, and one page more of each status.
    """
    found: dict[tuple[str, str], list[JobRecord]] = {}
    starts = {(queue, status): "" for queue in queues for status in statuses}
    unreadable: list[BrokerError] = []
    looked, size = 0, _PAGE if wanted else min(limit, _PAGE)
    unordered, secret = _unordered(session, queues, statuses, limit), session.secret()
    while starts and looked < depth:
        pages, errors = _pages(session, starts, size)
        unreadable += errors
        looked += sum(len(page.jobs) for page in pages.values())
        for place, page in pages.items():
            shown = (masked_job(job, secret) for job in page.jobs)
            found.setdefault(place, []).extend(filter(wanted.passes, shown))
        starts = {
            place: page.following
            for place, page in pages.items()
            if page.following and (place in unordered or len(found[place]) < limit)
        }
    jobs = {job.name: job for each in found.values() for job in each}
    newest = sorted(jobs.values(), key=last_moment, reverse=True)
    return FoundJobs(newest[:limit], looked, bool(starts), unreadable)


def _unordered(session: Session, queues: Sequence[str], statuses: Sequence[str], limit: int) -> set[tuple[str, str]]:
    """
    Queues and statuses whose ended jobs are kept for different times: the first pages may lack those that ended last.

    What cannot be read is said by the search itself.
    """
    counted, _ = session.run_each({queue: session.verbs.counts(queue) for queue in queues})
    calls = {
        (queue, status, n): call
        for queue, counts in counted.items()
        for status in _ENDED.intersection(statuses)
        if (number := getattr(counts, status)) > limit
        for n, call in enumerate(session.verbs.samples(queue, JobStatus(status), number))
    }
    pages, _ = session.run_each(calls)
    samples: dict[tuple[str, str], list[JobPage]] = {}
    for queue, status, n in calls:
        samples.setdefault((queue, status), []).extend([pages[queue, status, n]] if (queue, status, n) in pages else [])
    return {place for place, found in samples.items() if not are_by_end(found)}


def _pages(
    session: Session, starts: dict[tuple[str, str], str], size: int
) -> tuple[dict[tuple[str, str], JobPage], list[BrokerError]]:
    calls = {
        (queue, status): session.verbs.newest(queue, JobStatus(status), start=start, count=size)
        for (queue, status), start in starts.items()
    }
    return session.run_each(calls)
