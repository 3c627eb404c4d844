"""
Failed jobs, grouped by task and error over all queues.

A look reads the failed jobs that are kept longest, page after page, as Redis has no index of errors.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fusiond.broker.call import Plan
from fusiond.broker.failures import FailureGroup, alike
from fusiond.broker.records import Counts
from fusiond.broker.verbs import Verbs
from fusiond.owners import Owners, owner_of

#: jobs of one read
_PAGE: Final = 250


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """Failed jobs whose last attempts ran with the same release."""

    #: of the configuration; None: not known
    generation: int | None
    #: empty: not known
    release: str
    jobs: int

    def __str__(self) -> str:
        """`7 jobs with generation 12, release /srv/shop/releases/42`."""
        release = f", release {self.release}" if self.release else ""
        jobs = f"{self.jobs:,} job{'' if self.jobs == 1 else 's'}"
        return f"{jobs} with generation {self.generation or 'unknown'}{release}"


def by_release(numbers: Mapping[tuple[int | None, str], int]) -> list[ReleaseRow]:
    """Generation and release → jobs, as rows, the newest generation first."""
    return [ReleaseRow(*key, jobs) for key, jobs in sorted(numbers.items(), key=lambda each: -(each[0][0] or 0))]


@dataclass(frozen=True, slots=True)
class FailureRow:
    """Failed jobs of one task with one error, over all queues."""

    #: names the group
    id: str
    task: str
    code: str
    type: str
    #: of the last one
    message: str
    count: int
    #: epoch ms
    first: int
    last: int
    #: full name of the last one
    job: str
    queues: list[str]
    #: with which generation, and release, the last attempts of how many ran, the newest generation first
    releases: list[ReleaseRow]
    #: of the last one; empty: nobody says it
    owner: str
    runbook_url: str

    @property
    def error(self) -> str:
        """`ValueError: no stock`, of the last one."""
        return ": ".join(filter(None, (self.type or self.code, self.message)))


@dataclass(slots=True)
class SeenFailures:
    """What a look has found."""

    groups: list[FailureGroup]
    #: failed jobs that were looked at, and that there are
    looked_at: int
    among: int

    def rows(self, owners: Owners) -> list[FailureRow]:
        """The newest group first; `owners`: who answers for what."""
        return [_row(each, owners) for each in alike(self.groups)]


def look_at_failures(
    verbs: Verbs, counted: Mapping[str, Counts], depth: int, seconds: float = float("inf")
) -> Plan[SeenFailures]:
    """
    The groups of failed jobs.

    Args:
        verbs: of the namespace.
        counted: the queues that are looked at.
        depth: jobs that are looked at, in all.
        seconds: for which it goes on; of each queue a page is looked at.
    """
    failed = {name: counts.failed for name, counts in counted.items() if counts.failed}
    found = SeenFailures([], 0, sum(failed.values()))
    until = time.monotonic() + seconds
    for number, (name, there) in enumerate(sorted(failed.items(), key=lambda pair: pair[1])):
        share = min(there, max(1, (depth - found.looked_at) // (len(failed) - number)))
        for start in range(0, share, _PAGE):
            jobs, groups = yield verbs.failures(name, start=start, count=min(_PAGE, share - start))
            found.looked_at += jobs
            found.groups += groups
            if jobs < _PAGE or time.monotonic() > until:
                break
    return found


def _row(groups: list[FailureGroup], owners: Owners) -> FailureRow:
    newest = groups[0]
    releases: Counter[tuple[int | None, str]] = Counter()
    for key, jobs in ((key, jobs) for group in groups for key, jobs in group.releases.items()):
        generation, _, release = key.partition(",")
        releases[int(generation) if generation.isdecimal() and len(generation) < 16 else None, release] += jobs
    return FailureRow(
        id=newest.digest,
        task=newest.task,
        code=newest.code,
        type=newest.type,
        message=newest.message,
        count=sum(group.jobs for group in groups),
        first=min(group.first for group in groups),
        last=newest.last,
        job=f"{newest.queue}/{newest.id}",
        queues=sorted({group.queue for group in groups}),
        releases=by_release(releases),
        **owner_of(owners, newest.queue, newest.task, newest.id)._asdict(),
    )
