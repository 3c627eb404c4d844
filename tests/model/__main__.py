"""
Walk through the model, and print what was found: `python -m tests.model [protection …]`.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.model import cases
from tests.model.states import Claim, Job, Request, Settle, State, Step

if TYPE_CHECKING:
    from tests.model.explore import Walk

NAMES = "ABC"


def main(asked: list[str]) -> int:
    """All, or the ways to harm without the protections that were asked for."""
    unknown = set(asked) - cases.HARMS.keys()
    if unknown:
        print(f"no protection: {', '.join(sorted(unknown))}; there are {', '.join(cases.HARMS)}")
        return 2
    bad = 0 if asked else sum(_whole(name) for name in cases.SCOPES)
    return int(bad + sum(_without(protection) for protection in asked or cases.HARMS) > 0)


def _whole(name: str) -> bool:
    found = cases.whole(cases.SCOPES[name])
    print(f"{name}: {count(found)}: {found.harm or 'every promise is kept'}")
    print(*way(found), sep="\n")
    return bool(found.harm)


def _without(protection: str) -> bool:
    promise, _ = cases.HARMS[protection]
    found = cases.without(protection)
    said = f"broken: {found.harm}" if found.harm else f"NOT BROKEN: {promise}"
    print(f"without {protection}: {count(found)}: {said}")
    print(*way(found), "", sep="\n")
    return not found.harm


def count(found: Walk[State]) -> str:
    """How far it was."""
    return f"{found.states:,} states, {found.steps:,} steps, {found.seconds:.1f} s"


def way(found: Walk[State]) -> list[str]:
    """A line for each step."""
    return [_line(n, before, *now) for n, ((_, before), now) in enumerate(pairwise(found.way), 1)]


def _line(n: int, before: State, step: Step, after: State) -> str:
    who = NAMES[step.who] if step.who >= 0 else " "
    what = f"{step.what}{': ' + _said(step.request) if step.request else ''}"
    moves = [
        f"job {at + 1} {_shown(old)} -> {_shown(new)}"
        for at, (old, new) in enumerate(zip(before.redis.jobs, after.redis.jobs, strict=True))
        if _shown(old) != _shown(new)
    ]
    return f"  {n:2}  {who}  {what:70}{', '.join(moves)}".rstrip()


def _said(request: Request) -> str:
    if isinstance(request, Claim):
        return f"claim, nonce {_token(request.nonce)}"
    kind = f"settle {request.outcome}" if isinstance(request, Settle) else "renew"
    return f"{kind}, job {request.job + 1}, token {_token(request.token)}"


def _token(token: int) -> str:
    """`A1`: the first of A's that was free; a number where Redis counts."""
    return f"{NAMES[token // 10 - 1]}{token % 10}" if token > 10 else str(token)


def _shown(job: Job) -> str:
    return f"{job.status} ({_token(job.token)}, lease {job.lease})" if job.token else job.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
