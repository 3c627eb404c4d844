"""
Runs of flows in memory: their records, as Redis keeps them. What follows from a record, `fusiond/flows` works out.

1. write  the record of a run unless it has changed since, and have its jobs and the runs of its steps begin
2. end    one job of a step; the last one of a step lets its run go on
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusiond.broker.flow_records import RunWrite, StepOf
from fusiond.broker.records import NewJob, Stored
from fusiond.job import JobStatus
from fusiond.testing.recorded_jobs import RecordedJob

#: of a job that has ended → as a run counts it
_LETTERS = {JobStatus.FINISHED: "f", JobStatus.FAILED: "x", JobStatus.CANCELED: "c"}


class MemoryFlows:
    """The runs of one recorder."""

    def __init__(self, store: Callable[[str, Sequence[NewJob]], list[Stored]]) -> None:
        """`store`: stores the jobs of steps."""
        self._store = store
        #: (queue, id) → the fields of its record; (queue, id) → `<step>.<n>` → how that job ended
        self.records: dict[tuple[str, str], dict[str, bytes]] = {}
        self._ends: dict[tuple[str, str], dict[str, bytes]] = {}
        self._to_advance: list[tuple[str, str]] = []
        #: the same a second later
        self._later: list[tuple[str, str]] = []

    def flat(self, queue: str, run: str) -> list[bytes]:
        """As HGETALL replies."""
        found = self.records.get((queue, run), {})
        return [word for name, value in found.items() for word in (name.encode(), value)]

    def ends(self, queue: str, run: str, names: Sequence[str]) -> list[bytes | None]:
        """As HMGET replies."""
        return [self._ends.get((queue, run), {}).get(name) for name in names]

    def to_advance(self, queue: str) -> list[str]:
        """The runs of a queue that can go on, once."""
        found = [run for where, run in self._to_advance if where == queue]
        self._to_advance = [each for each in self._to_advance if each[0] != queue]
        return found

    def queues_to_advance(self) -> list[str]:
        """The queues with such runs."""
        return list(dict.fromkeys(queue for queue, _ in self._to_advance))

    def tick(self) -> None:
        """A second has passed."""
        self._to_advance += self._later
        self._later = []

    def write(self, queue: str, run: str, version: int | None, write: RunWrite) -> bool:
        """Whether it was written: it has that version still, or is new."""
        known = self.records.get((queue, run), {}).get("version")
        if known != (None if version is None else b"%d" % version):
            return False
        self._write_fields(queue, run, write.fields)
        for child, fields in write.runs.items():
            self._write_fields(queue, child, fields)
            self._to_advance.append((queue, child))
        self._to_advance = [each for each in self._to_advance if each != (queue, run)]
        if write.again_ms is not None:
            (self._later if write.again_ms else self._to_advance).append((queue, run))
        if write.kept_ms is not None:
            self.records[queue, run]["ended_at"] = b"%d" % (time.time_ns() // 1_000_000)
            if write.step_of:
                self.end_of_step(queue, write.step_of, *write.end)
        for target, job in write.jobs:
            self._begin(target, job)
        return True

    def on_job_end(self, job: RecordedJob) -> None:
        """A job of a step has ended."""
        queue, run, step, n, round_, keep = (job.new.flow or "").split(" ")
        if job.status is JobStatus.FINISHED:
            payload = job.raw_result or b"" if keep == "1" else b""
        else:
            error = job.error or {}
            payload = f"{error.get('code')}: {error.get('message')}"[:500].encode()
        self.end_of_step(queue, StepOf(run, step, int(n), int(round_)), _LETTERS[job.status], payload)

    def end_of_step(self, queue: str, where: StepOf, letter: str, payload: bytes) -> None:
        """As flows.lua has it."""
        record, ends = self.records.get((queue, where.run)), self._ends.setdefault((queue, where.run), {})
        name = f"{where.step}.{where.n}"
        if record is None or f"t {where.step}" not in record or int(ends.get(name, b"0").split(b" ")[0]) >= where.round:
            return
        ends[name] = b"%d %b %b" % (where.round, letter.encode(), payload)
        _add(record, f"{letter} {where.step}")
        if sum(int(record.get(f"{each} {where.step}", 0)) for each in "fxc") >= int(record[f"t {where.step}"]):
            _add(record, "version")
            self._to_advance.append((queue, where.run))

    def clear(self) -> None:
        """Forget all runs."""
        self.records.clear()
        self._ends.clear()
        self._to_advance.clear()
        self._later.clear()

    def _begin(self, target: str, job: NewJob) -> None:
        [reply] = self._store(target, [job])
        if not isinstance(reply, str) and job.flow:
            queue, run, step, n, round_, _ = job.flow.split(" ")
            why = f"CONFLICT: job {reply.id} is the same by `unique`".encode()
            self.end_of_step(queue, StepOf(run, step, int(n), int(round_)), "x", why)

    def _write_fields(self, queue: str, run: str, fields: Mapping[str, Any]) -> None:
        record = self.records.setdefault((queue, run), {"created_at": b"%d" % (time.time_ns() // 1_000_000)})
        _add(record, "version")
        record |= {name: value if isinstance(value, bytes) else str(value).encode() for name, value in fields.items()}


def _add(record: dict[str, bytes], name: str) -> None:
    record[name] = b"%d" % (int(record.get(name, 0)) + 1)
