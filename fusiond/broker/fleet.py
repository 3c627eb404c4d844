"""
What daemons and workers say about themselves, beside the queues: workers, catalogue, generations.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from fusiond.broker.call import Call, Plan, nothing, plain, raw, scripted
from fusiond.broker.keys import is_name
from fusiond.broker.records import Catalogue, Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fusiond.broker.keys import Keys

#: seconds after which a worker that says nothing is gone
WORKER_TTL = 420
#: seconds after which what a silent daemon declared is dropped by another, 7 days
CATALOGUE_TTL = 7 * 86400


class FleetVerbs:
    """Verbs about the processes that work, and about what they can do."""

    __slots__ = ()
    keys: Keys

    def announce(self, worker: str, fields: Mapping[str, str | int], *, ttl: int = WORKER_TTL) -> Plan[None]:
        """Say what a worker (`<host>.<pid>`) is and does; to be repeated within `ttl` seconds."""
        key = self.keys.worker(worker)
        words = [word for field in fields.items() for word in field]
        yield [
            plain(nothing, "HSET", key, *words),
            plain(nothing, "EXPIRE", key, ttl),
            plain(nothing, "SADD", self.keys.workers, worker),
        ]

    def withdraw(self, worker: str) -> Plan[None]:
        """Say that a worker has ended."""
        yield [
            plain(nothing, "DEL", self.keys.worker(worker)),
            plain(nothing, "SREM", self.keys.workers, worker),
        ]

    def workers(self) -> Plan[list[Worker]]:
        """All workers that have said something within their ttl; the names of the others are dropped."""
        names = yield plain(lambda reply: [name for name in map(raw, reply) if name], "SMEMBERS", self.keys.workers)
        if not names:
            return []
        head = self.keys.worker("").encode()
        found = yield [plain(_fields, "HGETALL", head + name) for name in names]
        silent = [name for name, fields in zip(names, found, strict=True) if not fields]
        if silent:
            yield plain(nothing, "SREM", self.keys.workers, *silent)
        return sorted(Worker(_text(name), fields) for name, fields in zip(names, found, strict=True) if fields)

    def publish_catalogue(
        self,
        daemon: str,
        hash: str,  # noqa: A002
        tasks: Mapping[str, Mapping[str, object]],
        *,
        priorities: Mapping[str, int],
        queues: Iterable[str],
        ttl: int = CATALOGUE_TTL,
    ) -> Plan[int]:
        """
        Tell producers what may be enqueued.

        Args:
            daemon: a name that stays over restarts, such as the host's and the configuration's.
            hash: of the configuration's content.
            tasks: task -> {queue, priority, expires in seconds or None, run, …}, whatever producers need, as JSON.
            priorities: the names of priorities.
            queues: all queues that the file declares.
            ttl: seconds; to be repeated well within.

        Returns:
            the generation: a number by which the hosts' configurations are ordered, newest highest.
        """
        before = yield plain(_entry, "HGET", self.keys.catalog, daemon)
        generation = yield scripted("generation", self.keys.meta, (hash, before.hash if before else ""), int)
        body = json.dumps({"tasks": tasks, "priorities": priorities, "queues": sorted(queues)})
        words = (daemon, ttl * 1000, generation, hash, body)
        yield scripted("publish", self.keys.catalog, words, nothing)
        return int(generation)

    def catalogue(self) -> Call[Catalogue]:
        """The union of what all daemons declare; of two that declare the same name, the newest generation wins."""
        return plain(_catalogue, "HGETALL", self.keys.catalog)


class _Entry(NamedTuple):
    """One daemon's field of the catalogue."""

    generation: int
    hash: str
    body: bytes


def _entry(raw: bytes | None) -> _Entry | None:
    """None where there is none, or none that can be read: its daemon writes it anew."""
    try:
        head, _, body = (raw or b"").partition(b"\n")
        _stale, generation, hash_ = head.split()
        return _Entry(int(generation), hash_.decode(), body)
    except ValueError:
        return None


def _catalogue(flat: list[bytes]) -> Catalogue:
    tasks: dict[str, dict[str, Any]] = {}
    priorities: dict[str, int] = {}
    queues: set[str] = set()
    for entry in sorted(filter(None, map(_entry, flat[1::2]))):
        said = _declared(entry.body)
        if said is not None:
            tasks |= said.tasks
            priorities |= said.priorities
            queues |= said.queues
    return Catalogue(tasks, priorities, frozenset(queues))


def _declared(body: bytes) -> Catalogue | None:
    """What one daemon declares; None for what no daemon has written."""
    try:
        said = json.loads(body)
        tasks, priorities, queues = said["tasks"], said["priorities"], frozenset(said["queues"])
        good = all(map(_is_task, tasks.values())) and all(map(_is_priority, priorities.values()))
        return Catalogue(tasks, priorities, queues) if good and all(map(is_name, queues)) else None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _is_task(said: dict[str, Any]) -> bool:
    return is_name(said["queue"]) and _is_priority(said["priority"]) and 0 <= (said.get("expires") or 0) < 1e9


def _is_priority(number: object) -> bool:
    return isinstance(number, int) and 0 <= number <= 255


def _fields(flat: Any) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
