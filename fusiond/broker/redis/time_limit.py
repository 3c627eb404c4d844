"""
A time limit on each reply of an exchange, for asyncio.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any


class TimeLimit:
    """
    Raises TimeoutError in a task that has waited for too long, as asyncio.timeout does.

    One timer serves many exchanges: one for each would make an exchange take a quarter longer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until, self._cancelling, self._over = 0.0, 0, False

    def start_over(self) -> None:
        """The whole time is left from now on."""
        self._until = time.monotonic() + self._seconds

    def __enter__(self) -> None:
        self.start_over()
        self._task, self._over = asyncio.current_task(), False
        self._cancelling = self._task.cancelling() if self._task else 0
        if self._timer is None:
            self._set_timer()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._task = self._task, None
        if self._over and task and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError("no answer in time") from None

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._until - time.monotonic(), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if time.monotonic() < self._until:
            self._set_timer()
        elif not self._over:
            self._over = True
            self._task.cancel()
