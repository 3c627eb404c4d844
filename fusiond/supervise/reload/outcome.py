"""A request about the configuration, and the outcome of a reload."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

from fusiond.config.accepted.plan import Plan
from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.problems import Problem
from fusiond.status_document import ReloadOutcome, ReloadResult

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

    #: as in `ReloadOutcome`
    who: str
    #: `reload`: apply the file; `rollback`: apply an earlier generation; `plan`: say what a reload would do
    verb: Literal["reload", "rollback", "plan"] = "reload"
    #: of a rollback: the generation to go back to; 0: the one before
    generation: int = 0
    #: of a reload: groups to replace since their code has changed; ALL: each group
    code: frozenset[str] = frozenset()
    #: plain data, for the control socket; None: it is not answered yet
    answer: Mapping[str, object] | None = None


def outcome(
    accepted: Snapshot, asked_by: Iterable[str], seconds: float, refused: Refused | None, *,
    plan: Plan | None = None, warnings: Sequence[str] = (),
) -> ReloadOutcome:  # fmt: skip
    """How a reload or rollback has ended now; `accepted`: what runs, `plan`: what was done."""
    result: ReloadResult = "refused" if refused else "applied" if plan else "unchanged"
    restores, reason = accepted.restores if plan else 0, refused.reason if refused else ""
    back = f", a rollback to generation {restores}" if restores else ""
    first = {
        "applied": f"generation {accepted.generation} applied in {seconds:.2f} s{back}: {plan}",
        "unchanged": f"nothing changed; generation {accepted.generation} runs on",
        "refused": f"refused; generation {accepted.generation} runs on",
    }[result]
    return {
        "result": result, "generation": accepted.generation, "hash": accepted.hash, "asked_by": [*asked_by],
        "seconds": seconds, "ended_at": time.time(), "reason": reason,
        "problems": [problem.to_dict() for problem in refused.problems] if refused else [],
        "plan": asdict(plan) if plan else None, "restores": restores, "warnings": [*warnings],
        "summary": "\n".join([first, *(f"warning: {warning}" for warning in warnings), *reason.splitlines()]),
    }  # fmt: skip


def headline(ended: ReloadOutcome) -> str:
    """The result in one line."""
    return ended["summary"].partition("\n")[0]
