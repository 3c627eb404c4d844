"""
What a reload would do, for `fusiond plan`: the reading of a reload, and nothing after it.

1. collect   who asks; those who ask while one runs share the next
2. read      the file in the helper process, as this daemon's user and with its environment, which a shell has not
3. answer    its problems, and what its reload would mean

Touches no process and writes no file.
"""

from __future__ import annotations

import dataclasses
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusiond.config.accepted.effects import Effects
from fusiond.supervise.reload.reading import Reading, for_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusiond.supervise.fleet import Fleet
    from fusiond.supervise.reload.outcome import ReloadOutcome
    from fusiond.supervise.reload.reading import Result

#: seconds for the helper
DEADLINE = 30.0


class PlanAnswer:
    """The answer to one request; `content` is set once the file has been read."""

    def __init__(self) -> None:
        self.content: dict[str, Any] | None = None


class PlanRequests:
    """
    The plans that are asked of one daemon; at most one helper process at a time.

    Args:
        taken: the last reload that changed something since the daemon's start.
    """

    def __init__(
        self,
        fleet: Fleet,
        foreign: set[int],
        taken: Callable[[], ReloadOutcome | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fleet, self._foreign, self._taken, self._clock = fleet, foreign, taken, clock
        self._asked: list[PlanAnswer] = []
        self._serving: list[PlanAnswer] = []
        self._reading: Reading | None = None
        self._deadline = 0.0

    def ask(self) -> PlanAnswer:
        """Ask what a reload would do now."""
        answer = PlanAnswer()
        self._asked.append(answer)
        return answer

    def due(self, now: float) -> float:
        """Seconds until `tick` has something to do by itself."""
        if self._reading is not None:
            return max(0.0, self._deadline - now)
        return 0.0 if self._asked else math.inf

    def tick(self) -> None:
        """Begin, look, or give up."""
        if self._reading is None and self._asked:
            self._begin()
        if self._reading is not None:
            self._look(self._reading)

    def end(self) -> None:
        """The daemon ends: kill the helper, and tell those who wait."""
        if self._reading is not None:
            self._finish(reason="the daemon is ending")
        for answer in self._asked:
            answer.content = self._content(reason="the daemon is ending")

    def _begin(self) -> None:
        self._serving, self._asked = self._asked, []
        self._deadline = self._clock() + DEADLINE
        accepted = self._fleet.accepted
        arguments = for_plan(accepted.path, development=self._fleet.development)
        try:
            self._reading = Reading(Path(accepted.source), self._foreign, arguments)
        except OSError as error:  # no descriptor, no process, no room: the daemon outlives it
            self._finish(reason=f"the file could not be validated: {error}")

    def _look(self, reading: Reading) -> None:
        result = reading.poll()
        if result is not None:
            self._finish(
                problems=result.plain,
                effects=self._effects(result) if result.usable else None,
                reason="" if result.usable else result.text,
            )
        elif self._clock() > self._deadline:
            self._finish(reason=f"the file was not validated within {DEADLINE:.0f} s")

    def _effects(self, result: Result) -> dict[str, Any] | None:
        """What the helper said the file would mean, and what has changed in the files that it names."""
        if result.effects is None:
            return None
        found = Effects.from_dict(result.effects)
        rotated = self._fleet.with_other_environment(result.environment_files)
        return dataclasses.replace(found, plan=found.plan.with_environment(rotated)).to_dict()

    def _finish(self, **said: Any) -> None:
        if self._reading is not None:
            self._reading.close()
        self._reading = None
        content = self._content(**said)
        for answer in self._serving:
            answer.content = content
        self._serving = []

    def _content(self, **said: Any) -> dict[str, Any]:
        accepted = self._fleet.accepted
        what = {"generation": accepted.generation, "hash": accepted.hash, "source": accepted.source}
        taken = self._taken()
        return {**what, "taken": taken and taken.to_dict(), "problems": [], "effects": None, "reason": "", **said}
