"""
The verbs of operators and of the daemon itself: cancel, requeue, prioritize, discard, suspend, configure, declare,
sweep, inspect.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from fusiond.broker.call import Call, Plan, Word, decoded, nothing, number, numbers, plain, raw, scripted, text
from fusiond.broker.keys import LARGE_ARGS
from fusiond.broker.maintenance.held_verbs import HeldTaskVerbs
from fusiond.broker.records import Lock, Scanned, Swept, TaskLimit

#: keys that one sweep looks at
SCANNED = 500

#: field of ns:meta: queues still to come are suspended
_MARK = "suspended"

Canceled = Literal["canceled", "asked", "ended", "missing"]
#: a reply of `requeue`: another job holds the lock
LOCKED = 3


class TaskDefaults(NamedTuple):
    """What holds for jobs of a task that are pushed to the inbox."""

    priority: int
    #: ms after which a job has expired; None: it does not
    expires_ms: int | None
    #: as `Unique.to_text` gives it; empty: its jobs are not unique
    unique: str = ""
    #: as `fusiond.callbacks.follow_text` gives it; empty: its jobs have no callbacks
    follow: str = ""

    def to_text(self) -> str:
        """As `conf` has it."""
        expires = "" if self.expires_ms is None else self.expires_ms
        rest = f" {self.unique} {self.follow}".rstrip(" ")
        return f"{self.priority} {expires}{rest}"


class OperatorVerbs(HeldTaskVerbs):
    """Verbs that move jobs by hand, and those that say how a queue is to behave."""

    def cancel(self, queue: str, id: str, *, who: str = "") -> Call[Canceled]:
        """End a job that waits; of one that runs, ask for the end (`asked`). `who`: asks, for its event."""
        return scripted("cancel", self.keys.root(queue), (id, who), bytes.decode)  # type: ignore[arg-type]

    def requeue(self, queue: str, ids: Sequence[str | bytes], *, who: str = "") -> Call[list[int]]:
        """Run failed and canceled jobs again. 1: moved · 2: it is queued already · LOCKED: it stays · 0: neither."""
        return scripted("requeue", self.keys.root(queue), (who, *ids), numbers(len(ids)))

    def prioritize(self, queue: str, ids: Sequence[str | bytes], priority: int, *, who: str = "") -> Call[list[int]]:
        """Give jobs that wait this priority. 1: changed · 2: it had it · 3: it runs · 4: it has ended · 0: missing."""
        return scripted("prioritize", self.keys.root(queue), (who, priority, *ids), numbers(len(ids)))

    def discard(
        self, queue: str, ids: Sequence[str | bytes], *, finished: bool = False, who: str = ""
    ) -> Call[list[int]]:
        """
        Drop failed and canceled jobs, and finished ones if that is said.

        1: dropped · 2: it will be, a minute after its end · 3: as 2, and that was so before · 0: it is none of these.
        """
        return scripted("discard", self.keys.root(queue), (int(finished), who, *ids), numbers(len(ids)))

    def suspend(self, queue: str, *, by: Literal["operator", "all", "file"], on: bool, who: str = "") -> Call[bool]:
        """
        Have nothing claimed from the queue, or let it go on; whether it is suspended now, by whomever.

        `by`: `all` is the operator, who says it of all queues; it leaves alone what was suspended by name.
        """
        return scripted("suspend", self.keys.root(queue), (by, int(on), who), bool)

    def suspend_all(self, *, on: bool, who: str = "") -> Plan[dict[str, bool]]:
        """`suspend` all queues, and those still to come; each queue with whether it is suspended now."""
        # the mark before the list: whoever declares a queue between the two reads the mark after it is in the list
        meta = self.keys.meta
        yield plain(nothing, "HSET", meta, _MARK, 1) if on else plain(nothing, "HDEL", meta, _MARK)
        names: list[str] = yield self.queues()
        now = yield [self.suspend(name, by="all", on=on, who=who) for name in names]
        return dict(zip(names, now, strict=True))

    def configure(
        self,
        queue: str,
        *,
        tasks: Mapping[str, tuple[Any, ...]],
        max_length: int | None = None,
        max_running: int | None = None,
        rate: tuple[float, int] | None = None,
        fair_by: Sequence[str] = (),
        limits: Mapping[str, TaskLimit] | None = None,
        elsewhere: Mapping[str, str] | None = None,
        metrics: bool = False,
    ) -> Call[None]:
        """
        Tell Redis what enqueue and claim must know of the file.

        Args:
            queue: the queue.
            tasks: those that live in the queue, each with a TaskDefaults or what one is made of.
            max_length: jobs that may wait; None: no limit.
            max_running: jobs that may run at once; None: no limit.
            rate: ms between the begins of two jobs, and how many may begin at once; None: no limit.
            fair_by: the arguments, kwargs.NAME or args.N, by which its jobs take turns; empty: they do not.
            limits: of those of the tasks that have one; limits of other tasks stay.
            elsewhere: tasks with a limit that live in another queue, each with that queue: the inbox refuses them.
            metrics: whether claims count the jobs that they rescue, end or hold.
        """
        words: list[Word] = ["" if limit is None else limit for limit in (max_length, max_running)]
        words.append(f"{rate[0]:.9g} {rate[1]}" if rate else "")
        words.append(",".join(fair_by))
        words.append(json.dumps({task: limit.to_dict() for task, limit in (limits or {}).items()}))
        words += (json.dumps(dict(elsewhere)) if elsewhere else "", 1 if metrics else "")
        for task, said in tasks.items():
            words += (task, TaskDefaults(*said).to_text())
        return scripted("configure", self.keys.root(queue), words, nothing)

    def declare_policies(self, queue: str, names: Iterable[str]) -> Call[None]:
        """Say which retry policies a job that is pushed to the queue may name; those of other files stay."""
        words = [word for name in names for word in (f"policy:{name}", 1)]
        return plain(nothing, "HSET", self.keys.of(queue, "conf"), *words)

    def declare_failure_ttls(self, queue: str, ttls: Mapping[str, int]) -> Call[None]:
        """Say how many ms a job of each task is kept that Redis itself ends; those of other tasks stay."""
        words = [word for task, ms in ttls.items() for word in (f"failure_ttl:{task}", ms)]
        return plain(nothing, "HSET", self.keys.of(queue, "conf"), *words)

    def declare(self, queues: Iterable[str]) -> Plan[None]:
        """Add names to the list of all queues, which may hold them already; a new one obeys `suspend_all`."""
        names = list(queues)
        if not names:
            return
        is_marked = plain(bool, "HEXISTS", self.keys.meta, _MARK)
        listed, wanted = yield [plain(numbers(len(names)), "SMISMEMBER", self.keys.queues, *names), is_marked]
        new = [name for name, there in zip(names, listed, strict=True) if not there]
        suspended = False
        while new:
            # before they are listed, so that none is claimed from unsuspended once it is known
            if wanted != suspended:
                yield [self.suspend(name, by="all", on=wanted) for name in new]
                suspended = wanted
            yield from self.suspend_tasks_in(new)
            _, wanted = yield [plain(nothing, "SADD", self.keys.queues, *new), is_marked]
            yield from self.suspend_tasks_in(new)  # of those that were marked meanwhile
            if wanted == suspended:
                return  # who changes the mark from now on finds them in the list

    def sweep(self, queue: str, *, cursor: int = 0, limit: int = 500) -> Plan[Swept]:
        """
        Do a bounded part of the housekeeping that no other verb does.

        1. drop ended jobs whose time is over, `limit` of each registry
        2. place `limit` jobs again, if that is to be done
        3. look at the next keys, mend the jobs that are in no set, and free the locks that no job holds; call again
           with the cursor that comes back
        """
        (trimmed, expired, placing), (following, ids, locks) = yield [
            scripted("sweep", self.keys.root(queue), (limit,), numbers(3)),
            self.scan(queue, cursor, SCANNED),
        ]
        strays = (yield self.inspect(queue, "strays", ids, repair=True)) if ids else ()
        if locks:
            yield self.inspect_locks(queue, locks, repair=True)
        return Swept(trimmed, len(strays), following, expired, bool(placing))

    def scan(self, queue: str, cursor: int, count: int) -> Call[Scanned]:
        """The next of a queue's jobs and locks, about `count`, some of which may come twice in one scan."""
        job, lock = (self.keys.of(queue, part, "").encode() for part in ("job", "unique"))

        def scanned(reply: Any) -> Scanned:
            ids = {key[len(job) :].removesuffix(LARGE_ARGS) for key in reply[1] if key.startswith(job)}
            return Scanned(int(reply[0]), list(ids), [key[len(lock) :] for key in reply[1] if key.startswith(lock)])

        # both, and no other key of a queue
        return plain(scanned, "SCAN", cursor, "MATCH", self.keys.root(queue) + b":[ju]*:*", "COUNT", count)

    def locks(self, queue: str, cursor: int = 0, *, count: int = SCANNED) -> Plan[tuple[int, list[Lock]]]:
        """The next cursor, 0 at the end, and locks of unique jobs; a lock may come twice in one scan."""
        following, _, names = yield self.scan(queue, cursor, count)
        keys = [self.keys.of(queue, "unique", decoded(name)) for name in names]
        held = yield [call for key in keys for call in (plain(raw, "GET", key), plain(number, "PTTL", key))]
        locks = [
            Lock(decoded(name), decoded(id_), None if ms < 0 else ms)
            for name, id_, ms in zip(names, held[::2], held[1::2], strict=True)
            if id_ is not None
        ]
        return following, locks

    def lock_holder(self, queue: str, lock: str) -> Call[str | None]:
        """The id of the job that holds this lock."""
        return plain(text, "GET", self.keys.of(queue, "unique", lock))

    def unlock(self, queue: str, id: str, locks: Sequence[str], *, who: str = "") -> Call[int]:
        """Free those of these locks that the job holds; how many."""
        return scripted("unlock", self.keys.root(queue), (who, id, *locks), number)

    def inspect_locks(self, queue: str, names: Sequence[bytes], *, repair: bool) -> Call[list[tuple[str, str]]]:
        """The locks that their jobs hold no more, each with its job's id; with `repair` they are freed."""

        def findings(flat: list[bytes]) -> list[tuple[str, str]]:
            words = map(decoded, flat)
            return list(zip(words, words, strict=True))

        return scripted("inspect_locks", self.keys.root(queue), (int(repair), *names), findings)

    def inspect(
        self, queue: str, what: Literal["keys", "members", "strays"], ids: Sequence[bytes], *, repair: bool,
        who: str = "",
    ) -> Call[list[tuple[str, str, str, str]]]:  # fmt: skip
        """
        What is wrong with these jobs: id, kind, detail, status that is right; with `repair` it is put right.

        `who`: asks for the repair, for its event; empty: a sweep.
        """

        def findings(flat: list[bytes]) -> list[tuple[str, str, str, str]]:
            words = map(decoded, flat)
            return list(zip(words, words, words, words, strict=True))

        return scripted("inspect", self.keys.root(queue), (int(repair), what, who, *ids), findings)
