"""
What dispatcher and child share: frames on their socket, and one page of memory.

A frame is its kind, one byte, the length of its body, and the body. A body of JOBS or OUTCOMES is many records, each a
fixed head and the bytes that it counts; one of LONE is a single record of JOBS. Arguments and results are JSON that
only the child reads.

The page says what no message could say in time: which job has begun, and until when a job may begin. Both sides write
without a system call, each its own words.

    word 0      serial of the job begun last                             (child)
    word 1      monotonic ns when it began, written before word 0        (child)
    word 2      pid of the child, once it serves                         (child)
    word 3      serial of the job that keeps the event loop from running; 0: none is known to (child)
    word 4      monotonic ns when the event loop has run last, while there are jobs (child)
    word 5      bytes of the outcomes that are kept                      (child)
    word 6      how often kept outcomes were forgotten                   (child)
    word 8…     of serial s at 8 + s % ring: boot ns until when it may begin, 0 once it is taken back (dispatcher)
    behind it   outcomes that the child has not sent, where it runs many jobs in a row (child)
    at the end  cells, one for each job that it runs at once: how far the job is, in its own words (child)

A child begins its jobs in the order of their serials, also where it runs many at once (words 3 and 4 are of that one).
The ring has room for all jobs that a child may have and not have begun.

A child that runs many jobs in a row sends its outcomes together, and keeps each on the page until then. There the
dispatcher finds them if a job turns out to be long, or ends the child. A signal that had the child send them would
interrupt system calls of the job. What the dispatcher has read from the page may arrive on the socket, too.

A child marks a job as begun and then reads whether it still may; the dispatcher takes a job back and looks at the mark
only after a moment. So one of them sees the other, and a job that was taken back never runs.

Until when a job may begin is told by CLOCK_BOOTTIME, which goes on while the host is suspended, as the clock of Redis
does. How long a job has run is told by the monotonic clock, which stands still then, as the job does.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import struct
import time
from collections import namedtuple

TYPE_CHECKING = False  # of typing, which a fork server does without: half a megabyte that each child would copy
if TYPE_CHECKING:
    import ctypes
    import mmap
    from collections.abc import Iterable, Iterator

    #: the fields of a JobMessage, in their order
    JobFields = tuple[int, int, bytes, bytes, bytes, bytes]

#: kinds of frames. To the child: the table; jobs; the only job of a child, so that all it prints is known to be this
#: job's; the serial of a job that it is to stop
TABLE, JOBS, LONE, STOP = b"T", b"J", b"L", b"C"
#: from the child: outcomes; how far a job was at its end; its `on_start` has ended, or why it failed; it begins no more
#: jobs, and ends with its last; a one-job child takes another job once the outcome behind this frame is read
OUTCOMES, REPORT, STARTED, ENDING, ANOTHER = b"O", b"R", b"S", b"E", b"A"

_FRAME = struct.Struct("<cI")
_JOB = struct.Struct("<QIHHII")
_OUTCOME = struct.Struct("<QBBdfII")
#: the head of a frame and of its only job, or outcome, together
_ONE_JOB = struct.Struct("<cIQIHHII")
_ONE_OUTCOME = struct.Struct("<cIQBBdfII")
# What a one-job child looks up in an object has pages copied for it.
_FRAME_SIZE, _ONE_JOB_SIZE = _FRAME.size, _ONE_JOB.size
_unpack_one_job, _pack_one_outcome = _ONE_JOB.unpack_from, _ONE_OUTCOME.pack
_pack_one_job = _ONE_JOB.pack
_OUTCOME_REST = _ONE_OUTCOME.size - _FRAME.size

#: bytes; a child that sends a longer frame is broken or hostile
MAX_FRAME = 64 << 20
#: bytes of one outcome's JSON; the same holds for a longer one
MAX_PAYLOAD = 1 << 20

#: bytes of JSON; a longer result fails its job
MAX_RESULT = 1 << 20
FINISHED, FAILED, RETURNED, UNLOADED, STOPPED = 0, 1, 2, 3, 4
#: what the policy's exception names say of another attempt after a failure
GIVE_UP, RETRY, SNOOZE = 0, 1, 2

_FIRST = 8
_PAGE = 4096
_SERIAL = struct.Struct("<Q")
#: monotonic ns, serial, share, bytes of the message, the message; the ns again, unless the child was writing just then
_CELL = struct.Struct("<QQdH222sQ")
#: of a REPORT frame: serial, share; the message follows
_LAST_REPORT = struct.Struct("<Qd")


#: read for each job that begins, so without a look-up in `time`, or a call of `boot_ns`, each time
_clock, _BOOT = time.clock_gettime_ns, time.CLOCK_BOOTTIME
_monotonic_ns = time.monotonic_ns


def boot_ns() -> int:
    """Nanoseconds since the host was started, those of its suspension included: what leases are measured by."""
    return _clock(_BOOT)


class WireError(Exception):
    """The child does not keep to the protocol; nothing that it sends later can be trusted."""


class JobMessage(namedtuple("JobMessage", "serial attempt id task header args")):
    """
    One job on its way to a child.

    id and task are bytes; header is raw JSON of what only some jobs have (key, meta, timeout), or nothing; args is raw
    JSON, `[args, kwargs]` or an object that has both.
    """

    __slots__ = ()


class OutcomeMessage(namedtuple("OutcomeMessage", "serial kind follows duration payload cpu peak", defaults=(-1.0, 0))):
    """
    How a job ended in its child.

    kind is FINISHED, FAILED, RETURNED when it was not begun, UNLOADED when its function does not load, or STOPPED when
    the dispatcher has asked for that; follows, of a failure, is GIVE_UP, RETRY or SNOOZE; duration in seconds; payload
    is raw JSON, the result or the error; cpu is in seconds, -1: not known; peak in KiB, 0: not known.
    """

    __slots__ = ()


def frame(kind: bytes, body: bytes) -> bytes:
    """One frame, ready to send."""
    return _FRAME.pack(kind, len(body)) + body


def stop_frame(serial: int) -> bytes:
    """The STOP frame of this job."""
    return frame(STOP, _SERIAL.pack(serial))


def read_stop(body: bytes) -> int:
    """The serial in a STOP body."""
    return _SERIAL.unpack(body)[0]  # type: ignore[no-any-return]


def lone_frame(job: JobFields) -> bytes:
    """The LONE frame of a job, given as JobMessage's fields."""
    serial, attempt, id_, task, header, args = job
    ids, tasks, headers, argses = len(id_), len(task), len(header), len(args)
    length = _ONE_JOB_SIZE - _FRAME_SIZE + ids + tasks + headers + argses
    head = _pack_one_job(LONE, length, serial, attempt, ids, tasks, headers, argses)
    return b"".join((head, id_, task, header, args))


