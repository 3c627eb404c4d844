"""
Judge whether a fork server still answers.

1. ask     soon after each request, and every REST seconds without a request
2. judge   silent after SILENT seconds without an answer, hung after ANSWER; while it loads, after LOAD without a module

A fork server carries out requests in order, so one answer says that all earlier requests were carried out. Only time
counts in which this process ran itself: if a look comes late, because this process was stopped or its loop was blocked,
it asks again before it judges.

Knows no processes: the owner decides what happens to a server that hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: s; it is killed if it takes longer: for an answer, and for the next module while it loads
ANSWER, LOAD = 10.0, 60.0
#: s without an answer; its children get no more jobs
SILENT = 2.0
#: s; between two looks, and between two questions if nothing is requested
LOOK, REST = 1.0, 5.0
#: s; if a look comes later than this, this process did not run for a while
LATE = 1.0


class Answers:
    """Whether one fork server answers, from its launch to its end."""

    def __init__(
        self, ask: Callable[[int], None], on_silent: Callable[[bool], None], on_hung: Callable[[str], None]
    ) -> None:
        """
        Wait for the first modules to be loaded.

        Args:
            ask: sends a question with this number.
            on_silent: called with True if the server falls silent, and with False when it answers again.
            on_hung: called once, with a sentence, if the server has not answered in time.
        """
        self._ask, self._on_silent, self._on_hung = ask, on_silent, on_hung
        self._loop = asyncio.get_running_loop()
        self._loading, self._silent, self._requested, self._number = True, False, False, 0
        #: monotonic s since when this waits for an answer, or for the next module; and whether it waits
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
        """It has answered the question of this number; only the newest question counts."""
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
            self._ask_now(now)
        elif self._waits and waited >= most:
            self._on_hung(f"has {what} for {most:g} s")
            return
        elif self._waits and waited >= SILENT and not self._loading:
            self._set_silent(on=True)
        self._look_again()

    def _ask_now(self, now: float) -> None:
        self._since, self._waits, self._requested = now, True, False
        if not self._loading:
            self._number += 1
            self._ask(self._number)

    def _set_silent(self, *, on: bool) -> None:
        if on != self._silent:
            self._silent = on
            self._on_silent(on)
