"""
Find jobs that wait for others and can never go on, and repair them.

1. list     the deferred jobs of a queue, and the parents of each that have not ended as far as it knows
2. judge    each of these parents: it is gone, it has ended and nobody will tell of it, or it was never asked to
3. circles  behind the last queue: jobs that wait for each other

What is still in an outbox is on its way: nothing is said of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fusiond.broker.call import Call, Plan, decoded, number, plain
from fusiond.broker.keys import is_name
from fusiond.broker.maintenance.fsck import PAGE, Finding, page
from fusiond.broker.verbs import Verbs
from fusiond.job import JobStatus

#: characters of a reason
_LONGEST: Final = 500


class Wait(NamedTuple):
    """What a job waits for."""

    #: how many more parents must end well
    missing: int
    #: it fails once that cannot be any more; else each end is a good one
    may_fail: bool
    #: names of the parents that have not ended
    parents: Sequence[str]


class _Parent(NamedTuple):
    """One parent of a job."""

    #: of the child, and its id
    queue: str
    child: str
    #: as the child knows the parent
    name: str

    @property
    def place(self) -> tuple[str, str]:
        """Its queue and id."""
        queue, _, id_ = self.name.partition("/")
        return queue, id_


class WaitFsck:
    """
    A look at all deferred jobs of these queues.

    Args:
        broker: the verbs.
        queues: all of the namespace.
        tell: is given each finding.
        repair: repair what is found.
        who: asks, for the events of repairs.
    """

    def __init__(
        self, broker: Verbs, queues: Sequence[str], tell: Callable[[Finding], None], *, repair: bool = False,
        who: str = "",
    ) -> None:  # fmt: skip
        self._broker, self._queues, self._tell_one, self._repair, self._who = broker, queues, tell, repair, who
        #: full name of a deferred job → what it waits for
        self._waits: dict[str, Wait] = {}

    def queue(self, queue: str) -> Plan[None]:
        """Look at the deferred jobs of one queue."""
        cursor = None
        while cursor != 0:
            cursor, flat = yield plain(page, "ZSCAN", self._key(queue, "deferred"), cursor or 0, "COUNT", PAGE)
            for raw in flat[::2]:
                yield from self._look(queue, decoded(raw))

    def circles(self) -> Plan[None]:
        """Look for circles, once each queue was looked at."""
        for circle in circles(self._waits):
            way = " -> ".join([*circle, circle[0]])
            why = _clean(f"it waits for a job that waits for it: {way}")
            for name, parent in zip(circle, [*circle[1:], circle[0]], strict=True):
                queue, _, id_ = name.partition("/")
                if self._repair:
                    yield self._broker.mend_wait(queue, "circle", id_, parent, why, who=self._who)
                self._tell(queue, id_, f"waits for a job that waits for it: {way}", "it has failed with PARENT_CIRCLE")

    def _look(self, queue: str, id_: str) -> Plan[None]:
        wait: Wait | None
        wait, is_there, *moves = yield [
            plain(_wait, "HGETALL", self._key(queue, "parents", id_)),
            plain(_is_there, "ZSCORE", self._key(queue, "deferred"), id_),
            *(plain(bool, "HEXISTS", self._key(queue, notes), id_) for notes in ("leaving", "arriving")),
        ]
        if wait is None:
            if is_there and not any(moves):
                yield from self._mend(queue, "lost", id_)
                self._tell(queue, id_, "waits for others, and nothing says for which", "it has failed")
            return
        self._waits[f"{queue}/{id_}"] = wait
        for at in range(0, len(wait.parents), PAGE):
            parents = [_Parent(queue, id_, name) for name in wait.parents[at : at + PAGE]]
            yield from self._look_at_parents([each for each in parents if is_name(each.place[0])])

    def _look_at_parents(self, parents: list[_Parent]) -> Plan[None]:
        # In this order: what is in no outbox before, and is neither known nor told after, is lost.
        asking = yield [self._in_outbox(each.queue, each.place[0]) for each in parents]
        known = yield [self._is_known(each.place[0], each) for each in parents]
        stands = yield [self._status(each) for each in parents]
        telling = yield [self._in_outbox(each.place[0], each.queue) for each in parents]
        still = yield [
            plain(bool, "HEXISTS", self._key(each.queue, "parents", each.child), f"p {each.name}") for each in parents
        ]
        for each, *on_their_way, is_known, status, waits in zip(
            parents, asking, telling, known, stands, still, strict=True
        ):
            ended = status is None or status.ended
            if waits and not any(on_their_way) and (ended or not is_known):
                yield from self._judge(each, status)

    def _judge(self, parent: _Parent, status: JobStatus | None) -> Plan[None]:
        queue, id_ = parent.place
        if status is not None and not status.ended:
            if self._repair:
                yield self._broker.mend_wait(queue, "ask", id_, parent.queue, parent.child, parent.name, who=self._who)
            problem, remedy = f"waits for job {parent.name}, which does not know of it", "it is told of its end"
        elif status is None and (yield from self._has_moved(parent)):
            return
        else:
            yield from self._mend(parent.queue, "ended", parent.child, parent.name, status or "missing")
            what = "is gone" if status is None else f"is {status}, which it was not told"
            problem, remedy = f"waits for job {parent.name}, which {what}", "it goes on by its on_parent_failure"
            if status is JobStatus.FINISHED:
                remedy = "it is told"
        self._tell(parent.queue, parent.child, problem, remedy)

    def _has_moved(self, parent: _Parent) -> Plan[bool]:
        """Whether a parent that is gone from its queue is in another one, where it knows of the job."""
        return any((yield [self._is_known(queue, parent) for queue in self._queues]))

    def _mend(self, queue: str, what: str, *words: str) -> Plan[None]:
        if self._repair:
            yield self._broker.mend_wait(queue, what, *words, who=self._who)

    def _status(self, parent: _Parent) -> Call[JobStatus | None]:
        return self._broker.status(*parent.place)

    def _is_known(self, queue: str, parent: _Parent) -> Call[bool]:
        """Whether the parent, in this queue, knows of the child."""
        key, entry = self._key(queue, "children", parent.place[1]), f"{parent.queue}/{parent.child} {parent.name}"
        return plain(_is_there, "LPOS", key, entry)

    def _in_outbox(self, source: str, target: str) -> Call[int]:
        return plain(number, "LLEN", self._key(source, "outbox", target))

    def _key(self, queue: str, *parts: str) -> str:
        return self._broker.keys.of(queue, *parts)

    def _tell(self, queue: str, id_: str, problem: str, remedy: str) -> None:
        self._tell_one(Finding(queue, "wait", problem, remedy, "repaired" if self._repair else "found", job=id_))


def circles(waits: Mapping[str, Wait]) -> Iterator[list[str]]:
    """The circles among jobs that can never go on, each job followed by one that it waits for. Pure."""
    stuck, seen = _stuck(waits), set[str]()
    for name in waits:
        path: list[str] = []
        while name in stuck and name not in seen:
            seen.add(name)
            path.append(name)
            name = next(parent for parent in waits[name].parents if parent in stuck)  # noqa: PLW2901 - the next one
        if name in path:
            yield path[path.index(name) :]


def _stuck(waits: Mapping[str, Wait]) -> set[str]:
    """The jobs that go on in no case, however the jobs end that do not wait."""
    children: dict[str, list[str]] = {}
    ending = dict.fromkeys(waits, 0)
    for name, wait in waits.items():
        for parent in wait.parents:
            if parent in waits:
                children.setdefault(parent, []).append(name)
            else:
                ending[name] += 1
    stuck, going = set(waits), [name for name, wait in waits.items() if _may_go_on(wait, ending[name])]
    while going:
        parent = going.pop()
        if parent in stuck:
            stuck.remove(parent)
            for name in children.get(parent, ()):
                ending[name] += 1
                if _may_go_on(waits[name], ending[name]):
                    going.append(name)
    return stuck


def _may_go_on(wait: Wait, ending: int) -> bool:
    """Whether it runs, or fails, if so many of its parents end."""
    return ending >= wait.missing or (wait.may_fail and len(wait.parents) - ending < wait.missing)


def _is_there(reply: object) -> bool:
    return reply is not None


def _clean(text: str) -> str:
    """What may stand in an error that a script writes."""
    return re.sub(r"[^\w.:@/> -]", "?", text, flags=re.ASCII)[:_LONGEST]


def _wait(flat: list[bytes]) -> Wait | None:
    if not flat:
        return None
    known = dict(zip(map(decoded, flat[::2]), map(decoded, flat[1::2]), strict=True))
    parents = sorted(name.removeprefix("p ") for name in known if name.startswith("p "))
    return Wait(int(known.get("need", 0)) - int(known.get("got", 0)), known.get("run") != "1", parents)
