"""
Find jobs: by state, queue, task, tag, time and text, the newest first.

1. list    the pairs of queue and state that can hold one
2. look    at each pair's newest jobs, page after page, until there are enough, DEPTH were looked at, or time is over
3. merge   what fits, the newest first, and say how far was looked

Redis has no index of what is searched for here, so a search costs time with each job that it looks at.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fusiond.broker.queries import are_by_end
from fusiond.broker.records import Counts
from fusiond.job import JobRecord, JobStatus
from fusiond.job_display import moment
from fusiond.masking import Secret, masked_job
from fusiond.web.backend import Backend
from fusiond.web.endpoint import NotThere
from fusiond.web.inputs import Input

#: jobs of one read at most
_PAGE: Final = 500
#: seconds that a search goes on, and one that was asked to go further
_QUICK: Final = 0.15
_LONG: Final = 10.0
#: in the order in which a person asks for them
STATES: Final = ("failed", "started", "queued", "held", "scheduled", "deferred", "canceled", "finished")
_ENDED: Final = (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)
#: the inputs of a search
FILTERS: Final = (
    Input("state", "states of jobs; none: all", words=STATES, many=True),
    Input("queue", "the name of a queue; none: all", pattern="[A-Za-z0-9_.:@-]{1,255}", longest=255),
    Input("task", "the name of a task", pattern="[A-Za-z0-9_.-]{1,100}"),
    Input("tag", "the log tag of jobs", longest=255),
    Input("text", "a text in the arguments or the error"),
    Input("since", "a time, or how long ago, such as 2h", form="moment"),
    Input("until", "likewise", form="moment"),
)
DEPTH: Final = Input("depth", "jobs to look at, in all", form="number", default=10_000, least=1, most=1_000_000)


@dataclass(frozen=True, slots=True)
class Filter:
    """What is searched for; empty: anything."""

    states: tuple[str, ...] = ()
    queue: str = ""
    task: str = ""
    tag: str = ""
    text: str = ""
    #: epoch ms of what `moment` says
    since: int = 0
    until: int = 2**53

    @classmethod
    def of(cls, said: Any) -> Filter:
        """The filter of a call."""
        texts = {name: said[name] or "" for name in ("queue", "task", "tag", "text")}
        return cls(tuple(said["state"] or ()), **texts, since=said["since"] or 0, until=said["until"] or 2**53)

    @property
    def is_plain(self) -> bool:
        """Whether every job of its states and queue fits."""
        return not (self.task or self.tag or self.text or self.since or self.until < 2**53)

    def fits(self, job: JobRecord, tags: dict[str, str]) -> bool:
        """Whether a job, masked, is one of them. `tags`: task → the log tag that the file gives it."""
        if self.task and job.task != self.task:
            return False
        if self.tag and (job.log_tag or tags.get(job.task, "")) != self.tag:
            return False
        if not self.since <= (moment(job) or 0) <= self.until:
            return False
        wanted = self.text.lower().encode()
        return not wanted or wanted in job.args.lower() or wanted in (job.error or b"").lower()


@dataclass(slots=True)
class Found:
    """The outcome of a search."""

    jobs: list[JobRecord]
    #: jobs that were looked at, and jobs that there are of these states and queues; equal where each one fits
    looked_at: int
    among: int
    #: whether a queue cannot be read
    has_unread: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether each of them was looked at."""
        return self.looked_at >= self.among and not self.has_unread


async def search(backend: Backend, filter_: Filter, *, most: int, depth: int, patient: bool = False) -> Found:
    """
    The newest jobs that fit, at most `most`. Raises BrokerError, NotThere.

    Of each queue and state at least a page is looked at; beyond that, as long as there is time, which is little unless
    the caller is `patient`, or asks for a depth above the default.
    """
    until = time.monotonic() + (_LONG if patient or depth > DEPTH.default else _QUICK)
    counted, errors = await backend.counts()
    pairs = _pairs(counted, filter_)
    tags = {name: str(said.get("log_tag") or "") for name, said in (await backend.catalogue()).tasks.items()}
    secret = await backend.secret()
    found = Found([], 0, sum(pairs.values()), bool(errors))
    # The short ones first: what they leave of the depth is for the long ones.
    for number, ((queue, state), there) in enumerate(sorted(pairs.items(), key=lambda pair: pair[1])):
        share = min(there, max(1, (depth - found.looked_at) // (len(pairs) - number)))
        look = _Look(backend, queue, JobStatus(state), filter_, tags, secret)
        whole = there > most and await look.is_unordered(there)
        await look.go(share, share if whole else most, until, most)
        found.jobs += look.jobs
        found.looked_at += look.looked_at
    if filter_.is_plain:
        found.looked_at = found.among
    found.jobs.sort(key=lambda job: moment(job) or 0, reverse=True)
    del found.jobs[most:]
    return found


def _pairs(counted: Mapping[str, Counts], filter_: Filter) -> dict[tuple[str, str], int]:
    """The pairs of queue and state that hold jobs, and how many. Raises NotThere."""
    if filter_.queue and filter_.queue not in counted:
        raise NotThere(f"there is no queue {filter_.queue!r}")
    numbers = {
        (queue, state): int(getattr(counts, state))
        for queue, counts in counted.items()
        for state in filter_.states or STATES
        if filter_.queue in ("", queue)
    }
    return {pair: number for pair, number in numbers.items() if number}


class _Look:
    """The look at the jobs of one queue and state."""

    def __init__(  # noqa: PLR0917
        self, backend: Backend, queue: str, state: JobStatus, filter_: Filter, tags: dict[str, str], secret: Secret
    ) -> None:
        self._backend, self._queue, self._state = backend, queue, state
        self._filter, self._tags, self._secret = filter_, tags, secret
        #: those that fit
        self.jobs: list[JobRecord] = []
        self.looked_at = 0

    async def is_unordered(self, number: int) -> bool:
        """Whether ended jobs are kept for different times: the first ones are not those that ended last then."""
        if self._state not in _ENDED:
            return False
        verbs = self._backend.verbs
        samples = await self._backend.run_all(verbs.samples(self._queue, self._state, number))
        return not are_by_end(samples)

    async def go(self, share: int, most: int, until: float, page: int) -> None:
        """Look at `share` jobs, first at a page, until `most` fit, or it is that time, in monotonic seconds."""
        start, first = "", page
        while self.looked_at < share and len(self.jobs) < most:
            count = min(page, share - self.looked_at)
            found = await self._backend.run(
                self._backend.verbs.newest(
                    self._queue, self._state, start=start, count=count, task=self._filter.task, text=self._filter.text
                )
            )
            self.looked_at += count
            shown = [masked_job(job, self._secret) for job in found.jobs]
            self.jobs += [job for job in shown if self._filter.fits(job, self._tags)]
            # The longer nothing fits, the larger the pages; the first one is no larger than what may be shown.
            start, page = found.following, min(2 * page, max(first, _PAGE))
            if not start or time.monotonic() > until:
                return
