"""
The states of limits: jobs of keys that few may run of at once, in a queue that may have a limit, too.

Everything is a tuple, so that two states are the same if all in them is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

#: of a job; LATER: it is to be tried again
NEW, QUEUED, HELD, STARTED, LATER, ENDED = "new", "queued", "held", "started", "later", "ended"
#: of its expiry: there is none any more, it is to come, it is over
NEVER, TO_COME, OVER = 0, 1, 2


@dataclass(frozen=True)
class Guards:
    """The protections; each can be taken out."""

    #: a claim that begins a job takes a place
    taken: bool = True
    #: an attempt that ends gives its place back
    given_back: bool = True
    #: a lease that has expired does so, too
    rescued: bool = True
    #: a place that is free gives a held job its turn
    passed_on: bool = True
    #: a job that leaves the row before it has used its turn passes it on
    withdrawn: bool = True
    #: the turn is that of the best held job
    best: bool = True
    #: a job gets its turn at the place that it had in the row
    old_place: bool = True
    #: a settle counts only with the token of the attempt that has the place
    fenced: bool = True
    #: a claim counts what runs in the queue
    counted: bool = True
    #: who waits is woken by a place that is free
    woken: bool = True
    #: a reload of the limit has the next claim look at held jobs
    looked_at: bool = True


@dataclass(frozen=True)
class Bounds:
    """How much there is of everything."""

    #: the key of each job
    keys: str = "aaa"
    #: jobs of a key that may run at once; and after a reload; 0: there is none
    most: int = 1
    raised: int = 0
    #: jobs that may run at once in the queue
    of_queue: int = 9
    #: leases that may expire, settles whose reply may be lost
    faults: int = 0
    losses: int = 0
    rollback: bool = False
    #: whether jobs are canceled and requeued, whether the last one may expire
    operator: bool = False
    expiry: bool = False


class LimitedJob(NamedTuple):
    """A job in Redis."""

    status: str = NEW
    #: of the attempt that runs; 0: none does
    token: int = 0
    #: in the row; the first is 1
    place: int = 0
    #: it was held, and is in the row for its turn
    has_turn: bool = False
    cancel: bool = False
    lapsed: bool = False
    expiry: int = NEVER


class LimitedQueue(NamedTuple):
    """All that is in Redis."""

    jobs: tuple[LimitedJob, ...]
    most: int
    #: job and token of each place that is taken
    places: frozenset[tuple[int, int]] = frozenset()
    #: held jobs are to be looked at, whatever is free
    again: bool = False
    #: a dispatcher is noted as waiting, and nobody has woken it since
    waits: bool = False


class Moment(NamedTuple):
    """All there is at one moment."""

    queue: LimitedQueue
    #: attempts whose settle may still arrive, job and token each
    open: frozenset[tuple[int, int]] = frozenset()
    faults: int = 0
    losses: int = 0
    saved: LimitedQueue | None = None
    rolled_back: bool = False
