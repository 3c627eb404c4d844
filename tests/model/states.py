"""
The states of claim, renew, settle and rescue: Redis, the dispatchers with their children, and what is on its way.

Everything is a tuple, so that two states are the same if all in them is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

#: ticks
LEASE, TRUST = 3, 2
#: ticks; a job that a wake-up brings so late, or later, does not begin
LATE = 1
MAX_ATTEMPTS, MAX_RESCUES = 2, 1

#: of a job; NEW is one that its producer is about to enqueue, TAKEN one that a claim in two steps has between them
NEW = "new"
QUEUED, TAKEN, STARTED, FINISHED, FAILED = "queued", "taken", "started", "finished", "failed"
ENDED = (FINISHED, FAILED)
#: of a dispatcher; CUT: it has no word from Redis, and Redis none from it
UP, FROZEN, CUT, DEAD = "up", "frozen", "cut", "dead"
#: of a child; with nothing to do it is NONE
NONE, HANDED, BEGUN, DONE, ERROR = "", "handed", "begun", "done", "error"
#: of a request that is waited for: on its way, lost (or its reply is), the reply has come to who is frozen
SENT, LOST, TOLD = "sent", "lost", "told"


@dataclass(frozen=True)
class Rules:
    """The protections; each can be taken out."""

    #: a settle counts only with the token of the attempt that holds the job
    fence: bool = True
    #: a claim that is asked again with the same nonce gives the same job again, and no other
    nonce: bool = True
    #: a lease is renewed while its job runs
    renewal: bool = True
    #: a dispatcher gives up what it cannot renew while the lease still holds
    margin: bool = True
    #: a child looks at its lease's deadline before it begins
    deadline: bool = True
    #: a rescue takes only what has expired
    expiry: bool = True
    #: what has expired is rescued
    rescue: bool = True
    #: a claim writes the lease in the same step that takes the job from the queue
    atomic: bool = True
    #: a token is random, not counted by Redis
    random: bool = True
    #: a job is settled after it has run
    order: bool = True
    #: a job is released after its child has died
    death: bool = True
    #: a settle that is asked again is told that it was done
    receipt: bool = True
    #: a job that a wake-up has brought late is given back
    age: bool = True
    #: a dispatcher asks what it was given, in case the wake-up was lost
    ask: bool = True


@dataclass(frozen=True)
class Scope:
    """How much there is of everything."""

    dispatchers: int = 2
    jobs: int = 1
    #: requests or replies that may be lost
    losses: int = 0
    #: faults that may happen, each of one of these kinds
    faults: int = 0
    kinds: tuple[str, ...] = ("crash", "freeze", "cut", "late")
    #: jobs are enqueued while dispatchers may be waiting for them
    wakes: bool = False


class Job(NamedTuple):
    """A job in Redis."""

    status: str = QUEUED
    #: of the attempt that holds it; 0: none does
    token: int = 0
    #: ticks left
    lease: int = 0
    last_token: int = 0
    attempts: int = 0
    rescues: int = 0
    #: the dispatcher whose claim this attempt is; no verb looks at it, a promise does
    holder: int = -1


class Redis(NamedTuple):
    """All that is in Redis."""

    jobs: tuple[Job, ...]
    #: of each dispatcher, the last claim that got a job, or was asked again: nonce, job or -1, token
    claims: tuple[tuple[int, int, int] | None, ...]
    #: tokens given so far, where they are counted
    count: int = 0
    #: who waits for a wake-up, and under which token it may bring a job
    parked: tuple[int, int] | None = None


class Claim(NamedTuple):
    """A request: a job, please."""

    dispatcher: int
    nonce: int
    #: it says that it was asked before
    again: bool = False


class Renew(NamedTuple):
    """A request: a new lease."""

    dispatcher: int
    job: int
    token: int


class Settle(NamedTuple):
    """A request: this attempt has ended."""

    dispatcher: int
    job: int
    token: int
    #: finished · retry · released
    outcome: str
    #: how far the child was when it was sent; no verb looks at it, a promise does
    child: str


Request = Claim | Renew | Settle
#: to a claim: job and token, or nothing; to a renewal: 1 held, 0 lost; to a settle: 1 settled, 2 before, 0 fenced
Answer = tuple[int, int] | int | None


class Asked(NamedTuple):
    """A claim or settle whose sender waits for the reply."""

    request: Claim | Settle
    stage: str = SENT
    answer: Answer = None
    #: ticks since it was sent
    age: int = 0
    #: it was sent before
    again: bool = False


class Dispatcher(NamedTuple):
    """A dispatcher, and the one child that it has."""

    life: str = UP
    #: the claim or settle without a reply that has been heard
    asked: Asked | None = None
    #: job and token
    held: tuple[int, int] | None = None
    #: ticks for which the lease is trusted; the child reads the same clock
    trust: int = 0
    child: str = NONE
    #: job and token that a wake-up has brought and of which it has not heard yet, and the ticks since
    message: tuple[int, int, int] | None = None


class State(NamedTuple):
    """All there is at one moment."""

    redis: Redis
    dispatchers: tuple[Dispatcher, ...]
    #: requests on their way that nobody waits for, in no order
    late: tuple[Request, ...] = ()
    #: the kinds of the faults that have happened, in order of the alphabet
    faults: tuple[str, ...] = ()
    #: that may still happen
    losses: int = 0
    #: what is in Redis' file, if that is older
    saved: Redis | None = None


class Step(NamedTuple):
    """What happens from one state to the next."""

    #: a dispatcher's number; -1: none's
    who: int
    what: str
    #: what Redis has just done, and answered
    request: Request | None = None
    answer: Answer = None


Next = Iterator[tuple[Step, State]]
