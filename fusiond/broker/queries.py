"""
Look-ups: one job, pages of jobs, counts, what is broken. None of them changes anything.

Whoever can write to Redis can put anything there by hand: what cannot be read of it is left out and named, and never
raises.
"""

from __future__ import annotations

import json
import math
from typing import Any

from fusiond.broker.call import Call, decoded, plain, raw, scripted
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


def _record(queue: str, id: str, status: str, place: bytes, flat: list[bytes]) -> JobRecord:  # noqa: A002
    job = _Hash(flat)
    header = job.header()
    score = _whole(place) if status == JobStatus.QUEUED else job.score()
    return JobRecord(
        queue=queue,
        id=id,
        status=JobStatus(status),
        task=decoded(job.fields.get("task", b"")),
        args=job.fields.get("args", b""),
        priority=None if score is None else 255 - score // BAND,
        due_at=_whole(place) if status == JobStatus.SCHEDULED else None,
        **{name: number for name in _NUMBERS if (number := job.number(name)) is not None},
        last_outcome=decoded(job.fields.get("last_outcome", b"")),
        result=job.fields.get("result"),
        error=job.fields.get("error"),
        key=str(header.get("key", "")),
        log_tag=str(header.get("log_tag", "")),
        meta=json.dumps(header["meta"]).encode() if "meta" in header else None,
        broken=" ".join(job.broken),
    )


_NUMBERS = ("created_at", "started_at", "ended_at", "expires_at", "attempts", "crashes", "rescues", "interrupted")


class _Hash:
    """A job's hash, and the names of what in it cannot be read."""

    def __init__(self, flat: list[bytes]) -> None:
        self.fields = {decoded(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
        self.broken = [name for name in ("task", "args") if name not in self.fields]

    def number(self, name: str) -> int | None:
        """A whole number; None where there is none."""
        raw = self.fields.get(name)
        if raw is None:
            return None
        # Beyond 2**53 Redis itself does not count exactly, and our times and sums would overflow.
        if raw.removeprefix(b"-").isdigit() and len(raw) <= _DIGITS:
            return int(raw)
        self.broken.append(name)
        return None

    def score(self) -> int | None:
        """The place that the job had in its row."""
        raw = self.fields.get("score")
        found = None if raw is None else _whole(raw)
        if raw is not None and found is None:
            self.broken.append("score")
        return found

    def header(self) -> dict[str, Any]:
        """What travels with the job to its child."""
        raw = self.fields.get("header")
        if raw is None:
            return {}
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        self.broken.append("header")
        return {}


_DIGITS = 16


def _whole(raw: bytes) -> int | None:
    """A score as a whole number; None for what is none: a score may be infinite."""
    try:
        number = float(raw)
    except ValueError:
        return None
    return int(number) if math.isfinite(number) and abs(number) < 2**53 else None


def _outcome(reply: Any) -> JobOutcome | None:
    if reply is None:
        return None
    status, result, error = (*reply, None, None)[:3]
    return JobOutcome(JobStatus(status.decode()), raw(result), raw(error))


def _counts(reply: list[int]) -> Counts:
    deferred, scheduled, queued, started, finished, failed, canceled, inbox, broken, oldest, *conf = reply
    by_operator, by_file, max_length, lost = conf
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
        lost=lost,
    )
