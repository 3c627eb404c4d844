"""
Look-ups: one job, pages of jobs, counts, what is broken. None of them changes anything.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fusiond.broker.call import Call, plain, scripted
from fusiond.broker.keys import BAND
from fusiond.broker.records import Broken, Counts, JobOutcome
from fusiond.job import JobRecord, JobStatus

if TYPE_CHECKING:
    from fusiond.broker.keys import Keys


class LookUps:
    """Verbs that only read."""

    __slots__ = ()
    keys: Keys

    def job(self, queue: str, id: str) -> Call[JobRecord | None]:  # noqa: A002
        """All that is known of a job; None: there is none, or it was dropped after its ttl."""

        def parse(reply: Any) -> JobRecord | None:
            return None if reply is None else _record(queue, id, reply[0].decode(), reply[1], reply[2])

        return scripted("job", self.keys.root(queue), (id,), parse)

    def jobs(self, queue: str, status: JobStatus, *, start: int = 0, count: int = 100) -> Call[list[JobRecord]]:
        """A page of the jobs of one status: waiting and running ones in their order, ended ones newest first."""

        def parse(reply: Any) -> list[JobRecord]:
            parts = iter(reply)
            return [_record(queue, id.decode(), status, *rest) for id, *rest in zip(parts, parts, parts, strict=True)]  # noqa: A001

        return scripted("jobs", self.keys.root(queue), (status, start, count), parse)

    def outcome(self, queue: str, id: str) -> Call[JobOutcome | None]:  # noqa: A002
        """The job's status and, if it has ended, its result or error; little, since producers ask again and again."""
        return scripted("outcome", self.keys.root(queue), (id,), _outcome)

    def counts(self, queue: str) -> Call[Counts]:
        """How many jobs the queue holds, by status."""
        return scripted("counts", self.keys.root(queue), (), _counts)

    def queues(self) -> Call[list[str]]:
        """The names of all queues that were ever declared."""
        return plain(lambda names: sorted(name.decode() for name in names), "SMEMBERS", self.keys.queues)

    def broken(self, queue: str, *, start: int = 0, count: int = 100) -> Call[list[Broken]]:
        """The bodies that could not be read, newest first."""
        return plain(
            lambda entries: [_broken(entry) for entry in entries],
            "LRANGE",
            self.keys.of(queue, "broken"),
            start,
            start + count - 1,
        )


def _record(queue: str, id: str, status: str, place: bytes, flat: list[bytes]) -> JobRecord:  # noqa: A002
    fields = {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
    header = json.loads(fields.get("header", b"{}"))
    score = place if status == JobStatus.QUEUED else fields.get("score")
    return JobRecord(
        queue=queue,
        id=id,
        status=JobStatus(status),
        task=fields.get("task", b"").decode(errors="replace"),
        args=fields.get("args", b""),
        priority=None if score is None else 255 - int(float(score)) // BAND,
        due_at=int(float(place)) if status == JobStatus.SCHEDULED else None,
        **{name: int(fields[name]) for name in _NUMBERS if name in fields},
        last_outcome=fields.get("last_outcome", b"").decode(),
        result=fields.get("result"),
        error=fields.get("error"),
        key=header.get("key", ""),
        log_tag=header.get("log_tag", ""),
        meta=json.dumps(header["meta"]).encode() if "meta" in header else None,
    )


_NUMBERS = ("created_at", "started_at", "ended_at", "expires_at", "attempts", "crashes", "rescues")


def _outcome(reply: Any) -> JobOutcome | None:
    if reply is None:
        return None
    status, result, error = (*reply, None, None)[:3]
    return JobOutcome(JobStatus(status.decode()), result, error)


def _counts(reply: list[int]) -> Counts:
    deferred, scheduled, queued, started, finished, failed, canceled, inbox, broken, oldest, *conf = reply
    by_operator, by_file, max_length = conf
    return Counts(
        deferred=deferred,
        scheduled=scheduled,
        queued=queued,
        started=started,
        finished=finished,
        failed=failed,
        canceled=canceled,
        inbox=inbox,
        broken=broken,
        oldest_wait_ms=None if oldest < 0 else oldest,
        suspended_by_operator=bool(by_operator),
        suspended_by_file=bool(by_file),
        max_length=None if max_length < 0 else max_length,
    )


def _broken(entry: bytes) -> Broken:
    head, _, raw = entry.partition(b"\n")
    at, _, reason = head.partition(b" ")
    return Broken(int(at), reason.decode(errors="replace"), raw)
