"""
Judge whether a fork server still answers.

1. ask     soon after each request, and now and then where nothing is requested
2. judge   silent after SILENT seconds without an answer, hung after ANSWER; while it loads, after LOAD without a module

A fork server does what it is asked in order, so one answer says that all earlier requests were carried out. Only time
counts in which this process ran itself: where it finds itself late, because it was stopped or kept from its loop, it
asks anew before it judges.

Knows no processes: what becomes of a server that hangs, its owner says.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: s; until it is killed: for an answer, and while it loads for the next module
ANSWER, LOAD = 10.0, 60.0
#: s; from then on it is given no more work
SILENT = 2.0
#: s; between two looks, and between two questions where nothing is requested
LOOK, REST = 1.0, 5.0
#: s; a look that comes later than this was kept from coming
LATE = 1.0


class Answers:
    """Of one fork server, from its launch to its end."""

    def __init__(
        self, ask: Callable[[int], None], on_silent: Callable[[bool], None], on_hung: Callable[[str], None]
    ) -> None:
        """
        Wait for the first modules to be loaded.

        Args:
            ask: sends a question with this number.
            on_silent: called when it falls silent, and when it answers again.
            on_hung: called once with a sentence, when it has not answered in time.
        """
        self._ask, self._on_silent, self._on_hung = ask, on_silent, on_hung
        self._loop = asyncio.get_running_loop()
        self._loading, self._silent, self._requested, self._number = True, False, False, 0
        #: monotonic s; since when an answer, or the next module, is waited for, and whether it is
        self._since, self._waits = self._loop.time(), True
        self._look_again()

    def request(self) -> None:
        """Something was requested of it: a question follows soon."""
        self._requested = True

    def loading(self) -> None:
        """It has loaded one module more."""
        self._since = self._loop.time()

    def ready(self) -> None:
        """It has loaded all modules."""
        self._loading = self._waits = False

    def answer(self, number: int) -> None:
        """It has answered the question of this number; one that was asked before a pause of ours says nothing."""
        if number == self._number:
            self._waits = False
            self._set_silent(on=False)

    def stop(self) -> None:
        """Ask no more."""
        self._timer.cancel()

    def _look_again(self) -> None:
        self._due = self._loop.time() + LOOK
        self._timer = self._loop.call_later(LOOK, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        waited = now - self._since
        most, what = (LOAD, "loaded no module") if self._loading else (ANSWER, "not answered")
        if now - self._due > LATE or (not self._waits and (self._requested or waited >= REST)):
            self._ask_anew(now)
        elif self._waits and waited >= most:
            self._on_hung(f"has {what} for {most:g} s")
            return
        elif self._waits and waited >= SILENT and not self._loading:
            self._set_silent(on=True)
        self._look_again()

    def _ask_anew(self, now: float) -> None:
        self._since, self._waits, self._requested = now, True, False
        if not self._loading:
            self._number += 1
            self._ask(self._number)

    def _set_silent(self, *, on: bool) -> None:
        if on != self._silent:
            self._silent = on
            self._on_silent(on)
