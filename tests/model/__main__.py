"""
Walk through the model, and print what was found: `python -m tests.model [protection …]`.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.model import cases, limited_cases
from tests.model.limited_states import LimitedJob, Moment
from tests.model.limited_steps import Event
from tests.model.states import Claim, Job, Request, Settle, State, Step

if TYPE_CHECKING:
    from types import ModuleType

    from tests.model.explore import Walk

NAMES = "ABC"
#: each has SCOPES and HARMS
PARTS = (cases, limited_cases)


def main(asked: list[str]) -> int:
    """All, or the ways to harm without the protections that were asked for."""
    harms = [(part, protection) for part in PARTS for protection in part.HARMS]
    known = [protection for _, protection in harms]
    if unknown := set(asked) - set(known):
        print(f"no protection: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        return 2
    bad = 0 if asked else sum(_whole(part, name) for part in PARTS for name in part.SCOPES)
    return int(bad + sum(_without(*each) for each in harms if each[1] in (asked or known)) > 0)


def _whole(part: ModuleType, name: str) -> bool:
    found = part.whole(part.SCOPES[name])
    print(f"{name}: {count(found)}: {found.harm or 'every promise is kept'}")
    print(*way(found), sep="\n")
    return bool(found.harm)


def _without(part: ModuleType, protection: str) -> bool:
    promise, _ = part.HARMS[protection]
    found = part.without(protection)
    said = f"broken: {found.harm}" if found.harm else f"NOT BROKEN: {promise}"
    print(f"without {protection}: {count(found)}: {said}")
    print(*way(found), "", sep="\n")
    return not found.harm


def count(found: Walk[State] | Walk[Moment]) -> str:
    """How far it was."""
    return f"{found.states:,} states, {found.steps:,} steps, {found.seconds:.1f} s"


def way(found: Walk[State] | Walk[Moment]) -> list[str]:
    """A line for each step."""
    return [_line(n, before, *now) for n, ((_, before), now) in enumerate(pairwise(found.way), 1)]


def _line(n: int, before: State | Moment, step: Step | Event, after: State | Moment) -> str:
    if isinstance(step, Event):
        said = f"{step.what:73}"
    else:
        who = NAMES[step.who] if step.who >= 0 else " "
        said = f"{who}  {f'{step.what}: {_said(step.request)}' if step.request else step.what:70}"
    moves = [
        f"job {at + 1} {_shown(old)} -> {_shown(new)}"
        for at, (old, new) in enumerate(zip(_jobs(before), _jobs(after), strict=True))
        if _shown(old) != _shown(new)
    ]
    return f"  {n:2}  {said}{', '.join(moves)}".rstrip()


def _jobs(at: State | Moment) -> tuple[Job, ...] | tuple[LimitedJob, ...]:
    return at.queue.jobs if isinstance(at, Moment) else at.redis.jobs


def _said(request: Request) -> str:
    if isinstance(request, Claim):
        return f"claim, nonce {_token(request.nonce)}"
    kind = f"settle {request.outcome}" if isinstance(request, Settle) else "renew"
    return f"{kind}, job {request.job + 1}, token {_token(request.token)}"


def _token(token: int) -> str:
    """`A1`: the first of A's that was free; `A1'` is left by that claim; a number where Redis counts."""
    if token > 100:
        return f"{_token(token - 100)}'"
    return f"{NAMES[token // 10 - 1]}{token % 10}" if token > 10 else str(token)


def _shown(job: Job | LimitedJob) -> str:
    if isinstance(job, LimitedJob):
        words = [f"token {job.token}"] * bool(job.token) + ["its turn"] * job.has_turn + ["lapsed"] * job.lapsed
        return f"{job.status} ({', '.join(words)})" if words else job.status
    return f"{job.status} ({_token(job.token)}, lease {job.lease})" if job.token else job.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
