"""
One claimed job, until it is settled or its lease is lost, and the reasons to kill its child.
"""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass

from fusiond.worker.runtime.wire import JobReport

#: bytes at the end of what an attempt has printed that Redis gets if it fails
TAIL = 32768
#: boot ns; the expiry of a job that never expires
NEVER = 1 << 63


class KillReason(enum.Enum):
    """Why a child is killed, which decides what its death means for the job that it had begun."""

    TIMEOUT = "hard timeout"
    CANCELED = "canceled"
    LOST = "lease lost"
    SHUTDOWN = "shutdown"
    PROTOCOL_ERROR = "broken protocol"
    SERVER = "fork server hung"
    BLOCKED_BY_JOB = "it kept the other jobs of its process from running"
    LOOP_STUCK = "its process ran none of its jobs any more"


@dataclass(slots=True, eq=False)
class Attempt:
    """One claimed job, until it is settled or its lease is lost; above each group of fields, who writes them."""

    # -- its claim: claims/lane.py, or claims/reservations.py if a wake-up has brought it ------------------------------

    queue: str
    id: bytes
    token: str
    task: bytes
    #: raw JSON, unread
    args: bytes
    header: bytes
    #: this attempt's number, and what went before it
    attempts: int
    crashes: int
    rescues: int
    #: boot ns until when the lease is trusted; claims/leases.py renews it
    lease: int
    #: monotonic ns
    claimed: int
    #: ms from when its job became ready to its claim
    waited_ms: int = 0
    #: boot ns; not begun by then, its job expires
    expires: int = NEVER

    # -- what Redis says of it later: claims/leases.py -----------------------------------------------------------------

    #: its lease belongs to another dispatcher, or to none: this one may not settle it
    lost: bool = False
    #: its job was canceled while it ran
    canceled: bool = False
    #: Redis has stored the permit that it may begin
    permitted: bool = False

    # -- what it waits for: dispatcher/waiting.py ----------------------------------------------------------------------

    #: its job may begin once only: Redis must store a permit before it is handed to a child
    once: bool = False
    #: boot ns until when it holds its slots of pools, which claims/pool_slots.py renews; 0: it has none
    slots_until: int = 0

    # -- it is handed to a child: job_assigner.py ----------------------------------------------------------------------

    #: monotonic ns
    handed_at: int = 0
    #: both in seconds, as of then
    expected_seconds: float = 0.0
    hard_timeout: float = 0.0
    #: no other job may run in its child, which would count a crash for it if it ended the child
    alone: bool = False
    #: of the configuration as of then; from which release its code came, "": nothing tells
    generation: int | None = None
    release: str = ""

    # -- it runs: slots.py, and output_keeper.py what it prints --------------------------------------------------------

    #: monotonic ns: when this process saw that it had begun; when its child, which has other jobs too, was told to stop
    #: it. 0: not yet
    began: int = 0
    stopped: int = 0
    #: how far it is, as it has said last; None: it has not
    report: JobReport | None = None
    #: at least the last TAIL bytes that it has printed; the bytes that files have taken of its output
    output_tail: bytearray | None = None
    kept_bytes: int = 0

    # -- it ends: ends/attempt_settler.py, or children.py if its child has died ----------------------------------------

    #: s; how long it ran; None: it has not ended, or had not begun
    ran: float | None = None
    #: CPU seconds, and bytes of memory at the peak of its process; None: not known
    cpu: float | None = None
    peak: int | None = None
    #: s; how long its job had waited until it began, if that is counted: ends/outcomes.py
    waited: float = 0.0
    #: the word that marks its log lines, "" if there is none; None: not looked up yet: ends/job_log.py
    log_tag: str | None = None

    @property
    def name(self) -> str:
        """Its id as text, whatever bytes it has."""
        return self.id.decode(errors="backslashreplace")

    def waited_until_begun(self) -> float:
        """Seconds from when its job became ready until it began; it has ended just now."""
        here = (time.monotonic_ns() - self.claimed) / 1e9
        return max(0.0, self.waited_ms / 1000 + here - (self.ran or 0.0))

    def kill_reason(self, now: int, ran: float) -> KillReason | None:
        """Why the child that runs it must be killed, at boot ns `now` and after `ran` seconds; None: it may go on."""
        if self.lost or self.lease <= now:
            return KillReason.LOST
        if self.canceled:
            return KillReason.CANCELED
        return KillReason.TIMEOUT if ran > self.hard_timeout else None
