"""
The verbs of a job's life: enqueue, claim, renew, settle.

Each method makes a Call; what it moves is told at the head of its Lua file.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from fusiond.broker.call import Call, Word, decoded, number, numbers, scripted
from fusiond.broker.keys import VerbGroup
from fusiond.broker.records import Chore, Claim, ClaimedJob, NewJob, Outcome, Renewal, Stored
from fusiond.job import new_token

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence


_STORED: tuple[Stored, ...] = ("stored", "same", "conflict", "full")
#: more than any job has: one that was rescued too often fails only when a dispatcher takes it
_MOST_RESCUES = 2**31 - 1
_DIGIT: dict[int, Stored] = {ord("0") + n: word for n, word in enumerate(_STORED)}


class JobVerbs(VerbGroup):
    """Verbs of producers and dispatchers."""

    def enqueue(self, queue: str, jobs: Iterable[NewJob], *, confirmed: bool = False) -> Call[list[Stored]]:
        """
        Store jobs, by id. All the new ones are stored or, where the queue is full, none.

        `confirmed`: a WAIT or WAITAOF follows, which is to hold for those that were there already, too.
        """
        each = [new_job_words(job) for job in jobs]
        words = [*chain.from_iterable(each), *([1] if confirmed else ())]
        return scripted("enqueue", self.keys.root(queue), words, _stored(len(each)))

    def claim(
        self, queue: str, want: int, *, dispatcher: str, nonce: str, lease_ms: int, max_rescues: int,
        few: tuple[int, Collection[bytes]] = (0, ()),
    ) -> Call[Claim]:  # fmt: skip
        """
        Take up to `want` jobs; with the same nonce again the same ones. Short of `want`, it is woken later.

        `few`: of these tasks' jobs no more than so many; the first one above that number stays, and what is behind it.
        """
        words: list[Word] = [want, dispatcher, nonce, lease_ms, max_rescues]
        if few[1]:
            words += (few[0], *few[1])
        return scripted("claim", self.keys.root(queue), words, _claim)

    def rescue(self, queue: str) -> Call[Claim]:
        """Take back what dead dispatchers held, and take in the inbox, as each claim does; claim nothing."""
        return self.claim(queue, 0, dispatcher="nobody", nonce=new_token(), lease_ms=1, max_rescues=_MOST_RESCUES)

    def renew(self, queue: str, attempts: Iterable[Sequence[Any]], lease_ms: int) -> Call[list[int]]:
        """Keep the leases of these, each a Renewal. 1: held · 0: lost, kill it · 2: held, and a cancel was asked."""
        words: list[Word] = [lease_ms]
        for attempt in attempts:
            words += Renewal(*attempt)
        return scripted("renew", self.keys.root(queue), words, numbers(len(words) // 3))

    def settle(self, queue: str, outcomes: Sequence[Outcome]) -> Call[list[int]]:
        """
        End attempts.

        1: settled · 2: it was settled by this very attempt before · 0: fenced, the lease was lost. Of an outcome after
        which the job was to go on, 3: it failed, since no host could run its task for an hour · 4: it was canceled.
        """
        words: list[Word] = []
        for outcome in outcomes:
            words += outcome
        return scripted("settle", self.keys.root(queue), words, numbers(len(outcomes)))


def new_job_words(job: NewJob) -> list[Word]:
    """The job as `enqueue.lua` reads it."""
    if job[4:] == _NO_OPTIONS:
        return [job.id, job.task, job.args, job.priority, 0]
    options: list[Word] = []
    for name, value in ("at", job.at_ms), ("delay", job.delay_ms), ("expires", job.expires_ms):
        if value is not None:
            options += (name, value)
    if header := job.header():
        options += ("header", header)
    return [job.id, job.task, job.args, job.priority, len(options) // 2, *options]


_NO_OPTIONS = NewJob("", "", b"")[4:]


def _stored(count: int) -> Callable[[bytes], list[Stored]]:
    """Reads a digit for each job."""

    def parse(reply: bytes) -> list[Stored]:
        if type(reply) is not bytes or len(reply) != count:
            raise ValueError(f"not {count} digits")
        return [_DIGIT[digit] for digit in reply]

    return parse


#: of ClaimedJob's fields
_KINDS = (bytes, bytes, bytes, int, int, int, bytes, int)
#: of Chore's fields
_CHORE_KINDS = (bytes, bytes, bytes, bytes, int, int, bytes, int, bytes)
#: bytes of an id, and attempts: what fits into the head of a job on its way to a child, and more than any verb makes
_MOST_ID, _MOST_ATTEMPTS = 65535, 2**32 - 1


#: of a claim's `more`
_FEW = 2


def _claim(reply: Any) -> Claim:
    more, due, flat, expiring, *others = reply
    jobs = list(map(ClaimedJob._make, _rows(flat, _KINDS)))
    ids, attempts = flat[:: len(_KINDS)], flat[3 :: len(_KINDS)]
    if jobs and (max(map(len, ids)) > _MOST_ID or not 0 <= min(attempts) <= max(attempts) <= _MOST_ATTEMPTS):
        raise ValueError("an id or a number of attempts that no verb makes")
    until = {number(n) - 1: max(0, number(ms)) for n, ms in zip(expiring[::2], expiring[1::2], strict=True)}
    if until and not 0 <= min(until) <= max(until) < len(jobs):
        raise ValueError("a job expires that was not given")
    chores = [Chore._make(map(_text_or_number, row)) for row in _rows(others[0], _CHORE_KINDS)] if others else ()
    return Claim(jobs, None if due < 0 else due, bool(more), until, more == _FEW, chores)


def _rows(flat: list[Any], kinds: tuple[type, ...]) -> Iterator[tuple[Any, ...]]:
    """The list in rows of fields of these types. Raises TypeError, ValueError."""
    if tuple(map(type, flat)) != kinds * (len(flat) // len(kinds)):
        raise TypeError("a field of a job is of another type")
    return zip(*[iter(flat)] * len(kinds), strict=True)


def _text_or_number(word: bytes | int) -> str | int:
    return word if isinstance(word, int) else decoded(word)
