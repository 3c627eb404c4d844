"""
The reports of a fork server's handle to ForkServers, and those of a pool to its dispatcher. Values only.

For an attempt that ran to its end a function is called instead: a report costs 2 µs, a tenth of a quick job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

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
    #: why the kernel could not make a process for it; "" if it could
    unforked: str = ""
    #: CPU seconds, and bytes of memory at the peak
    used: tuple[float, int] = (0.0, 0)


class Left(NamedTuple):
    """A dead child has left processes, which were killed."""

    #: the child's; -1: it is not known
    slot: int
    #: program and pid of each
    names: str


class Silent(NamedTuple):
    """The fork server has not answered for some seconds; or, if `silent` is false, it answers again."""

    silent: bool


class Lost(NamedTuple):
    """The fork server takes no requests any more. The report of its death follows."""

    #: it does not answer, and is killed for that
    hung: bool


class ServerDied(NamedTuple):
    """The fork server is dead and reaped."""

    #: a sentence that says how
    reason: str
    #: by SIGKILL, so that it is not the fault of the file or of the tasks
    killed: bool
    #: pids below it that were killed and have not ended; all others below it have ended
    survivors: Collection[int]


class Survivors(NamedTuple):
    """Some of the survivors may have ended."""

    #: pids of this process' own children that were killed and have not ended
    left: Collection[int]
    #: pid → status of those that were reaped just now, as os.waitstatus_to_exitcode gives it
    reaped: Mapping[int, int]


ServerReport = Ready | Died | Left | Silent | Lost | ServerDied | Survivors

# -- of a pool --------------------------------------------------------------------------------------------------------


class Room(NamedTuple):
    """A child may take more jobs."""


class NotBegun(NamedTuple):
    """These attempts were handed out and never begun."""

    attempts: list[Attempt]


class Killed(NamedTuple):
    """The attempt's child died while it ran the attempt."""

    attempt: Attempt
    #: why the pool killed the child; None: it did not
    reason: KillReason | None
    status: int


class Unheard(NamedTuple):
    """The attempt ran, but another attempt's death ended its child before the child could report how it went."""

    attempt: Attempt


class TasksLoaded(NamedTuple):
    """
    The fork server has tried to load every task, and it is known whether the first children serve; or a fork server
    that loads more tasks has replaced it. If no task loads there are no children.
    """

    problems: Problems


class StartFailed(NamedTuple):
    """The fork server could not be started, or died before it was ready."""

    reason: str


class Late(NamedTuple):
    """This process did not run for a while: what it knows about its leases is out of date."""


PoolReport = Room | NotBegun | Killed | Unheard | TasksLoaded | StartFailed | Late
