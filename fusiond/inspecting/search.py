"""
Find jobs: by status, queue, task, tag, time and text, the newest first.

1. list    the pairs of queue and status that hold jobs
2. look    at the newest jobs of each pair, page after page, until there are enough, `depth` were looked at, or time is
           over; Redis leaves out most jobs of another task or text
3. merge   what fits, the newest first, and say how far was looked

Redis has no index of what is searched for here, so a search costs time with each job that it looks at.
"""

from __future__ import annotations

import base64
import json
import re
import time
import zlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fusiond.broker.call import Plan, read_each
from fusiond.broker.failures import group_of
from fusiond.broker.queries import JobPage, are_by_end
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError
from fusiond.inspecting.job_display import error_of, last_moment
from fusiond.job import JobRecord, JobStatus
from fusiond.masking import Secret, masked_job

#: jobs of one page, at least and at most, and of all pages of a round trip
_PAGE, _LARGE_PAGE, _ROUND = 100, 500, 2000
#: jobs that one script searches for a task or a text, 2 ms of Redis' time, and of a walk those that it replies
_SEARCHED, _FITTING = 150, 50
#: characters of a cursor, which has to fit into an address: enough for some hundred queues
_LONGEST: Final = 6000
_WORD: Final = re.compile("[A-Za-z0-9]+")
_ENDED: Final = (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What is searched for; empty: anything."""

    tasks: Sequence[str] = ()
    #: log tags
    tags: Sequence[str] = ()
    #: is part of its arguments, its error or its id; upper and lower case are the same
    text: str = ""
    #: it ended, began or was enqueued at this time or later, and at this time or before: epoch ms
    since: float = float("-inf")
    until: float = float("inf")
    #: is part of its error's code, type or message; upper and lower case are the same
    error: str = ""
    #: the digest of the failures that it belongs to
    group: str = ""
    #: whether somebody answers for it whose jobs are searched for; None: anybody's
    is_owned: Callable[[JobRecord], bool] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether every job fits."""
        return self == JobFilter()

    def fits(self, job: JobRecord, tags: Mapping[str, str]) -> bool:
        """Whether a job, masked, is one of them. `tags`: task → the log tag that the file gives it."""
        return (
            (not self.tasks or job.task in self.tasks)
            and (not self.tags or (job.log_tag or tags.get(job.task, "")) in self.tags)
            and self.since <= last_moment(job) <= self.until
            and (self.is_owned is None or self.is_owned(job))
            and self._has_text(job)
            and self._has_error(job)
        )

    def _has_text(self, job: JobRecord) -> bool:
        text = self.text.lower()
        parts = (job.args, job.error or b"", job.id.encode())
        return not text or any(text in part.decode(errors="replace").lower() for part in parts)

    def _has_error(self, job: JobRecord) -> bool:
        return not self.error or self.error.lower() in error_of(job.error)[0].lower()

    @property
    def for_redis(self) -> dict[str, Any]:
        """What Redis can tell: one task, and a text whose lower case it knows, which is that of ASCII."""
        word_of_error = max(_WORD.findall(self.error), key=len, default="")
        return {
            "task": self.tasks[0] if len(self.tasks) == 1 else "",
            "text": self.text if self.text.isascii() and self.text else word_of_error,
        }


@dataclass(slots=True)
class FoundJobs:
    """The outcome of a search."""

    jobs: list[JobRecord]
    #: jobs that were looked at, and jobs that there are of these queues and statuses; equal where every job fits
    looked_at: int
    among: int
    #: whether there are jobs that were not looked at and could have been found
    more: bool
    #: of queues that cannot be read
    unreadable: list[BrokerError]
    #: where a walk goes on; empty: it has ended, or this is none
    cursor: str = ""


@dataclass(slots=True, eq=False)
class _Look:
    """The look at the jobs of one queue and status."""

    queue: str
    status: JobStatus
    #: jobs that there are, and those that are wanted
    number: int
    wanted: int
    #: where the next page begins
    start: str = ""
    looked_at: int = 0
    jobs: list[JobRecord] = field(default_factory=list)

    @property
    def lacks_jobs(self) -> bool:
        """Whether further jobs could be among the wanted ones."""
        return self.looked_at < self.number and len(self.jobs) < self.wanted


def search(
    verbs: Verbs, queues: Sequence[str], statuses: Sequence[str], wanted: JobFilter, *,
    most: int, depth: int, seconds: float = float("inf"), secret: Secret, tags: Mapping[str, str],
    soonest: bool = False,
) -> Plan[FoundJobs]:  # fmt: skip
    """
    The newest `most` jobs that fit, of all queues and statuses together. Raises BrokerUnavailable.

    Args:
        verbs: of the namespace.
        queues: where to look.
        statuses: the same.
        wanted: what a job must be like.
        most: jobs that are found.
        depth: jobs that are looked at, at most; of each queue and status at least one.
        seconds: for which it goes on; of each queue and status a page is looked at.
        secret: task → its secret arguments; what is hidden is not found.
        tags: task → the log tag that the file gives it.
        soonest: the jobs that are due next, instead of the newest; of scheduled jobs alone.
    """
    until = time.monotonic() + seconds
    looks, unreadable = yield from _looks(verbs, queues, statuses, most, depth)
    yield from _look_at_all_if_unordered(verbs, looks)
    going, left = looks, depth
    while going:
        size = max(_PAGE, min(_LARGE_PAGE, _ROUND // len(going)))
        size = min(most if wanted.is_plain else _SEARCHED, size, max(1, left // len(going)))
        unreadable += yield from _look_further(verbs, going, wanted, size, secret=secret, tags=tags, soonest=soonest)
        left = depth - sum(look.looked_at for look in looks)
        going = [look for look in going if look.lacks_jobs] if left > 0 and time.monotonic() < until else []
    jobs = {job.name: job for look in looks for job in look.jobs}
    among = sum(look.number for look in looks)
    by = (lambda job: job.due_at or 0) if soonest else last_moment
    return FoundJobs(
        sorted(jobs.values(), key=by, reverse=not soonest)[:most],
        among if wanted.is_plain else depth - left,
        among,
        any(look.lacks_jobs for look in looks),
        unreadable,
    )


def _looks(
    verbs: Verbs, queues: Sequence[str], statuses: Sequence[str], most: int, depth: int
) -> Plan[tuple[list[_Look], list[BrokerError]]]:
    """Those at pairs that hold jobs, and why queues cannot be read."""
    counted, unreadable = yield from read_each({queue: verbs.counts(queue) for queue in queues})
    looks = [
        _Look(queue, JobStatus(status), number, most)
        for queue in queues
        for status in statuses
        # of a queue that cannot be counted, some statuses may be readable
        if (number := int(getattr(counted[queue], status)) if queue in counted else depth)
    ]
    return looks, unreadable


def walk(
    verbs: Verbs, queues: Sequence[str], statuses: Sequence[str], wanted: JobFilter, *,
    cursor: str, most: int, seconds: float, secret: Secret, tags: Mapping[str, str],
) -> Plan[FoundJobs]:  # fmt: skip
    """
    The next jobs that fit, from where an earlier walk has ended to the last one of all; the newest of each page first.

    A page of each queue and status has its turn. Each is one short script, so that Redis serves others in between.

    `cursor` is that of the answer before, or empty; it goes on for so many seconds, and for a page in any case; the
    others are as of `search`. Raises BrokerError; ValueError for what is no cursor.
    """
    until = time.monotonic() + seconds
    found: list[JobRecord] = []
    if cursor:
        looked_at, among, looks = _resumed(cursor, {*queues})
    else:
        looks, _ = yield from _looks(verbs, queues, statuses, most, 0)
        looked_at, among = 0, sum(look.number for look in looks)
    while looks and len(found) < most:
        look = looks.pop(0)
        room = min(most - len(found), _FITTING)
        # Redis does not know what is hidden: where a page ends, and when, would tell that it has found it.
        count, asked = (room, {}) if wanted.is_plain or secret else (_SEARCHED, wanted.for_redis)
        page: JobPage = yield verbs.newest(look.queue, look.status, start=look.start, count=count, wanted=room, **asked)
        found += _shown(page, wanted, secret, tags)
        looked_at, look.start = looked_at + page.looked_at, page.following
        looks += [look] if page.following else []
        if time.monotonic() > until:
            break
    left = [(look.queue, str(look.status), look.start) for look in looks]
    raw = base64.urlsafe_b64encode(zlib.compress(json.dumps([looked_at, among, left]).encode()))
    following = raw.decode() if left and len(raw) < _LONGEST else ""
    found.sort(key=last_moment, reverse=True)
    return FoundJobs(found, min(looked_at, among) if left else among, among, bool(left), [], following)


def _resumed(cursor: str, queues: Container[str]) -> tuple[int, int, list[_Look]]:
    """Of the queues that the caller may see. Raises ValueError."""
    try:
        looked_at, among, left = json.loads(zlib.decompress(base64.urlsafe_b64decode(cursor)))
        looks = [_Look(queue, JobStatus(status), 0, 0, start and str(_number(start))) for queue, status, start in left]
        return _number(looked_at), _number(among), [look for look in looks if look.queue in queues]
    except (ValueError, TypeError, OverflowError, RecursionError, zlib.error):
        raise ValueError("the cursor is not of an earlier answer; leave it out to begin again") from None


def _number(said: Any) -> int:
    """A number of jobs or a place. Raises ValueError."""
    number = int(said)
    if not 0 <= number < 1 << 53:
        raise ValueError(f"{number} is none that an answer has")
    return number


def _look_at_all_if_unordered(verbs: Verbs, looks: Sequence[_Look]) -> Plan[None]:
    """If ended jobs are kept for different times, the first ones are not those that ended last."""
    calls = {
        (look, n): call
        for look in looks
        if look.status in _ENDED and look.number > look.wanted
        for n, call in enumerate(verbs.samples(look.queue, look.status, look.number))
    }
    pages, _ = yield from read_each(calls)
    for look in {look for look, _ in calls}:
        if not are_by_end([page for (of, _), page in pages.items() if of is look]):
            look.wanted = look.number


def _look_further(
    verbs: Verbs, looks: Sequence[_Look], wanted: JobFilter, size: int, *,
    secret: Secret, tags: Mapping[str, str], soonest: bool,
) -> Plan[list[BrokerError]]:  # fmt: skip
    """A page of each; returns why others cannot be read, which are looked at no more."""
    size_of = {look: min(size, look.number - look.looked_at) for look in looks}
    calls = {
        look: verbs.newest(
            look.queue, look.status, start=look.start, count=number, by_score=soonest, **wanted.for_redis
        )
        for look, number in size_of.items()
    }
    # one call at a time if each takes Redis long, so that it serves others in between
    pages: dict[_Look, JobPage] = {}
    errors: list[BrokerError] = []
    for some in [calls] if wanted.is_plain else [{look: call} for look, call in calls.items()]:
        read, failed = yield from read_each(some)
        pages, errors = pages | read, errors + failed
    for look in looks:
        page = pages.get(look, JobPage([], "", 0))
        look.jobs += _shown(page, wanted, secret, tags)
        look.start = page.following
        look.looked_at = min(look.number, look.looked_at + page.looked_at) if page.following else look.number
    return errors


def matching(
    verbs: Verbs, queues: Sequence[str], statuses: Sequence[str], wanted: JobFilter, *,
    secret: Secret, tags: Mapping[str, str], looked_at: Callable[[int], object] = lambda _: None,
) -> Plan[list[tuple[str, str]]]:  # fmt: skip
    """
    (queue, id) of each job that fits, of all that there are. Raises BrokerError.

    `looked_at`: is told how many were looked at, after each page; the others as of `search`.
    """
    found: dict[tuple[str, str], None] = {}
    number = 0
    for queue in queues:
        for status in map(JobStatus, statuses):
            if wanted.is_plain:
                found.update(dict.fromkeys((queue, id_) for id_ in (yield from verbs.ids(queue, status))))
                continue
            start, is_first = "", True
            while start or is_first:
                jobs, start, looked = yield from fitting(
                    verbs, queue, status, wanted, secret=secret, tags=tags, start=start
                )
                found.update(dict.fromkeys((queue, job.id) for job in jobs))
                is_first, number = False, number + looked
                looked_at(number)
    return [*found]


def fitting(
    verbs: Verbs, queue: str, status: JobStatus, wanted: JobFilter, *,
    secret: Secret, tags: Mapping[str, str], start: str,
) -> Plan[tuple[list[JobRecord], str, int]]:  # fmt: skip
    """A page of the jobs that fit, masked; where the next page begins, empty at the end; how many were looked at."""
    page = yield verbs.newest(queue, status, start=start, count=_SEARCHED, by_score=True, **wanted.for_redis)
    following = page.following if page.following != start else ""  # the id of the last job is no text
    return _shown(page, wanted, secret, tags), following, page.looked_at


def _shown(page: JobPage, wanted: JobFilter, secret: Secret, tags: Mapping[str, str]) -> list[JobRecord]:
    """Those that fit, masked. Failures are grouped by their errors as they are, everything else by what is shown."""
    of_group = (job for job in page.jobs if wanted.group in ("", group_of(job.task, job.error or b"")))
    return [job for each in of_group if wanted.fits(job := masked_job(each, secret), tags)]
