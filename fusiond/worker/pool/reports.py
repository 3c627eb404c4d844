"""
What a fork server's handle reports to its pool, and what a pool reports to its dispatcher. Values only.

An attempt that ran to its end is no report but a call: to make and to match a value costs 2 µs, a tenth of a quick job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fusiond.worker.pool.attempt import Attempt, KillReason

    #: task → [code, message] of what does not load
    Problems = Mapping[str, list[str]]

# -- of a fork server's handle -----------------------------------------------------------------------------------------


class Ready(NamedTuple):
    """The fork server has tried to load every task."""

    problems: Problems
    #: how many tasks load
    loaded: int


class NotForked(NamedTuple):
    """The kernel gave no process for the slot's child."""

    slot: int
    reason: str


class Died(NamedTuple):
    """The slot's child is dead and reaped."""

    slot: int
    #: as os.waitstatus_to_exitcode gives it
    status: int


class Silent(NamedTuple):
    """The fork server has not answered for a moment; or, if `silent` is false, it answers again."""

    silent: bool


class Lost(NamedTuple):
    """The fork server takes no requests any more. The report of its death follows."""

    #: it is killed because it does not answer
    hung: bool


class NotEnded(NamedTuple):
    """The fork server was killed some time ago, and the kernel has not ended it."""


class ServerDied(NamedTuple):
    """The fork server is dead and reaped."""

    #: how, in words
    reason: str
    #: by SIGKILL, so not by a fault of its own
    killed: bool
    #: pids below it that were killed and have not ended; all others have
    survivors: set[int]


ServerReport = Ready | NotForked | Died | Silent | Lost | NotEnded | ServerDied

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


class NotLoaded(NamedTuple):
    """The attempt's child could not load the task's function."""

    attempt: Attempt
    #: the error as JSON
    error: bytes


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


PoolReport = Room | NotBegun | Killed | Unheard | NotLoaded | TasksLoaded | StartFailed | Late