def jobs_frame(jobs: Iterable[JobFields]) -> bytes:
    """The JOBS frame of these jobs, in this order, each given as JobMessage's fields."""
    parts: list[bytes] = []
    pack = _JOB.pack
    for serial, attempt, id_, task, header, args in jobs:
        parts += (pack(serial, attempt, len(id_), len(task), len(header), len(args)), id_, task, header, args)
    return frame(JOBS, b"".join(parts))


def outcomes_frame(outcomes: Iterable[OutcomeMessage]) -> bytes:
    """The OUTCOMES frame of these outcomes, in this order."""
    return frame(OUTCOMES, b"".join(map(outcome_record, outcomes)))


def outcome_record(outcome: OutcomeMessage) -> bytes:
    """An outcome, as a body of OUTCOMES has many of."""
    serial, kind, follows, duration, payload, cpu, peak = outcome
    return _OUTCOME.pack(serial, kind, follows, duration, cpu, peak, len(payload)) + payload  # type: ignore[no-any-return]


def read_jobs(body: bytes) -> list[JobMessage]:
    """The jobs of a JOBS or LONE body, which the dispatcher has made."""
    jobs: list[JobMessage] = []
    at = 0
    while at < len(body):
        serial, attempt, ids, tasks, headers, argses = _JOB.unpack_from(body, at)
        id_ = at + _JOB.size
        task = id_ + ids
        header = task + tasks
        args = header + headers
        at = args + argses
        jobs.append(JobMessage(serial, attempt, body[id_:task], body[task:header], body[header:args], body[args:at]))
    return jobs


