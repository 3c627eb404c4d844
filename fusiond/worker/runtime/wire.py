"""
What dispatcher and child share: frames on their socket, and one page of memory.

A frame is its kind, one byte, the length of its body, and the body. A body of JOBS or OUTCOMES is many records, each a
fixed head and the bytes that it counts. Arguments and results are JSON that only the child reads.

The page says what no message could say in time: which job has begun, and until when a job may begin. Both sides write
without a system call, each its own words.

    word 0      serial of the job begun last                             (child)
    word 1      monotonic ns when it began, written before word 0        (child)
    word 2      pid of the child, once it serves                         (child)
    word 8…     of serial s at 8 + s % RING: boot ns until when it may begin, 0 once it is taken back (dispatcher)

A child marks a job as begun and then reads whether it still may; the dispatcher takes a job back and looks at the mark
only after a moment. So one of them sees the other, and a job that was taken back never runs.

Until when a job may begin is told by CLOCK_BOOTTIME, which goes on while the host is suspended, as the clock of Redis
does. How long a job has run is told by the monotonic clock, which stands still then, as the job does.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections import namedtuple

TYPE_CHECKING = False  # of typing, which a fork server does without: half a megabyte that each child would copy
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TABLE, JOBS, OUTCOMES = b"T", b"J", b"O"

_FRAME = struct.Struct("<cI")
_JOB = struct.Struct("<QIHHII")
_OUTCOME = struct.Struct("<QBBdI")
#: the head of a frame and of its only job, or outcome, together
_ONE_JOB = struct.Struct("<cIQIHHII")
_ONE_OUTCOME = struct.Struct("<cIQBBdI")

#: bytes; a longer frame is a broken or hostile peer
MAX_FRAME = 64 << 20
#: bytes of one outcome's JSON, likewise
MAX_PAYLOAD = 1 << 20

#: bytes of JSON; a longer result fails its job
MAX_RESULT = 1 << 20
FINISHED, FAILED, RETURNED, UNLOADED = 0, 1, 2, 3

RING = 256
_FIRST = 8
PAGE_BYTES = 4096


#: read for each job that begins, so without a look-up in `time`, or a call of `boot_ns`, each time
_clock, _BOOT = time.clock_gettime_ns, time.CLOCK_BOOTTIME


def boot_ns() -> int:
    """Nanoseconds since the host was started, those of its suspension included: what leases are measured by."""
    return _clock(_BOOT)


class WireError(Exception):
    """The peer does not keep to the protocol; nothing more that it says can be trusted."""


class JobMessage(namedtuple("JobMessage", "serial attempt id task header args")):
    """
    One job on its way to a child.

    id and task are bytes; header is raw JSON of what only some jobs have (key, meta, timeout), or nothing; args is raw
    JSON, `[args, kwargs]` or an object that has both.
    """

    __slots__ = ()


class OutcomeMessage(namedtuple("OutcomeMessage", "serial kind retry duration payload")):
    """
    How a job ended in its child.

    kind is FINISHED, FAILED, RETURNED when it was not begun, or UNLOADED when its function does not load; retry, of a
    failure, whether the policy's exception names allow another attempt; duration in seconds; payload is raw JSON, the
    result or the error.
    """

    __slots__ = ()


def frame(kind: bytes, body: bytes) -> bytes:
    """One frame, ready to send."""
    return _FRAME.pack(kind, len(body)) + body


def jobs_frame(jobs: Iterable[JobMessage]) -> bytes:
    """The JOBS frame of these jobs, in this order."""
    parts: list[bytes] = []
    pack = _JOB.pack
    for serial, attempt, id_, task, header, args in jobs:
        parts += (pack(serial, attempt, len(id_), len(task), len(header), len(args)), id_, task, header, args)
    return frame(JOBS, b"".join(parts))


def outcomes_frame(outcomes: Iterable[OutcomeMessage]) -> bytes:
    """The OUTCOMES frame of these outcomes, in this order."""
    parts: list[bytes] = []
    pack = _OUTCOME.pack
    for serial, kind, retry, duration, payload in outcomes:
        parts += (pack(serial, kind, retry, duration, len(payload)), payload)
    return frame(OUTCOMES, b"".join(parts))


def read_jobs(body: bytes) -> list[JobMessage]:
    """The jobs of a JOBS body. Raises WireError."""
    jobs = []
    at, end, size = 0, len(body), _JOB.size
    while at < end:
        if at + size > end:
            raise WireError("a job's head is cut off")
        serial, attempt, ids, tasks, headers, argses = _JOB.unpack_from(body, at)
        id_ = at + size
        task = id_ + ids
        header = task + tasks
        args = header + headers
        at = args + argses
        if at > end:
            raise WireError("a job is longer than its frame")
        jobs.append(JobMessage(serial, attempt, body[id_:task], body[task:header], body[header:args], body[args:at]))
    return jobs


def read_one_job(data: bytes) -> tuple[int, int, bytes, bytes, bytes, bytes] | None:
    """
    The job of a frame that has just one; None: the data is something else than that whole frame.

    JobMessage's fields as a plain tuple, for a one-job child: what that class needs besides would be copied for it.
    """
    if len(data) < _ONE_JOB.size:
        return None
    kind, length, serial, attempt, ids, tasks, headers, argses = _ONE_JOB.unpack_from(data)
    task = _ONE_JOB.size + ids
    header = task + tasks
    args = header + headers
    end = args + argses
    if kind != JOBS or len(data) != end or length != end - _FRAME.size:
        return None
    return serial, attempt, data[_ONE_JOB.size : task], data[task:header], data[header:args], data[args:]


def one_outcome_frame(serial: int, kind: int, retry: bool, duration: float, payload: bytes) -> bytes:
    """The OUTCOMES frame of one outcome."""
    size = len(payload)
    length = _ONE_OUTCOME.size - _FRAME.size + size
    return _ONE_OUTCOME.pack(OUTCOMES, length, serial, kind, retry, duration, size) + payload


def read_outcomes(body: bytes) -> Iterator[OutcomeMessage]:
    """The outcomes of an OUTCOMES body. Raises WireError."""
    at, end, size = 0, len(body), _OUTCOME.size
    unpack = _OUTCOME.unpack_from
    while at < end:
        try:
            serial, kind, retry, duration, length = unpack(body, at)
        except struct.error:
            raise WireError("an outcome's head is cut off") from None
        at += size
        if kind > UNLOADED or at + length > end or length > MAX_PAYLOAD or not 0.0 <= duration < 1e9:
            raise WireError("an outcome is of no known kind or duration, or longer than allowed")
        yield OutcomeMessage(serial, kind, bool(retry), duration, body[at : at + length])
        at += length


def cut(buffer: bytes | bytearray, at: int) -> tuple[bytes, int, int] | None:
    """Kind, start and end of the body of the frame at `at`; None: it is not whole yet. Raises WireError."""
    start = at + _FRAME.size
    if len(buffer) < start:
        return None
    kind, length = _FRAME.unpack_from(buffer, at)
    if length > MAX_FRAME:
        raise WireError(f"a frame of {length} bytes is above {MAX_FRAME}")
    return None if len(buffer) < start + length else (kind, start, start + length)


class Page:
    """The page of one slot, mapped by the dispatcher and by the slot's child."""

    __slots__ = ("_map", "words")

    def __init__(self, fd: int = -1) -> None:
        """Map the page behind `fd`, a file of PAGE_BYTES, which may be closed afterwards; -1: memory without a file."""
        self._map = mmap.mmap(fd, PAGE_BYTES)
        # Native 8-byte words: each load and store is one instruction, so neither side reads half a number.
        self.words = memoryview(self._map).cast("Q")

    @property
    def pid(self) -> int:
        """Of the slot's child, as that one says; 0: it has not said yet."""
        return self.words[2]

    @pid.setter
    def pid(self, pid: int) -> None:
        self.words[2] = pid

    def begin(self, serial: int, now_ns: int) -> bool:
        """The child marks a job as begun at monotonic ns; False: it was taken back or is late, and must not run."""
        words = self.words
        words[1] = now_ns
        words[0] = serial
        # Read behind the mark: whoever is frozen before it finds out here that it is late.
        return _clock(_BOOT) < words[_FIRST + serial % RING]

    def allow(self, serial: int, until_ns: int) -> None:
        """The dispatcher lets a job begin until then, in boot ns; 0 takes it back."""
        self.words[_FIRST + serial % RING] = until_ns

    @property
    def begun(self) -> int:
        """Serial of the job that was begun last, or taken up and found taken back."""
        return self.words[0]

    @property
    def begun_at(self) -> int:
        """Monotonic ns when it was begun."""
        return self.words[1]

    def close(self) -> None:
        """Unmap."""
        self.words.release()
        self._map.close()
