"""The times at which a dispatcher goes round again, each under a name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Timers:
    """The timers of one dispatcher."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake`: has the dispatcher go round now; called at the end of each."""
        self.wake = wake
        self._running: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, name: str) -> bool:
        """Whether a timer of that name runs."""
        return name in self._running

    def start(self, name: str, seconds: float, then: Callable[[], None] | None = None) -> None:
        """Wake in so many seconds, and call `then` before; nothing if a timer of that name runs."""
        if name not in self._running:
            self._running[name] = asyncio.get_running_loop().call_later(seconds, self._end, name, then)

    def advance(self, name: str, seconds: float, then: Callable[[], None] | None = None) -> None:
        """Start it, or have it end earlier if it would end later than that."""
        if (timer := self._running.get(name)) and timer.when() > asyncio.get_running_loop().time() + seconds:
            timer.cancel()
            del self._running[name]
        self.start(name, seconds, then)

    def _end(self, name: str, then: Callable[[], None] | None) -> None:
        del self._running[name]
        if then:
            then()
        self.wake()
