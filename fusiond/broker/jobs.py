"""
The verbs of a job's life: enqueue, claim, renew, settle.

Each method makes a Call; what it moves is told at the head of its Lua file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from fusiond.broker.call import Call, Word, decoded, fields, number, numbers, scripted
from fusiond.broker.counters import Measured, measured_words
from fusiond.broker.keys import VerbGroup
from fusiond.broker.records import (
    Claim,
    ClaimedJob,
    EventsOf,
    Existing,
    GivenJob,
    NewJob,
    Outcome,
    ProgressReport,
    ReclaimedJob,
    Renewal,
    Stored,
    check_id,
)
from fusiond.callbacks import split
from fusiond.job import new_token

#: added to a reply of `settle`: the queue has effects to deliver
EFFECTS = 8
#: more than any job has: one that was rescued too often fails only when a dispatcher takes it
_MOST_RESCUES = 2**31 - 1
#: replies of `enqueue.lua`
_DIGIT: dict[int, Stored] = {
    ord("0"): "stored",
    ord("1"): "same",
    ord("2"): "conflict",
    ord("3"): "full",
    ord("4"): Existing("", refused=False),
    ord("5"): Existing("", refused=True),
    ord("6"): "unstored",
}


class JobVerbs(VerbGroup):
    """Verbs of producers and dispatchers."""

    def enqueue(self, queue: str, jobs: Sequence[NewJob], *, confirmed: bool = False) -> Call[list[Stored]]:
        """
        Store jobs, by id. All the new ones are stored or, where the queue is full, none.

        `confirmed`: a WAIT or WAITAOF follows, which is to hold for those that were there already, too.
        """
        words: list[Word] = []
        is_unique = is_after = False
        for job in jobs:
            words += new_job_words(job)
            is_unique, is_after = is_unique or bool(job.unique), is_after or bool(job.after)
        if confirmed:
            words.append(1)
        name = "enqueue_after" if is_after else "enqueue_unique" if is_unique else "enqueue"
        return scripted(name, self.keys.root(queue), words, stored_replies(len(jobs)))

    def claim(
        self, queue: str, want: int, *, dispatcher: str, nonce: str, lease_ms: int, max_rescues: int,
        reservation: str = "", few: tuple[int, Collection[bytes]] | None = None, again: bool = False,
        has: str | None = None,
    ) -> Call[Claim]:  # fmt: skip
        """
        Take up to `want` jobs. Short of `want`, the dispatcher is woken later.

        `reservation`: the token under which an enqueue may claim one job for the dispatcher; empty: none.
        `few`: of these tasks' jobs no more than so many, and of all jobs if the queue has a limit; the first one above
        that number stays, and what is behind it.
        `again`: this claim was sent before, and no reply came. It gives the jobs that it took then, and chooses none.
        `has`: what the caller knows of the tasks of which jobs are held, and which of them it can run: see claim.lua.
        """
        words: list[Word] = [want, dispatcher, nonce, lease_ms, max_rescues, reservation]
        if few or again or has is not None:
            most, tasks = few or (want, ())
            words += (most, int(again), has or "", *tasks)
        return scripted("claim", self.keys.root(queue), words, _claim)

    def given(self, queue: str, tokens: Sequence[str], *, take_back: bool) -> Call[list[GivenJob | None]]:
        """
        Which jobs were given under these tokens, which claims had as `reservation`; None: none, or it has ended.

        `take_back`: from now on no job is given under them.
        """

        def parse(reply: Any) -> list[GivenJob | None]:
            return [*map(given_job, fields(reply, *[bytes] * len(tokens)))]

        return scripted("given", self.keys.root(queue), (int(take_back), *tokens), parse)

    def rescue(self, queue: str) -> Call[Claim]:
        """Take back what dead dispatchers held, and take in the inbox, as each claim does; claim nothing."""
        return self.claim(queue, 0, dispatcher="nobody", nonce=new_token(), lease_ms=1, max_rescues=_MOST_RESCUES)

    def renew(self, queue: str, attempts: Iterable[Sequence[Any]], lease_ms: int) -> Call[list[int]]:
        """Keep the leases of these, each a Renewal. 1: held · 0: lost, kill it · 2: held, and a cancel was asked."""
        words: list[Word] = [lease_ms]
        for attempt in attempts:
            words += Renewal(*attempt)
        return scripted("renew", self.keys.root(queue), words, numbers(len(words) // 3, 2))

    def report(self, queue: str, reports: Sequence[Sequence[Any]]) -> Call[list[int]]:
        """Store how far these attempts are, each a ProgressReport. 1: stored · 0: its lease was lost."""
        words = [word for report in reports for word in ProgressReport(*report)]
        return scripted("report", self.keys.root(queue), words, numbers(len(reports), 1))

    def settle(
        self,
        queue: str,
        outcomes: Sequence[Outcome],
        measured: Sequence[Measured] = (),
        events: EventsOf | None = None,
    ) -> Call[list[int]]:
        """
        End attempts. `measured`: what is to be counted of each outcome; empty: nothing is. `events`: they leave some.

        1: settled · 2: it was settled by this very attempt before · 0: fenced, the lease was lost. Of an outcome after
        which the job was to go on, 3: it failed, since it was snoozed for too long · 4: it was canceled.
        With EFFECTS added to any of them, `deliver` has something to do.
        """
        words: list[Word] = ["", *events] if events else []
        payload = _told_payload if events else _payload
        for common, group in groupby(outcomes, _COMMON):
            each = [word for outcome in group for word in (outcome.id, payload(outcome))]
            words += (*common, len(each) // 2, *each)
        if measured:
            words += measured_words(outcomes, measured)
        return scripted("settle", self.keys.root(queue), words, numbers(len(outcomes), EFFECTS + 4))


def new_job_words(job: NewJob) -> list[Word]:
    """The job as `enqueue.lua` reads it."""
    if job[4:] == _NO_OPTIONS:
        return [job.id, job.task, job.args, job.priority, 0]
    options: list[Word] = ["unique", job.unique] if job.unique else []
    for name, value in ("at", job.at_ms), ("delay", job.delay_ms), ("expires", job.expires_ms):
        if value is not None:
            options += (name, value)
    if header := job.header():
        options += ("header", header)
    if job.follow:
        options += ("follow", split(job.follow)[0])
    if job.after:
        options += ("after", job.after)
    return [job.id, job.task, job.args, job.priority, len(options) // 2, *options]


_NO_OPTIONS = NewJob("", "", b"")[4:]


def stored_replies(count: int) -> Callable[[bytes], list[Stored]]:
    """Reads a digit for each job, and the ids of other jobs behind these."""

    def parse(reply: bytes) -> list[Stored]:
        if type(reply) is not bytes or len(reply) < count or reply[count : count + 1] not in (b"", b" "):
            raise ValueError(f"not {count} digits")
        stored = [_DIGIT[digit] for digit in reply[:count]]
        if b"4" not in reply and b"5" not in reply:
            return stored
        others = iter(decoded(reply[count + 1 :]).split(" "))
        return [each._replace(id=check_id(next(others, ""))) if isinstance(each, Existing) else each for each in stored]

    return parse


def _payload(outcome: Outcome) -> bytes:
    """The payload as `settle.lua` reads it."""
    if outcome.kind == "finished":
        return outcome.payload
    return b"%b\n%b\n%b" % (outcome.about, outcome.printed, outcome.payload)


def _told_payload(outcome: Outcome) -> bytes:
    """The same, where its event is told."""
    return b"%b\n%b" % (outcome.said, _payload(outcome))


#: of an Outcome what those of one batch mostly share, in the order of `settle.lua`
_COMMON = attrgetter("token", "kind", "ms", "extra", "why")
#: id, task, args and waited_ms of a job that was claimed
_KINDS = (bytes, bytes, bytes, int)
#: number of such a job, attempts, crashes, rescues, header
_KNOWN_KINDS = (int, int, int, int, bytes)
#: of ReclaimedJob's fields
_RECLAIMED_KINDS = (bytes, bytes, bytes, bytes, int, int, bytes, int, bytes)
#: bytes of an id, and attempts: what fits into the head of a job on its way to a child, and more than any verb makes
_MOST_ID, _MOST_ATTEMPTS = 65535, 2**32 - 1
#: ms; more than the boot clock, which counts ns in 64 bits, ever says
_MOST_AGE = 2**43


#: of a claim's `more`
_FEW = 2


def _claim(reply: Any) -> Claim:
    more, due, flat, known, expiring, *others = reply
    jobs = [ClaimedJob(id_, task, args, 1, 0, 0, b"", waited) for id_, task, args, waited in _rows(flat, _KINDS)]
    for n, attempts, crashes, rescues, header in _rows(known, _KNOWN_KINDS):
        if n < 1 or not 0 <= attempts <= _MOST_ATTEMPTS:
            raise ValueError("a number of a job, or of attempts, that no verb makes")
        jobs[n - 1] = jobs[n - 1]._replace(attempts=attempts, crashes=crashes, rescues=rescues, header=header)
    if jobs and max(map(len, flat[:: len(_KINDS)])) > _MOST_ID:
        raise ValueError("an id that no verb makes")
    pairs = zip(expiring[::2], expiring[1::2], strict=True)
    until = {number(n) - 1: min(max(0, number(ms)), _MOST_AGE) for n, ms in pairs}
    if until and not 0 <= min(until) <= max(until) < len(jobs):
        raise ValueError("a job expires that was not given")
    rows = _rows(others[0], _RECLAIMED_KINDS) if others else ()
    reclaimed = [ReclaimedJob._make(word if isinstance(word, int) else decoded(word) for word in row) for row in rows]
    held_tasks = decoded(others[1]) if len(others) > 1 else None
    return Claim(jobs, None if due < 0 else due, bool(more), until, more == _FEW, reclaimed, held_tasks)


def given_job(message: bytes) -> GivenJob | None:
    """The job in a message of the wake channel, as claim_message.lua writes it; None: there is none."""
    head, _, body = message.partition(b"\n")
    words = head.split()
    if len(words) != 6 or words[0] != b"job":
        return None
    try:
        after, id_, task, header = map(int, words[2:])
        token = words[1].decode()
    except ValueError:
        return None
    task += id_
    header += task
    if not 0 <= after <= _MOST_AGE:
        return None
    return GivenJob(token, after, body[:id_], body[id_:task], body[task:header], body[header:])


def _rows(flat: list[Any], kinds: tuple[type, ...]) -> Iterator[tuple[Any, ...]]:
    """The list in rows of fields of these types. Raises TypeError, ValueError."""
    if tuple(map(type, flat)) != kinds * (len(flat) // len(kinds)):
        raise TypeError("a field of a job is of another type")
    return zip(*[iter(flat)] * len(kinds), strict=True)
