"""
The verbs of workers: each says about itself what it does, for `fusiond status` and the log.
"""

from __future__ import annotations

from collections.abc import Mapping

from fusiond.broker.call import Call, Plan, decoded, nothing, number, plain, text_map, texts
from fusiond.broker.hosts.host_records import Worker
from fusiond.broker.keys import VerbGroup

#: seconds after which a worker that says nothing is gone
WORKER_TTL = 60


class WorkerVerbs(VerbGroup):
    """Verbs about the workers of all hosts."""

    def announce(self, worker: str, fields: Mapping[str, str | int]) -> Plan[None]:
        """Say what a worker (`<host>.<pid>`) is and does; to be repeated within WORKER_TTL seconds."""
        key = self.keys.worker(worker)
        words = [word for field in fields.items() for word in field]
        yield [
            plain(nothing, "HSET", key, *words),
            plain(nothing, "EXPIRE", key, WORKER_TTL),
            plain(nothing, "SADD", self.keys.workers, worker),
        ]

    def withdraw(self, worker: str) -> Plan[None]:
        """Say that a worker has ended."""
        yield [
            plain(nothing, "DEL", self.keys.worker(worker)),
            plain(nothing, "SREM", self.keys.workers, worker),
        ]

    def ask_workers(self) -> Plan[int]:
        """Have each worker say at once what it does; returns the number that its field `answers` then has, or more."""
        question = yield plain(int, "HINCRBY", self.keys.meta, "asked", 1)
        yield plain(nothing, "PUBLISH", self.keys.workers, question)
        return int(question)

    def worker_names(self) -> Call[list[str]]:
        """All workers that have not said that they end, as far as nobody has found them gone."""
        return plain(lambda reply: list(map(decoded, texts(reply))), "SMEMBERS", self.keys.workers)

    def workers(self) -> Plan[list[Worker]]:
        """All workers that have said something within WORKER_TTL; the names of the others are dropped."""
        names: list[bytes] = yield plain(texts, "SMEMBERS", self.keys.workers)
        if not names:
            return []
        head = self.keys.worker("").encode()
        said = yield [
            call
            for name in names
            for call in (plain(text_map, "HGETALL", head + name), plain(number, "PTTL", head + name))
        ]
        found = list(zip(names, said[::2], said[1::2], strict=True))
        if silent := [name for name, fields, _ in found if not fields]:
            yield plain(nothing, "SREM", self.keys.workers, *silent)
        return sorted(Worker(decoded(name), fields, _since(left)) for name, fields, left in found if fields)


def _since(left_ms: int) -> int:
    """How many ms ago a record was written that lives for so many ms more."""
    return max(0, WORKER_TTL * 1000 - left_ms) if left_ms >= 0 else 0
