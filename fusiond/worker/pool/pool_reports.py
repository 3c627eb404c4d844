"""
What a fork server's handle reports to its group's fork servers, and what a pool reports to its dispatcher. Values only.

An attempt that ran to its end is no report but a call: to make and to match a value costs 2 µs, a tenth of a quick job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fusiond.worker.pool.attempt import Attempt, KillReason

    #: task → [code, message] of what does not load
    Problems = Mapping[str, list[str]]

# -- of a fork server's handle -----------------------------------------------------------------------------------------


class Ready(NamedTuple):
    """The fork server has tried to load every task."""

    problems: Problems
    #: how many tasks load
    loaded: int


class Died(NamedTuple):
    """The slot's child is dead and reaped, or was never forked."""

    slot: int
    #: as os.waitstatus_to_exitcode gives it
    status: int
    #: why the kernel gave no process for it; "" where it did
    unforked: str


class Silent(NamedTuple):
    """The fork server has not answered for a moment; or, if `silent` is false, it answers again."""

    silent: bool


class Lost(NamedTuple):
    """The fork server takes no requests any more. The report of its death follows."""

    #: it is killed because it does not answer
    hung: bool


class ServerDied(NamedTuple):
    """The fork server is dead and reaped."""

    #: how, in words
    reason: str
    #: by SIGKILL, so not by a fault of its own
    killed: bool
    #: pids below it that were killed and have not ended; all others have
    survivors: Collection[int]


class Survivors(NamedTuple):
    """Some of the survivors may have ended."""

    #: pids of this process' own children that were killed and have not ended
    left: Collection[int]
    #: pid → status of those that were reaped just now, as os.waitstatus_to_exitcode gives it
    reaped: Mapping[int, int]


ServerReport = Ready | Died | Silent | Lost | ServerDied | Survivors

# -- of a pool --------------------------------------------------------------------------------------------------------


class Room(NamedTuple):
    """A child may take more jobs."""


class NotBegun(NamedTuple):
    """These attempts were handed out and never begun."""

    attempts: list[Attempt]


class Killed(NamedTuple):
    """The attempt's child died while it ran the attempt."""

    attempt: Attempt
    #: why this side killed the child; None: it died of itself
    reason: KillReason | None
    status: int


class Unheard(NamedTuple):
    """The attempt ran, and its child died of another one before it said how the attempt had ended."""

    attempt: Attempt


class TasksLoaded(NamedTuple):
    """
    The fork server has tried every task, and the first children serve or do not; or another one that loads more has
    taken its place. Where nothing loads there are no children.
    """

    problems: Problems


class StartFailed(NamedTuple):
    """The fork server could not be started, or died before it was ready."""

    reason: str


class Late(NamedTuple):
    """This process did not run for a while, so that what it knows of its leases is old."""


PoolReport = Room | NotBegun | Killed | Unheard | TasksLoaded | StartFailed | Late
