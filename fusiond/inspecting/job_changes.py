"""What is done with many jobs at once, by commands and pages, and what became of them, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from fusiond.broker.call import Call, Plan
from fusiond.broker.verbs import Verbs
from fusiond.inspecting import one_job
from fusiond.inspecting.one_job import Judgement
from fusiond.job import JobStatus

#: jobs of one round trip, which others wait for
_PAGE: Final = 100
_WAITING: Final = tuple(status for status in JobStatus if not status.ended)
_ENDED: Final = tuple(status for status in JobStatus if status.ended)
_LOST: Final = (JobStatus.FAILED, JobStatus.CANCELED)


@dataclass(frozen=True, slots=True)
class JobChange:
    """What one command, or one button, does with jobs."""

    verb: str
    done: str
    #: of jobs that it can be done with, and of those that are meant if none is named
    statuses: tuple[JobStatus, ...]
    default: tuple[JobStatus, ...]
    #: (verbs, queue, ids, who asks) → calls, whose replies together are one word or code for each id
    calls: Callable[[Verbs, str, list[str], str], list[Call[Any]]]
    #: (reply, status before; empty: unknown) → what became of the job
    judge: Callable[[Any, Any], Judgement]

    def meant(self, statuses: Iterable[str]) -> list[str]:
        """Those of these statuses with which it can be done; of none the default."""
        return [status for status in statuses or self.default if status in self.statuses]


def _cancel(verbs: Verbs, queue: str, ids: list[str], who: str) -> list[Call[Any]]:
    return [verbs.cancel(queue, id_, who=who) for id_ in ids]


def _requeue(verbs: Verbs, queue: str, ids: list[str], who: str) -> list[Call[Any]]:
    return [verbs.requeue(queue, ids, who=who)]


def _discard(verbs: Verbs, queue: str, ids: list[str], who: str) -> list[Call[Any]]:
    return [verbs.discard(queue, ids, who=who)]


def _delete(verbs: Verbs, queue: str, ids: list[str], who: str) -> list[Call[Any]]:
    return [verbs.discard(queue, ids, finished=True, who=who)]


CHANGES: Final = {
    act.verb: act
    for act in (
        JobChange("requeue", "requeued", _LOST, (JobStatus.FAILED,), _requeue, one_job.requeued),
        JobChange("discard", "discarded", _LOST, (JobStatus.FAILED,), _discard, one_job.discarded),
        JobChange("delete", "deleted", _ENDED, _ENDED, _delete, one_job.deleted),
        JobChange("cancel", "canceled", _WAITING, _WAITING, _cancel, lambda word, _: one_job.canceled(word)),
    )
}


def change_jobs(
    verbs: Verbs,
    act: JobChange,
    names: Iterable[tuple[str, str]],
    who: str,
    changed: Callable[[int], object] = lambda _: None,
) -> Plan[dict[str, Counter[Judgement]]]:
    """
    What became of jobs, (queue, id) each, by queue. Raises BrokerError.

    `changed`: is told how many it has been done with, after each page.
    """
    became: dict[str, Counter[Judgement]] = {}
    for queue, ids in _pages(names):
        replies = yield from replies_of(act.calls(verbs, queue, ids, who))
        became.setdefault(queue, Counter()).update(act.judge(reply, "") for reply in replies)
        changed(sum(found.total() for found in became.values()))
    return became


def replies_of(calls: list[Call[Any]]) -> Plan[list[Any]]:
    """The reply for each job, of calls that a JobChange has made."""
    found: list[Any] = yield calls
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def _pages(names: Iterable[tuple[str, str]]) -> Iterable[tuple[str, list[str]]]:
    for queue, group in groupby(names, key=lambda name: name[0]):
        ids = [id_ for _, id_ in group]
        for at in range(0, len(ids), _PAGE):
            yield queue, ids[at : at + _PAGE]


def done_with(became: Mapping[Judgement, int]) -> int:
    """With how many it was done."""
    return sum(number for each, number in became.items() if each.done)


def outcome_of(act: JobChange, by_queue: Mapping[str, Counter[Judgement]]) -> tuple[int, str]:
    """With how many it was done, of all queues, and what became of all: `requeued 331 of 333 jobs; 2 gone, or …`."""
    became = sum(by_queue.values(), Counter[Judgement]())
    done, total = done_with(became), became.total()
    return done, f"{act.done} {done:,} of {total:,} job{'' if total == 1 else 's'}{others(act, became)}"


def others(act: JobChange, became: Mapping[Judgement, int]) -> str:
    """What became of jobs with which it was not simply done: `; 2 gone, or changed meanwhile`."""
    named = ((each, number) for each, number in became.items() if each.text != act.done)
    return "".join(
        f"; {number:,} {'of them ' if each.done else ''}{each.text.removeprefix(f'{act.done}; ')}"
        for each, number in named
    )
