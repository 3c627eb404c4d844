"""What became of a reload: for who asked, for `status`, for the log."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusiond.config.accepted.diff import Plan


#: in the place of a group's name; none can be that
ALL: Final = "*"
Result = Literal["applied", "unchanged", "refused"]


class Refused(Exception):  # noqa: N818 - what the operator reads
    """The candidate is not taken; the running configuration stays."""

    def __init__(self, reason: str, problems: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(reason)
        self.reason, self.problems = reason, problems


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadOutcome:
    """The end of one reload."""

    result: Result
    #: of the configuration that runs now
    generation: int
    hash: str
    #: who asked: SIGHUP, the file, fusiond reload
    asked_by: tuple[str, ...]
    seconds: float
    #: epoch seconds
    ended_at: float = field(default_factory=time.time)
    #: why it was refused; for people, may have many lines
    reason: str = ""
    problems: Sequence[dict[str, Any]] = ()
    #: what was done, where something was
    plan: Plan | None = None
    #: the generation that a rollback went back to; 0: it was none
    restores: int = 0
    #: what is not as it should be though the file was taken
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for the control socket."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return plain | {"plan": self.plan.to_dict() if self.plan else None, "summary": str(self)}

    def __str__(self) -> str:
        back = f", a rollback to generation {self.restores}" if self.restores else ""
        head = {
            "applied": f"generation {self.generation} applied in {self.seconds:.2f} s{back}: {self.plan}",
            "unchanged": f"nothing changed; generation {self.generation} runs on",
            "refused": f"refused; generation {self.generation} runs on",
        }[self.result]
        return "\n".join(filter(None, [head, *(f"warning: {warning}" for warning in self.warnings), self.reason]))


class Ticket:
    """Held by who asked for a reload; filled when it has ended."""

    def __init__(self) -> None:
        self.outcome: ReloadOutcome | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """Who asks, and for what."""

    who: str
    #: None: for the file as it is; else for an earlier generation, 0 being the one before
    generation: int | None = None
    #: groups whose code has changed behind the paths, ALL for each of them
    code: frozenset[str] = frozenset()
    ticket: Ticket = field(default_factory=Ticket)
