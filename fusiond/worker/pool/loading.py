"""
The tasks of a group that do not load, and the attempts to load them again.

1. keep   which tasks the serving fork server could not load, and why
2. try    to load everything in a new fork server beside it; after each failure later
3. offer  the new server in place of the serving one, where it loads more

A module that failed to import is not imported again in the same process: what the first attempt left there, a
registry's entry or half a package, could make the second one fail for another reason.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from fusiond.worker.pool.reports import Ready, ServerDied
from fusiond.worker.pool.server_handle import ServerHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fusiond.worker.pool.launch import Launched
    from fusiond.worker.pool.reports import Problems, ServerReport

log = logging.getLogger(__name__)

#: s; from a failure to the next attempt: the first pause, doubled each time, and the longest
FIRST, LONGEST = 2.0, 300.0
#: tasks and characters in a sentence about what does not load
_MOST_NAMED, _MOST_WORDS = 10, 4000


def sentence(problems: Problems) -> str:
    """What keeps which tasks from running, each reason once; bounded."""
    tasks: dict[str, list[str]] = {}
    for task, (_, message) in problems.items():
        tasks.setdefault(message, []).append(task)
    reasons = [f"{message} ({_named(names)})" for message, names in tasks.items()]
    text = "; ".join(reasons)
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}…"


def _named(tasks: list[str]) -> str:
    more = f" and {len(tasks) - _MOST_NAMED} more" if len(tasks) > _MOST_NAMED else ""
    return f"task {', '.join(tasks[:_MOST_NAMED])}{more}"


class Loading:
    """Of one pool: what does not load, and the fork server that tries again."""

    def __init__(self, launch: Callable[[], Launched], on_more: Callable[[ServerHandle, Problems], None]) -> None:
        """`on_more`: takes over a new fork server that loads more than the serving one, and what it does not load."""
        self._launch, self._on_more = launch, on_more
        self._loop = asyncio.get_running_loop()
        self._problems: dict[str, list[str]] = {}
        self._pause = FIRST
        self._timer: asyncio.TimerHandle | None = None
        self._server: ServerHandle | None = None

    @property
    def problems(self) -> Problems:
        """Task → [code, message] of what the serving fork server, or its child, could not load."""
        return self._problems

    def begin(self, problems: Problems) -> None:
        """A fork server serves that does not load these."""
        self.stop()
        self._problems, self._pause = dict(problems), FIRST
        for task, (code, message) in problems.items():
            log.error("task '%s' cannot run: %s", task, message, extra={"code": code})
        self._later()

    def note(self, task: str, code: str, message: str) -> None:
        """A child could not load a task that its fork server was not told of."""
        if task not in self._problems:
            log.error("task '%s' cannot run: %s", task, message, extra={"code": code})
            self._problems[task] = [code, message]
            self._later()

    def keep(self, tasks: Collection[str]) -> None:
        """Only these tasks are in the file now."""
        self._problems = {task: problem for task, problem in self._problems.items() if task in tasks}

    def stop(self) -> None:
        """End the attempts."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._server:
            server, self._server = self._server, None
            server.end()

    def _later(self) -> None:
        if self._problems and self._timer is None and self._server is None:
            self._timer = self._loop.call_later(self._pause, self._try)
            self._pause = min(2 * self._pause, LONGEST)

    def _try(self) -> None:
        self._timer = None
        if not self._problems:
            return
        try:
            self._server = ServerHandle.start(self._launch(), self._on_report)
        except (OSError, LookupError) as error:
            log.warning("the tasks that do not load could not be tried again: %s", error)
            self._later()

    def _end(self) -> None:
        self.stop()
        self._later()

    def _on_report(self, _server: ServerHandle, report: ServerReport) -> None:
        """What the new fork server reports. It has no child, and no job."""
        match report:
            case Ready(problems, loaded):
                self._on_ready(problems, loaded)
            case ServerDied(reason):
                # An import ended the process, or the kernel did.
                self._server = None
                log.warning("the tasks that do not load were tried again, and %s", reason)
                self._end()

    def _on_ready(self, problems: Problems, loaded: int) -> None:
        assert self._server  # noqa: S101 - it is this server that reports
        if loaded == 0 or not self._problems.keys() - problems.keys() or problems.keys() - self._problems.keys():
            self._problems |= {task: problem for task, problem in problems.items() if task in self._problems}
            self._end()
            return
        server, self._server = self._server, None
        again = sorted(self._problems.keys() - problems.keys())
        log.info("%s can run again: a new fork server loads it", _named(again))
        self._on_more(server, problems)
