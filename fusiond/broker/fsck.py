"""
Check a namespace: each job is in exactly one set, and its hash agrees.

1. namespace  the keys that belong to no queue: their types
2. keys       of each queue: their types, and that arrivals are counted on from the last
3. jobs       each key of a job, by SCAN: what its hash and the sets say
4. members    each member of each set, by ZSCAN: whether it has a hash
5. strays     keys of queues that are in no list

A page is judged by one script, which sees each job at one moment: a job that moves between two pages is no finding,
since no verb leaves it in two sets, or in none, between two scripts. What is found can be mended by another script,
which looks again first. Nothing is remembered of a job that is as it should be, so the size of a namespace costs time
alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from fusiond.broker.call import Call, Plan, as_is, decoded, nothing, plain, scripted
from fusiond.broker.keys import is_name
from fusiond.broker.steering import declaration
from fusiond.job import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fusiond.broker.keys import Keys

#: keys that a scan is asked for; it may come back with some more
PAGE: Final = 100
#: jobs that one script looks at, at most
_LOOK: Final = 2 * PAGE
#: findings that are remembered, so that one which a scan comes across twice is told once
_REMEMBERED: Final = 100_000

Kind = Literal[
    "namespace", "wrong-type", "sequence", "undeclared", "no-body", "no-job", "no-set", "many-sets",
    "number", "score", "place", "due", "lease", "token", "ended-at",
]  # fmt: skip
#: found: looked at only · repaired · changed: it was as it should be when it was looked at again · left: still so
Outcome = Literal["found", "repaired", "changed", "left"]

#: kind → what is wrong, what mends it; with {detail}, and {status}: the one that is right
_TEXTS: Final[dict[str, tuple[str, str]]] = {
    "namespace": ("is a {0}, not a {1}", "set aside as {{{key}}}:broken:<ms>; {again}"),
    "wrong-type": ("is a {0}, not a {1}", "set aside as {key}:broken:<ms>; its jobs are found one by one"),
    "sequence": ("says {0} while the last arrival is {1}", "counted on from {1}"),
    "undeclared": ("holds keys and is in no list of queues", "listed"),
    "no-body": ("is {detail} and has no hash", "out of {detail}, its id kept under broken"),
    "no-job": ("is no job: its key is no hash, or lacks task or args", "kept raw under broken"),
    "no-set": ("is in no set", "among the {status} jobs"),
    "many-sets": ("is in several sets: {detail}", "{status} alone"),
    "number": ("is {status} and has no number as its {detail}", "dropped; created_at: now"),
    "score": ("is {status} and its score is {detail}", "behind the priority of its task"),
    "place": ("is queued at {detail}, which is no place", "behind its priority"),
    "due": ("is scheduled for {detail}, which never comes", "due now"),
    "lease": ("is started with a lease until {detail}", "over in a minute, unless its worker renews it"),
    "token": ("is {status} and its token is {detail!r}", "no attempt holds it; a started job is taken back by a claim"),
    "ended-at": ("is {status} and its ended_at is {detail}", "as its status says"),
}


#: key of the namespace → its type, and how what it held comes back
_NAMESPACE: Final[dict[str, tuple[str, str]]] = {
    "meta": ("hash", "the daemons write it anew; queues still to come are not suspended any more"),
    "queues": ("set", "the daemons and this command list the queues anew"),
    "workers": ("set", "the workers write it anew"),
    "daemons": ("hash", "the daemons write it anew within 10 s"),
    "catalog": ("hash", "the daemons write it anew within 10 s"),
    "cron": ("hash", "the entries tick from now on, and none is suspended by hand any more"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    queue: str
    #: id of the job; empty: it is about a key of the queue
    job: str
    kind: Kind
    detail: str
    #: of a job: the status that is right; of a key: its name behind the root
    about: str = ""
    outcome: Outcome = "found"

    @property
    def what(self) -> tuple[str, str, str]:
        """The same of two findings that are the same."""
        return (self.queue, self.job or self.about, self.kind)

    @property
    def subject(self) -> str:
        """`job sms/…`, `key seq of queue sms`, `queue sms`."""
        if self.job:
            return f"job {self.queue}/{self.job}"
        if not self.queue:
            return f"key {self.about}"
        return f"key {self.about} of queue {self.queue}" if self.about else f"queue {self.queue}"

    @property
    def problem(self) -> str:
        """What is wrong, behind the subject."""
        return self._say(0)

    @property
    def remedy(self) -> str:
        """What `mend` makes of it."""
        return self._say(1)

    def _say(self, which: int) -> str:
        words = (*self.detail.rsplit(" ", 1), "")
        text = _TEXTS[self.kind][which]
        again = _NAMESPACE[self.about.rpartition(":")[2]][1] if self.kind == "namespace" else ""
        detail = self.detail.replace(" ", ", ")
        return text.format(*words, detail=detail, status=self.about, key=self.about, again=again)

    def __str__(self) -> str:
        return f"{self.subject} {self.problem}"


class FsckVerbs:
    """Verbs that look for what no verb leaves, and mend it."""

    __slots__ = ()
    keys: Keys

    def inspect(self, queue: str, what: Literal["keys", "members"], ids: Iterable[bytes]) -> Call[list[Finding]]:
        """What is wrong with these jobs; of `members` of a set only that they have no key at all."""
        return scripted("inspect", self.keys.root(queue), (what, *ids), lambda flat: _of_jobs(queue, flat, 4))

    def mend(self, queue: str, ids: Iterable[str]) -> Call[list[Finding]]:
        """Look again and mend what is wrong now: each finding as `repaired` or `left`."""
        words = [id_.encode(errors="surrogateescape") for id_ in ids]
        return scripted("mend", self.keys.root(queue), words, lambda flat: _of_jobs(queue, flat, 5))

    def inspect_keys(self, queue: str) -> Call[list[Finding]]:
        """Which keys of the queue no verb could work with."""
        return scripted("inspect_keys", self.keys.root(queue), (), lambda flat: _of_keys(queue, flat, "found"))

    def mend_keys(self, queue: str) -> Call[list[Finding]]:
        """Look again, and set such keys aside."""
        return scripted("mend_keys", self.keys.root(queue), (), lambda flat: _of_keys(queue, flat, "repaired"))


class Fsck:
    """
    A walk through a namespace.

    Args:
        verbs: of the namespace.
        tell: is given each finding as soon as its outcome is known.
        repair: mend what is found.
        looked: is told now and then how many jobs were looked at.
    """

    def __init__(
        self,
        verbs: FsckVerbs,
        tell: Callable[[Finding], None],
        *,
        repair: bool = False,
        looked: Callable[[int], None] = nothing,
    ) -> None:
        self._verbs, self._tell, self._repair, self._looked = verbs, tell, repair, looked
        #: keys of jobs looked at so far
        self.jobs = 0
        self._told: set[tuple[str, str, str]] = set()

    def reach(self) -> Plan[None]:
        """Raise BrokerUnavailable where Redis is out of reach; finds nothing."""
        yield plain(nothing, "TYPE", self._verbs.keys.meta)

    def namespace(self, *names: str) -> Plan[None]:
        """Look at the keys that belong to no queue, or at these of them, such as `meta`."""
        for name in names or _NAMESPACE:
            wanted = _NAMESPACE[name][0]
            key = f"{self._verbs.keys.namespace}:{name}"
            kind = yield plain(_text, "TYPE", key)
            if kind in ("none", wanted):
                continue
            outcome: Outcome = "found"
            if self._repair:
                was = yield scripted("set_aside", key, (wanted,), as_is)
                outcome = "changed" if was is None else "repaired"
            self._tell_all([Finding("", "", "namespace", f"{kind} {wanted}", key, outcome)])

    def queue(self, queue: str) -> Plan[None]:
        """Look at one queue."""
        found = yield self._verbs.inspect_keys(queue)
        if found and self._repair:
            found = settled(found, (yield self._verbs.mend_keys(queue)))
        self._tell_all(found)
        yield from self._jobs(queue)
        wrong = {finding.about for finding in found if finding.outcome == "found"}
        for status in JobStatus:
            name = "queue" if status is JobStatus.QUEUED else status.value
            if name not in wrong:
                yield from self._members(queue, self._verbs.keys.of(queue, name))

    def strays(self) -> Plan[list[str]]:
        """The queues that have keys and are in no list."""
        keys = self._verbs.keys
        seen: set[bytes] = set()
        cursor = None
        while cursor != 0:
            cursor, names = yield plain(_page, "SCAN", cursor or 0, "MATCH", f"{keys.namespace}:{{*}}:*", "COUNT", PAGE)
            seen |= {name.partition(b"}")[0] for name in names}
        known = yield plain(as_is, "SMEMBERS", keys.queues)
        head = f"{keys.namespace}:{{"
        queues = {decoded(name).removeprefix(head) for name in seen} - set(map(decoded, known))
        strays = sorted(filter(is_name, queues))
        if strays and self._repair:
            yield from declaration(keys, strays)
        for queue in strays:
            self._tell(Finding(queue, "", "undeclared", "", outcome="repaired" if self._repair else "found"))
        return strays

    def _jobs(self, queue: str) -> Plan[None]:
        head = self._verbs.keys.of(queue, "job", "").encode()
        cursor = None
        while cursor != 0:
            cursor, names = yield plain(_page, "SCAN", cursor or 0, "MATCH", head + b"*", "COUNT", PAGE)
            self.jobs += len(names)
            self._looked(self.jobs)
            yield from self._look(queue, "keys", [name[len(head) :] for name in names])

    def _members(self, queue: str, key: str) -> Plan[None]:
        cursor = None
        while cursor != 0:
            cursor, flat = yield plain(_page, "ZSCAN", key, cursor or 0, "COUNT", PAGE)
            yield from self._look(queue, "members", flat[::2])

    def _look(self, queue: str, what: Literal["keys", "members"], ids: Sequence[bytes]) -> Plan[None]:
        for first in range(0, len(ids), _LOOK):
            found = yield self._verbs.inspect(queue, what, ids[first : first + _LOOK])
            if found and self._repair:
                # in the order of time, so that what was queued together is queued in its order
                mended = yield self._verbs.mend(queue, sorted({finding.job for finding in found}))
                found = settled(found, mended)
            self._tell_all(found)

    def _tell_all(self, found: Iterable[Finding]) -> None:
        for finding in found:
            if finding.what not in self._told:
                if len(self._told) < _REMEMBERED:
                    self._told.add(finding.what)
                self._tell(finding)


def settled(found: Iterable[Finding], mended: Sequence[Finding]) -> list[Finding]:
    """What was mended or left, and what of `found` nothing was seen any more."""
    seen = {each.what for each in mended}
    gone = [replace(each, outcome="changed") for each in found if each.what not in seen]
    return [*gone, *mended]


def _page(reply: Any) -> tuple[int, list[bytes]]:
    return int(reply[0]), reply[1]


def _of_jobs(queue: str, flat: Sequence[Any], width: int) -> list[Finding]:
    """Findings out of (id, kind, detail, about[, mended 0|1]), …."""
    outcomes: dict[int, Outcome] = {0: "left", 1: "repaired"}
    return [
        Finding(queue, *map(_text, words[:4]), *map(outcomes.__getitem__, words[4:]))  # type: ignore[arg-type]
        for words in zip(*[iter(flat)] * width, strict=True)
    ]


def _of_keys(queue: str, flat: Sequence[bytes], outcome: Outcome) -> list[Finding]:
    """Findings out of (key, kind, detail), …."""
    words = map(_text, flat)
    return [
        Finding(queue, "", kind, detail, key, outcome)  # type: ignore[arg-type]
        for key, kind, detail in zip(words, words, words, strict=True)
    ]


def _text(word: bytes) -> str:
    # an id that is no text goes back to Redis as it came
    return word.decode(errors="surrogateescape")
