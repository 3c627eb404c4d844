"""
Move waiting jobs from one queue to another, which may be on another node of a Cluster: no script touches both.

1. begin   jobs that wait become `deferred`, and are noted as leaving: nobody claims them
2. read    the clock of the other queue, then the jobs that leave
3. copy    them to the other queue, `deferred` there as well, and noted as arriving
4. remove  them from the first queue
5. end     what has been removed there waits here from now on

Whoever is killed between two steps leaves jobs that wait in neither queue and run nowhere; whoever moves or sweeps next
goes on from the notes, so that none is lost. None is doubled: a job waits in the other queue only once the first has
removed it, each step may be repeated, and a copy that was read more than COPY_MS ago is refused, since by then the job
may have arrived, run and been forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fusiond.broker.call import Call, Plan, Word, number, numbers, plain, scripted
from fusiond.broker.jobs import JobVerbs
from fusiond.job import new_token

#: ms from reading a job to copying it, at most; less than an id is remembered after its job's end
COPY_MS = 10_000
#: replies of move_copy
_LATE, _HERE, _SAME, _TAKEN = range(4)
#: and of move_remove
_REMOVED, _STAYS, _GONE = 1, 3, 0


class Leaving(NamedTuple):
    """A job that leaves its queue."""

    id: bytes
    #: names this move of it
    nonce: bytes
    #: queued or scheduled
    kind: bytes
    #: its score, or when it is due
    place: bytes
    #: what is known of it: field, value, …
    fields: list[bytes]


class Moved(NamedTuple):
    """What a step did."""

    #: jobs that wait in the other queue now
    jobs: int
    #: jobs that run in the first one
    running: int
    #: those of which another job in the other queue has the id; they stay
    taken: list[Leaving]


class MovingVerbs(JobVerbs):
    """Verbs that concern two queues."""

    def move(self, source: str, target: str, *, limit: int = 200, skip: tuple[int, int] = (0, 0)) -> Plan[Moved]:
        """
        Move up to `limit` jobs that wait in `source`; id, arguments, attempts and priority stay.

        Args:
            source: the queue that holds them; what its inbox holds, and what a dead dispatcher has left, comes along.
            target: another queue, which is to hold them. Its max_length does not count.
            limit: jobs in one step.
            skip: how many of the ready and of the scheduled jobs stay, at the head of each.
        """
        yield self.rescue(source)
        nonce = new_token()
        words = (target, nonce, limit, *skip)
        _, running = yield scripted("move_begin", self.keys.root(source), words, numbers(2))
        jobs, taken = yield from self.finish_moves(source, limit=limit)
        return Moved(jobs, running, taken)

    def finish_moves(self, queue: str, *, limit: int = 200) -> Plan[tuple[int, list[Leaving]]]:
        """Move on what is leaving the queue, whoever has begun it: how many jobs, and those whose ids are taken."""
        moved = 0
        taken: list[Leaving] = []
        for target in (yield plain(_targets, "HVALS", self.keys.of(queue, "leaving"))):
            count, refused = yield from self._carry(queue, target, limit)
            moved += count
            taken += refused
        return moved, taken

    def finish_arrivals(self, queue: str) -> Plan[int]:
        """Let go what has arrived and was removed where it came from, when nobody else does; how many jobs."""
        arriving: list[tuple[bytes, bytes, str]] = yield plain(_arriving, "HGETALL", self.keys.of(queue, "arriving"))
        if not arriving:
            return 0
        notes = yield [plain(_nonce, "HGET", self.keys.of(source, "leaving"), id_) for id_, _, source in arriving]
        done = [(id_, nonce) for (id_, nonce, _), still in zip(arriving, notes, strict=True) if still != nonce]
        return (yield self._end(queue, done)) if done else 0

    def _carry(self, source: str, target: str, limit: int) -> Plan[tuple[int, list[Leaving]]]:
        """Read, copy, remove and end one batch."""
        clock: int = yield scripted("move_clock", self.keys.root(target), (), number)
        jobs: list[Leaving] = yield scripted("move_list", self.keys.root(source), (target, limit), _leaving)
        if not jobs:
            return 0, []
        replies = yield self._copy(source, target, clock + COPY_MS, jobs)
        copied = [(job, reply) for job, reply in zip(jobs, replies, strict=True) if reply != _LATE]
        if not copied:
            return 0, []
        removed = yield self._remove(source, copied)
        gone = [job for (job, _), reply in zip(copied, removed, strict=True) if reply in (_REMOVED, _GONE)]
        if gone:
            yield self._end(target, [(job.id, job.nonce) for job in gone])
        taken = [job for (job, _), reply in zip(copied, removed, strict=True) if reply == _STAYS]
        return removed.count(_REMOVED), taken

    def _copy(self, source: str, target: str, deadline: int, jobs: Sequence[Leaving]) -> Call[list[int]]:
        words: list[Word] = [deadline, source]
        for job in jobs:
            words += (job.id, job.nonce, job.kind, job.place, len(job.fields) // 2, *job.fields)
        return scripted("move_copy", self.keys.root(target), words, numbers(len(jobs)))

    def _remove(self, source: str, copied: Iterable[tuple[Leaving, int]]) -> Call[list[int]]:
        words: list[Word] = []
        for job, reply in copied:
            words += (job.id, job.nonce, int(b"cancel" in job.fields[::2]), int(reply == _TAKEN))
        return scripted("move_remove", self.keys.root(source), words, numbers(len(words) // 4))

    def _end(self, target: str, jobs: Iterable[tuple[bytes, bytes]]) -> Call[int]:
        words: list[Word] = [word for job in jobs for word in job]
        return scripted("move_end", self.keys.root(target), words, number)


def _targets(notes: Iterable[bytes]) -> list[str]:
    return sorted({note.decode().split(" ")[3] for note in notes})


def _leaving(reply: list[Any]) -> list[Leaving]:
    return list(map(Leaving._make, zip(*[iter(reply)] * 5, strict=True)))


def _arriving(flat: list[bytes]) -> list[tuple[bytes, bytes, str]]:
    """Id, nonce, and the queue that it comes from."""
    notes = [(id_, note.split(b" ")) for id_, note in zip(flat[::2], flat[1::2], strict=True)]
    return [(id_, words[0], words[3].decode()) for id_, words in notes]


def _nonce(note: bytes | None) -> bytes:
    return (note or b"").partition(b" ")[0]