def read_one_job(data: bytes) -> JobFields | None:
    """
    The job of a LONE frame; None: the data is something else than that whole frame.

    A plain tuple, for a one-job child: what the class JobMessage needs besides would be copied for it.
    """
    if len(data) < _ONE_JOB_SIZE:
        return None
    kind, length, serial, attempt, ids, tasks, headers, argses = _unpack_one_job(data)
    task = _ONE_JOB_SIZE + ids
    header = task + tasks
    args = header + headers
    end = args + argses
    if kind != LONE or len(data) != end or length != end - _FRAME_SIZE:
        return None
    return serial, attempt, data[_ONE_JOB_SIZE:task], data[task:header], data[header:args], data[args:]


def one_outcome_frame(payload: bytes, *head: float) -> bytes:
    """The OUTCOMES frame of one outcome; `head`: serial, kind, follows, duration, cpu, peak."""
    size = len(payload)
    return _pack_one_outcome(OUTCOMES, _OUTCOME_REST + size, *head, size) + payload


def read_outcomes(body: bytes) -> Iterator[OutcomeMessage]:
    """The outcomes of an OUTCOMES body. Raises WireError."""
    at, end, size = 0, len(body), _OUTCOME.size
    unpack = _OUTCOME.unpack_from
    while at < end:
        try:
            serial, kind, follows, duration, cpu, peak, length = unpack(body, at)
        except struct.error:
            raise WireError("an outcome's head is cut off") from None
        at += size
        if kind > STOPPED or follows > SNOOZE or at + length > end or length > MAX_PAYLOAD or not 0.0 <= duration < 1e9:
            raise WireError("an outcome is of no known kind or duration, or longer than allowed")
        if not -1.0 <= cpu < 1e9:
            raise WireError("an outcome has used no possible CPU time")
        yield OutcomeMessage(serial, kind, follows, duration, body[at : at + length], cpu, peak)
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


