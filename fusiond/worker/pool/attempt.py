"""
One claimed job, until it is settled or its lease is lost, and why its child may have to be killed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

#: boot ns, as of what never expires
NEVER = 1 << 63


class KillReason(enum.Enum):
    """Why a child is being killed, and so what its death means for the job that it had begun."""

    TIMEOUT = "hard timeout"
    CANCELED = "canceled"
    LOST = "lease lost"
    SHUTDOWN = "shutdown"
    HOSTILE = "broken protocol"
    SERVER = "fork server hung"


@dataclass(slots=True, eq=False)
class Attempt:
    """One claimed job, until it is settled or its lease is lost."""

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
    #: boot ns until when the lease is trusted
    lease: int
    #: monotonic ns of its claim, and of when a child was handed it
    claimed: int
    handed_at: int = 0
    #: ms from when its job became ready to its claim
    waited_ms: int = 0
    #: s; how long it had run when its child died; None: it did not die
    ran: float | None = None
    #: the word that marks its lines, "" where there is none; None: not looked up yet
    log_tag: str | None = None
    #: s; expected run time, and hard timeout, both as of when it was handed out
    cost: float = 0.0
    hard: float = 0.0
    #: boot ns; not begun by then, its job expires
    expires: int = NEVER
    #: its child has begun it, as far as was seen
    begun: bool = False
    #: its job may begin once only: Redis must store a permit before it is handed to a child
    once: bool = False
    #: Redis has stored that permit
    permitted: bool = False
    #: its job was canceled while it ran
    canceled: bool = False
    #: its lease is somebody else's, or nobody's: nothing may be settled
    lost: bool = False

    @property
    def name(self) -> str:
        """Its id as text, whatever bytes somebody has put there by hand."""
        return self.id.decode(errors="backslashreplace")

    def kill_reason(self, now: int, ran: float) -> KillReason | None:
        """Why the child that runs it must be killed, at boot ns `now` and after `ran` seconds, if it must."""
        if self.lost or self.lease <= now:
            return KillReason.LOST
        if self.canceled:
            return KillReason.CANCELED
        return KillReason.TIMEOUT if ran > self.hard else None
