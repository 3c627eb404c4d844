"""A request about the configuration, and the outcome of a reload."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from fusiond.config.accepted.plan import Plan
from fusiond.config.problems import Problem

#: stands for each group; no group can have this name
ALL: Final = "*"


class Refused(Exception):
    """The candidate is not accepted; the running configuration stays."""

    def __init__(self, reason: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(reason)
        self.reason, self.problems = reason, problems


class NoSuchGeneration(Refused):
    """The daemon does not have what the rollback is to. Nothing was tried, so `status` does not keep the outcome."""


@dataclass(slots=True)
class Request:
    """Who asks for what, and the answer."""

    #: such as `SIGHUP`, `the file's change`, `fusiond reload by alice`
    who: str
    #: `reload`: apply the file; `rollback`: apply an earlier generation; `plan`: say what a reload would do
    verb: Literal["reload", "rollback", "plan"] = "reload"
    #: of a rollback: the generation to go back to; 0: the one before
    generation: int = 0
    #: of a reload: groups to replace since their code has changed; ALL: each group
    code: frozenset[str] = frozenset()
    #: plain data, for the control socket; None: it is not answered yet
    answer: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadOutcome:
    """How one reload or rollback ended."""

    result: Literal["applied", "unchanged", "refused"]
    #: of the configuration that runs now
    generation: int
    hash: str
    #: as in `Request.who`
    asked_by: tuple[str, ...]
    seconds: float
    #: epoch seconds
    ended_at: float = field(default_factory=time.time)
    #: why it was refused, for people; may have many lines
    reason: str = ""
    problems: Sequence[Problem] = ()
    #: what was done; None: nothing
    plan: Plan | None = None
    #: the generation that a rollback went back to; 0: it was a reload
    restores: int = 0
    #: what went wrong although the configuration was accepted
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for the control socket."""
        summary = [self.headline, *(f"warning: {warning}" for warning in self.warnings), *self.reason.splitlines()]
        return {name: getattr(self, name) for name in self.__slots__} | {
            "problems": [problem.to_dict() for problem in self.problems],
            "plan": asdict(self.plan) if self.plan else None,
            "summary": "\n".join(summary),
        }

    @property
    def headline(self) -> str:
        """The result in one line."""
        back = f", a rollback to generation {self.restores}" if self.restores else ""
        return {
            "applied": f"generation {self.generation} applied in {self.seconds:.2f} s{back}: {self.plan}",
            "unchanged": f"nothing changed; generation {self.generation} runs on",
            "refused": f"refused; generation {self.generation} runs on",
        }[self.result]