def page_bytes(concurrency: int) -> int:
    """Bytes of the page of a child that runs so many jobs at once: a page of the kernel's, or several."""
    # A half is the ring, and the cells are in the other one.
    return -(-2 * (8 * _FIRST + _CELL.size * concurrency) // _PAGE) * _PAGE


class JobReport(namedtuple("JobReport", "at_ns serial share message")):
    """What a job says of how far it is: a share from 0 to 1, and a text of 222 bytes at most; in monotonic ns."""

    __slots__ = ()


def read_last_report(body: bytes) -> JobReport:
    """What a REPORT body says. Raises WireError."""
    size = _LAST_REPORT.size
    if not size <= len(body) <= size + 222:
        raise WireError("a report is shorter or longer than allowed")
    serial, share = _LAST_REPORT.unpack_from(body)
    if not 0.0 <= share <= 1.0:
        raise WireError("a report is of no share from 0 to 1")
    return JobReport(0, serial, share, body[size:].decode(errors="ignore"))


class Page:
    """The page of one slot, mapped by the dispatcher and by the slot's child."""

    __slots__ = ("_bytes", "_kept_at", "ring", "words")

    def __init__(self, memory: bytearray | mmap.mmap | ctypes.Array[ctypes.c_ubyte]) -> None:
        """The page in this memory, whose length is that of `page_bytes`; both sides map the same memory."""
        # Native 8-byte words: each load and store is one instruction, so neither side reads half a number.
        self.words = memoryview(memory).cast("B").cast("Q")
        #: how many jobs that have not begun it has room for
        self._bytes, self.ring = self.words.cast("B"), len(self.words) // 2
        self._kept_at = 8 * (_FIRST + self.ring)

    @property
    def pid(self) -> int:
        """The pid that the slot's child has written; 0: it does not serve yet."""
        return self.words[2]

    def begin(self, serial: int, now_ns: int) -> bool:
        """The child marks a job as begun at monotonic ns; False: it was taken back or is late, and must not run."""
        words = self.words
        words[1] = now_ns
        words[0] = serial
        # Read behind the mark: whoever is frozen before it finds out here that it is late.
        return _clock(_BOOT) < words[_FIRST + serial % self.ring]

    def allow(self, serial: int, until_ns: int) -> None:
        """The dispatcher lets a job begin until then, in boot ns; 0 takes it back."""
        self.words[_FIRST + serial % self.ring] = until_ns

    @property
    def begun(self) -> int:
        """Serial of the job that was begun last, or taken up and found taken back."""
        return self.words[0]

    @property
    def begun_at(self) -> int:
        """Monotonic ns when it was begun."""
        return self.words[1]

    @property
    def blocker(self) -> int:
        """Serial of the job that keeps the event loop of the child; 0: none is known to."""
        return self.words[3]

    @property
    def turned(self) -> int:
        """Monotonic ns when the event loop was last seen to run while there were jobs."""
        return self.words[4]

    def report(self, cell: int, serial: int, share: float, message: str) -> None:
        """The child says in one of its cells how far a job is."""
        text, now = message[:222].encode(errors="replace")[:222], _monotonic_ns()
        _CELL.pack_into(self._bytes, self._place(cell), now, serial, share, len(text), text, now)

    def read_report(self, cell: int) -> JobReport | None:
        """What a cell says; None: nothing that can be read just now. Task code may have written anything to it."""
        at, serial, share, length, text, again = _CELL.unpack_from(self._bytes, self._place(cell))
        if not at or at != again or not 0.0 <= share <= 1.0:
            return None
        return JobReport(at, serial, share, text[:length].decode(errors="ignore"))

    def last_report(self, cell: int, serial: int) -> bytes:
        """The REPORT frame of a job that has ended; empty where it has said nothing."""
        report = self.read_report(cell)
        if report is None or report.serial != serial:
            return b""
        return frame(REPORT, _LAST_REPORT.pack(serial, report.share) + report.message.encode())

    def _place(self, cell: int) -> int:
        return len(self._bytes) - (cell + 1) * _CELL.size

    def keep(self, record: bytes) -> bool:
        """The child, which has one cell, keeps an outcome that it has not sent; False: there is no room."""
        at = self._kept_at + self.words[5]
        end = at + len(record)
        if end > self._place(0):
            return False
        self._bytes[at:end] = record
        self.words[5] = end - self._kept_at
        return True

    def kept(self) -> bytes:
        """The records of the outcomes that are kept; none while they change. Task code may have written anything."""
        words = self.words
        turn, size = words[6], words[5]
        records = bytes(self._bytes[self._kept_at : min(self._kept_at + size, self._place(0))])
        return records if words[6] == turn else b""

    def forget_kept(self) -> None:
        """The child has sent them. Whoever reads them meanwhile compares the count afterwards."""
        self.words[5] = 0
        self.words[6] += 1

    def reset(self, serial: int) -> None:
        """A new child is forked, and has begun nothing: an earlier one may have left any number."""
        self.words[2] = self.words[3] = self.words[4] = self.words[5] = 0
        self.words[0] = serial

    def close(self) -> None:
        """Unmap: nothing else refers to the memory."""
        self._bytes.release()
        self.words.release()
