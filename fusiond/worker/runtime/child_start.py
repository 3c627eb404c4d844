"""
What a child does before it takes jobs, where its group asks for it.

1. nice   run at the group's `nice`
2. open   make the event loop, for a child that runs many jobs at once
3. call   `on_start`; if it fails, tell the log and the dispatcher why and end, which counts as a failed start
4. say    to the dispatcher that it may send jobs

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import posix
import sys
from types import CoroutineType

from . import payload, run, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import task

#: characters of the reason why `on_start` has failed
MAX_REASON = 500


class ChildStart:
    """The start of each child of a group; made before the forks."""

    def __init__(self, child: Any, tasks: task.Tasks, on_start: str | None, nice: int) -> None:
        """`child`: it will serve; `on_start`: dotted path."""
        self._open, self._tasks, self._on_start, self._nice = getattr(child, "open", None), tasks, on_start, nice

    def run(self, sock: int) -> None:
        """Start; `sock`: descriptor of the socket to the dispatcher."""
        if self._nice:
            posix.nice(self._nice)
        loop = self._open() if self._open else None
        if self._on_start:
            try:
                self._call(self._on_start, loop)
            except BaseException as error:  # noqa: BLE001 - whatever it raises, the child cannot start
                print(f"on_start: {self._on_start} has failed\n{payload.trace(error)}", end="", file=sys.stderr)
                run.flush()
                posix.write(sock, wire.frame(wire.STARTED, self._reason(error)))
                posix._exit(1)
            run.flush()
            posix.write(sock, wire.frame(wire.STARTED, b""))

    def _reason(self, error: BaseException) -> bytes:
        """One line for the dispatcher; never empty."""
        name = f"on_start: {self._on_start}: {type(error).__name__}"
        try:
            return f"{name}: {error}"[:MAX_REASON].encode("utf-8", "backslashreplace")
        except BaseException:  # noqa: BLE001 - its own __str__ may raise
            return name.encode()

    def _call(self, path: str, loop: Any) -> None:
        result = self._tasks.function(path)()
        if isinstance(result, CoroutineType):
            if loop is not None:
                result = loop.run_until_complete(result)  # what it opens belongs to the loop that the jobs run in
            else:
                import asyncio

                result = asyncio.run(result)
        payload.check_ran(result)
