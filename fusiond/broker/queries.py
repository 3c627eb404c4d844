"""
Look-ups: one job, pages of jobs, counts, what is broken. None of them changes anything.

Whoever can write to Redis can put anything there by hand: what cannot be read of it is left out and named, and never
raises.
"""

from __future__ import annotations

import json
from typing import Any

from fusiond.broker.call import Call, decoded, number, plain, raw, scripted
from fusiond.broker.keys import BAND, VerbGroup, is_name
from fusiond.broker.records import Counts, JobOutcome
from fusiond.job import JobRecord, JobStatus


class QueryVerbs(VerbGroup):
    """Verbs that only read."""

    def job(self, queue: str, id: str) -> Call[JobRecord | None]:  # noqa: A002
        """All that is known of a job; None: there is none, or it was dropped after its ttl."""

        def parse(reply: Any) -> JobRecord | None:
            return None if reply is None else _record(queue, id, reply[0].decode(), reply[1], reply[2])

        return scripted("job", self.keys.root(queue), (id,), parse)

    def jobs(self, queue: str, status: JobStatus, *, start: int = 0, count: int = 100) -> Call[list[JobRecord]]:
        """A page of the jobs of one status: waiting and running ones in their order, ended ones newest first."""

        def parse(reply: Any) -> list[JobRecord]:
            parts = iter(reply)
            return [_record(queue, decoded(id), status, *rest) for id, *rest in zip(parts, parts, parts, strict=True)]  # noqa: A001

        return scripted("jobs", self.keys.root(queue), (status, start, count), parse)

    def status(self, queue: str, id: str) -> Call[JobStatus | None]:  # noqa: A002
        """The status of a job; None: there is none, or it was dropped after its ttl."""
        return scripted("status", self.keys.root(queue), (id,), lambda reply: reply and JobStatus(reply.decode()))

    def outcome(self, queue: str, id: str) -> Call[JobOutcome | None]:  # noqa: A002
        """The job's status and, if it has ended, its result or error; little, since producers ask again and again."""
        return scripted("outcome", self.keys.root(queue), (id,), _outcome)

    def counts(self, queue: str) -> Call[Counts]:
        """How many jobs the queue holds, by status."""
        return scripted("counts", self.keys.root(queue), (), _counts)

    def queues(self) -> Call[list[str]]:
        """The names of all queues that were ever declared; what can be no name is passed over."""
        return plain(
            lambda names: sorted(name for name in map(decoded, names) if is_name(name)), "SMEMBERS", self.keys.queues
        )


#: numbers in a job's hash
_NUMBERS = (
    "created_at", "started_at", "ended_at", "expires_at", "attempts", "crashes", "rescues", "interrupted", "score",
)  # fmt: skip


def _record(queue: str, id: str, status: str, place: bytes, flat: list[bytes]) -> JobRecord:  # noqa: A002
    fields = {decoded(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
    header = _header(fields.get("header", b"{}"))
    numbers = {name: _whole(fields[name]) for name in _NUMBERS if name in fields}
    broken = [name for name in ("task", "args") if name not in fields]
    broken += [name for name, number in numbers.items() if number is None] + ["header"] * (header is None)
    known = {name: number for name, number in numbers.items() if number is not None}
    score = known.pop("score", None)
    if status == JobStatus.QUEUED:
        score = _whole(place)
    header = header or {}
    return JobRecord(
        queue=queue,
        id=id,
        status=JobStatus(status),
        task=decoded(fields.get("task", b"")),
        args=fields.get("args", b""),
        priority=None if score is None else 255 - score // BAND,
        due_at=_whole(place) if status == JobStatus.SCHEDULED else None,
        **known,
        last_outcome=decoded(fields.get("last_outcome", b"")),
        result=fields.get("result"),
        error=fields.get("error"),
        key=str(header.get("key", "")),
        log_tag=str(header.get("log_tag", "")),
        meta=json.dumps(header["meta"]).encode() if "meta" in header else None,
        broken=" ".join(broken),
    )


def _header(raw: bytes) -> dict[str, Any] | None:
    """What travels with the job to its child; None where it cannot be read."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _whole(raw: bytes) -> int | None:
    """A whole number; None for what is none, or above 2**53, where Redis does not count exactly. A score may be inf."""
    try:
        number = float(raw)
    except ValueError:
        return None
    return int(number) if abs(number) < 2**53 else None


def _outcome(reply: Any) -> JobOutcome | None:
    if reply is None:
        return None
    status, result, error = (*reply, None, None)[:3]
    return JobOutcome(JobStatus(status.decode()), raw(result), raw(error))


def _counts(reply: list[Any]) -> Counts:
    oldest, by_operator, by_file, most = reply[9:13]
    lengths, lost = map(number, reply[:9]), number(reply[13])
    oldest_wait_ms, max_length = (None if each is None else number(each) for each in (oldest, most))
    values: list[Any] = [*lengths, oldest_wait_ms, bool(by_operator), bool(by_file), max_length, lost]
    return Counts(*values)
