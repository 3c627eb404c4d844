"""The failed jobs by task and error, for `fusiond top`: what they are, and what is done with all that failed alike."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from fusiond.broker.call import Call
from fusiond.broker.failures import FailureGroup, alike
from fusiond.broker.maintenance.operator import LOCKED
from fusiond.cli.find.broker import Session
from fusiond.cli.queue import count_each
from fusiond.cli.terminal.text import count, one_line, when

HEADINGS: Final = ("JOBS", "TASK", "ERROR", "LAST", "FIRST", "QUEUES")
#: failed jobs of one read, and of all reads: at each look, and when a group is changed
_PAGE: Final = 250
_LOOK: Final = 2_000
_CHANGE: Final = 100_000


class FailureTable:
    """The groups of one namespace. Each method raises BrokerError if Redis cannot be reached."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: digest of each group that was seen → the full name of its last job
        self.last: dict[str, str] = {}

    def look(self) -> tuple[dict[str, tuple[object, ...]], str]:
        """Digest of each group → its cells; and how far was looked."""
        counted, _ = count_each(self._session)
        failed = {name: counts.failed for name, counts in counted.items() if counts.failed}
        share = _LOOK // max(1, len(failed))
        groups = [group for queue, there in failed.items() for group in self._groups(queue, min(share, there))]
        looked, among = sum(group.jobs for group in groups), sum(failed.values())
        note = count(looked, "failed job") + (f", those kept longest, of {among:,}" if looked < among else "")
        merged = {each[0].digest: each for each in alike(groups)}
        self.last = {digest: f"{each[0].queue}/{each[0].id}" for digest, each in merged.items()}
        return {digest: _row(each) for digest, each in merged.items()}, note

    def requeue(self, digest: str) -> str:
        """Run all jobs of a group again; what became of them."""
        task, codes = self._change(digest, self._session.verbs.requeue)
        stayed = codes[0] + codes[LOCKED]
        return f"{count(codes[1] + codes[2], 'failed job')} of {task} queued again" + (
            f"; {stayed:,} stayed" if stayed else ""
        )

    def drop(self, digest: str) -> str:
        """Delete all jobs of a group; what became of them."""
        task, codes = self._change(digest, self._session.verbs.discard)
        return f"{count(codes[1] + codes[2], 'failed job')} of {task} dropped" + (
            f", {codes[2]:,} of them when a minute has passed since the end" if codes[2] else ""
        )

    def _groups(self, queue: str, most: int) -> Iterator[FailureGroup]:
        for start in range(0, most, _PAGE):
            looked, groups = self._session.run(self._session.verbs.failures(queue, start=start, count=_PAGE))
            yield from groups
            if looked < _PAGE:
                return

    def _change(self, digest: str, change: Callable[..., Call[list[int]]]) -> tuple[str, Counter[int]]:
        """The task of a group, and how often the verb has given each reply for its jobs."""
        counted, _ = count_each(self._session)
        failed = {queue: min(_CHANGE, counts.failed) for queue, counts in counted.items() if counts.failed}
        seen = [group for queue, most in failed.items() for group in self._groups(queue, most)]
        meant = {(group.queue, group.key): group.task for group in seen if group.digest == digest}
        codes = Counter(
            code
            for queue, key in meant
            for code in self._change_in(queue, [*self._ids(queue, key, failed[queue])], change)
        )
        return next(iter(meant.values()), "this task"), codes

    def _change_in(self, queue: str, ids: list[str], change: Callable[..., Call[list[int]]]) -> Iterator[int]:
        """The verb's replies. `ids`: of all jobs, since those that are changed leave the pages that are read."""
        for start in range(0, len(ids), _PAGE):
            yield from self._session.run(change(queue, ids[start : start + _PAGE], who=self._session.who))

    def _ids(self, queue: str, key: bytes, most: int) -> Iterator[str]:
        for start in range(0, most, _PAGE):
            looked, ids = self._session.run(self._session.verbs.failures_of(queue, key, start=start, count=_PAGE))
            yield from ids
            if looked < _PAGE:
                return


def _row(groups: list[FailureGroup]) -> tuple[Any, ...]:
    now, newest = time.time() * 1000, groups[0]
    error = ": ".join(filter(None, (newest.type or newest.code, newest.message)))
    first = min(group.first for group in groups)
    queues = ", ".join(sorted({group.queue for group in groups}))
    total = sum(group.jobs for group in groups)
    return total, newest.task, one_line(error), when(newest.last, now), when(first, now), queues
