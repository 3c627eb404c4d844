"""
Check a queue: each job is in exactly one set, and its hash agrees.

Changes nothing. It reads every job of the queue in several steps, so that of a queue in use it may show what is only
passing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fusiond.broker.call import Plan, as_is, plain
from fusiond.job import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fusiond.broker.keys import Keys

_ENDED = {status for status in JobStatus if status.ended}
#: keys in one round trip
_STEP = 1000


def fsck(keys: Keys, queue: str) -> Plan[list[str]]:
    """What is wrong, a sentence each; empty: nothing is."""
    statuses = list(JobStatus)
    members = yield [plain(as_is, "ZRANGE", _set(keys, queue, status), 0, -1) for status in statuses]
    held: dict[bytes, list[JobStatus]] = {}
    for status, ids in zip(statuses, members, strict=True):
        for id_ in ids:
            held.setdefault(id_, []).append(status)
    hashes: dict[bytes, Mapping[str, bytes]] = yield from _hashes(keys, queue)
    return [problem for id_ in sorted(held | hashes) for problem in _problems(id_, held.get(id_, []), hashes.get(id_))]


def _set(keys: Keys, queue: str, status: JobStatus) -> str:
    return keys.of(queue, "queue" if status is JobStatus.QUEUED else status)


def _hashes(keys: Keys, queue: str) -> Plan[dict[bytes, Mapping[str, bytes]]]:
    head = keys.of(queue, "job", "").encode()
    found: dict[bytes, Mapping[str, bytes]] = {}
    cursor = None
    while cursor != 0:
        cursor, names = yield plain(_scanned, "SCAN", cursor or 0, "MATCH", head + b"*", "COUNT", _STEP)
        if names:
            kinds = yield [plain(as_is, "TYPE", name) for name in names]
            hashes = [name for name, kind in zip(names, kinds, strict=True) if kind == b"hash"]
            fields = yield [plain(_fields, "HGETALL", name) for name in hashes]
            found |= {name[len(head) :]: {} for name in names}
            found |= {name[len(head) :]: each for name, each in zip(hashes, fields, strict=True)}
    return found


def _problems(id_: bytes, statuses: list[JobStatus], fields: Mapping[str, bytes] | None) -> Iterator[str]:
    name = id_.decode(errors="replace")
    if len(statuses) != 1:
        yield f"job {name} is in {len(statuses)} sets: {', '.join(statuses) or 'none'}"
        return
    status = statuses[0]
    if fields is None:
        yield f"job {name} is {status} and has no hash"
        return
    missing = {"task", "args", "created_at"} - fields.keys()
    if missing:
        yield f"job {name} lacks {', '.join(sorted(missing))}"
    if bool(fields.get("token")) != (status is JobStatus.STARTED):
        yield f"job {name} is {status} and its token is {fields.get('token', b'').decode()!r}"
    if ("ended_at" in fields) != (status in _ENDED):
        yield f"job {name} is {status} and its ended_at is {fields.get('ended_at')!r}"
    if status is JobStatus.SCHEDULED and "score" not in fields:
        yield f"job {name} is scheduled and has no score to come back with"


def _scanned(reply: Any) -> tuple[int, list[bytes]]:
    return int(reply[0]), reply[1]


def _fields(flat: list[bytes]) -> dict[str, bytes]:
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
