"""
Check a namespace: each job is in exactly one set, and its state agrees with that.

1. sequence   of each queue: whether arrivals are counted on from the last
2. jobs       each key of a job, by SCAN: what its state and the sets say; each lock: whether its job holds it
3. members    each member of each set, by ZSCAN: whether it has a text
4. queues     that have keys and are in no list

One script judges a page of jobs at one moment, and repairs them at once if it is told to: a job that moves meanwhile is
no finding, since no verb leaves it in two sets, or in none, between two scripts. Nothing is remembered of a job with
which nothing is wrong, so a large namespace costs time and no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from fusiond.broker.call import Plan, decoded, nothing, plain, scripted, texts
from fusiond.broker.keys import is_name
from fusiond.broker.verbs import Verbs
from fusiond.job import JobStatus

#: keys that a scan is asked for; it may come back with some more
PAGE: Final = 100
#: findings that are remembered, so that one which a scan comes across twice is told once
_REMEMBERED: Final = 100_000

Kind = Literal["sequence", "undeclared", "no-job", "wrong-set", "fields", "lock"]

#: the sets of jobs, each named after the status of its members
_SETS: Final = ["queue" if status is JobStatus.QUEUED else status.value for status in JobStatus]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    queue: str
    kind: Kind
    #: what is wrong, to be read behind the subject
    problem: str
    #: what a repair makes of it
    remedy: str
    outcome: Literal["found", "repaired"]
    #: id of the job, if it is about one
    job: str = ""
    #: the key, if it is about one
    key: str = ""

    @property
    def subject(self) -> str:
        """`job sms/…`, `key seq of queue sms` or `queue sms`."""
        if self.job:
            return f"job {self.queue}/{self.job}"
        return f"key {self.key} of queue {self.queue}" if self.key else f"queue {self.queue}"

    def __str__(self) -> str:
        return f"{self.subject} {self.problem}"


class Fsck:
    """
    A walk through a namespace.

    Args:
        broker: the verbs of the namespace.
        tell: is given each finding.
        repair: repair what is found.
        looked: is told now and then how many jobs were looked at.
        who: asks, for the events of repairs.
    """

    def __init__(
        self,
        broker: Verbs,
        tell: Callable[[Finding], None],
        *,
        repair: bool = False,
        looked: Callable[[int], None] = nothing,
        who: str = "",
    ) -> None:
        self._broker, self._tell_one, self._repair, self._looked, self._who = broker, tell, repair, looked, who
        #: keys of jobs looked at so far
        self.jobs = 0
        self._told: set[Finding] = set()

    def queue(self, queue: str) -> Plan[None]:
        """Look at one queue."""
        found = yield scripted(
            "inspect_sequence", self._broker.keys.root(queue), (int(self._repair),), lambda r: texts(r or [])
        )
        if found:
            says, last = map(decoded, found)
            problem = f"says {says} while the last arrival is {last}"
            self._tell(queue, "sequence", problem, f"counted on from {last}", key="seq")
        yield from self._jobs(queue)
        for name in _SETS:
            yield from self._members(queue, self._broker.keys.of(queue, name))

    def strays(self) -> Plan[list[str]]:
        """The queues that have keys and are in no list."""
        keys = self._broker.keys
        head = f"{keys.namespace}:{{"
        found: set[str] = set()
        cursor = None
        while cursor != 0:
            cursor, names = yield plain(_page, "SCAN", cursor or 0, "MATCH", f"{head}*}}:*", "COUNT", PAGE)
            found |= {decoded(name).removeprefix(head).partition("}")[0] for name in names}
        strays = sorted(filter(is_name, found - set((yield self._broker.queues()))))
        if self._repair:
            yield from self._broker.declare(strays)
        for queue in strays:
            self._tell(queue, "undeclared", "holds keys and is in no list of queues", "listed")
        return strays

    def _jobs(self, queue: str) -> Plan[None]:
        cursor = None
        while cursor != 0:
            cursor, ids, locks = yield self._broker.scan(queue, cursor or 0, PAGE)
            self.jobs += len(ids)
            self._looked(self.jobs)
            yield from self._look(queue, "keys", ids)
            stale = (yield self._broker.inspect_locks(queue, locks, repair=self._repair)) if locks else ()
            for name, id_ in stale:
                problem = f"is held by job {queue}/{id_}, which is gone, or holds it no more"
                self._tell(queue, "lock", problem, "freed", key=f"unique:{name}")

    def _members(self, queue: str, key: str) -> Plan[None]:
        cursor = None
        while cursor != 0:
            cursor, flat = yield plain(_page, "ZSCAN", key, cursor or 0, "COUNT", PAGE)
            yield from self._look(queue, "members", flat[::2])

    def _look(self, queue: str, what: Literal["keys", "members"], ids: Sequence[bytes]) -> Plan[None]:
        if not ids:
            return
        # in the order of time, so that what was queued together is queued again in its order
        for id_, kind, detail, status in (
            yield self._broker.inspect(queue, what, sorted(ids), repair=self._repair, who=self._who)
        ):
            problem, remedy = _PROBLEMS[kind](detail.split(), status)
            self._tell(queue, kind, problem, remedy, job=id_)

    def _tell(self, queue: str, kind: Kind, problem: str, remedy: str, *, job: str = "", key: str = "") -> None:
        finding = Finding(queue, kind, problem, remedy, "repaired" if self._repair else "found", job, key)
        if finding not in self._told:
            if len(self._told) < _REMEMBERED:
                self._told.add(finding)
            self._tell_one(finding)


#: kind → (detail, the status that is right) → what is wrong, what a repair makes of it
_PROBLEMS: Final[dict[str, Callable[[list[str], str], tuple[str, str]]]] = {
    "no-job": lambda _sets, _status: (
        "is not a job: its key is missing, or holds something else",
        "out of its sets, and kept raw under broken",
    ),
    "wrong-set": lambda sets, status: (
        f"is in several sets: {', '.join(sets)}" if sets else "is in no set",
        f"among the {status} jobs alone",
    ),
    "fields": lambda names, status: (
        f"is {status}, which does not agree with its {', '.join(names)}",
        "its state is made to agree with the set",
    ),
}


def _page(reply: Any) -> tuple[int, list[bytes]]:
    """Of a scan the next cursor, 0 at its end, and what it has found."""
    return int(reply[0]), texts(reply[1])
