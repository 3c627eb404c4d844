"""Limits that hold for all hosts together: how many jobs run at once, and how many begin in a time."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fusiond.config.kinds import WORD, Key, Kind, between, text
from fusiond.config.units import DURATION, seconds

#: slots of a pool, and of one job: Redis has an entry for each that is held
MOST_SLOTS: Final = 100_000
MOST_NEEDED: Final = 1000
#: seconds; without `burst`, so much of the rate may begin at once
BURST: Final = 0.1
#: the longest form has the lookahead of DURATION: there is at least one unit
RATE: Final = rf"^[1-9][0-9]{{0,6}}/([smhd]|{DURATION[1:-1]})$"
_RATE: Final = "write jobs and a time, such as 100/s, 1000/1m or 1/10s"

ARGUMENT: Final = rf"^(kwargs\.{WORD}|args\.(0|[1-9][0-9]?))$"

Rate = Annotated[str, text("rate", RATE, _RATE, examples=["100/s", "1000/1m", "1/10s"])]


def _read(value: str | Mapping[str, Any]) -> dict[str, Any]:
    """A text is the rate; the burst follows."""
    said = {"rate": value} if isinstance(value, str) else value
    jobs, over = jobs_and_seconds(said["rate"])
    burst = said.get("burst") or max(1, int(jobs / over * BURST) if over else 1)
    return {"rate": said["rate"], "burst": burst}


def jobs_and_seconds(rate: str) -> tuple[int, float]:
    """`1000/1m` as 1000 jobs in 60 seconds."""
    jobs, _, over = rate.partition("/")
    return int(jobs), seconds(over if re.match("[0-9]", over) else f"1{over}")


RATE_LIMIT: Final = text(
    "rate",
    RATE,
    "write a rate such as 100/s or 1000/1m, or a map such as {rate: 1000/1m, burst: 50}",
    _read,
    type=["string", "object", "null"],
    defaultSnippets=[
        {
            "label": "rate and burst",
            "description": "50 jobs may begin at once, 1,000 in a minute",
            "body": {"rate": "1000/1m", "burst": 50},
        }
    ],
)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How many jobs may begin in a period."""

    #: A number of jobs and a period. Apart from the burst, they begin evenly over the period.
    rate: Annotated[Rate, Key("Rate", "100/s", "1000/1m")]
    #: Jobs that may begin at once after a pause. null: as many as in 100 ms, at least 1.
    burst: Annotated[int, between(1, 1_000_000), Key("Burst", 50, default=None)]

    @property
    def every_ms(self) -> float:
        """Milliseconds from the begin of a job to that of the next."""
        jobs, over = jobs_and_seconds(self.rate)
        return over * 1000 / jobs


@dataclass(frozen=True, slots=True)
class SharedPool:
    """What jobs of several tasks share: slots that they hold while they run, or a rate at which they begin."""

    name: str
    #: Slots that jobs may hold at once. null: no limit.
    slots: Annotated[int | None, between(1, MOST_SLOTS), Key("Slots", 40)] = None
    #: How many jobs that need the pool may begin in a period.
    rate_limit: Annotated[RateLimit | None, RATE_LIMIT, Key("Rate limit", "500/1m", default=None)] = None


Argument = Annotated[
    str,
    text(
        "argument",
        ARGUMENT,
        "write an argument of the call: kwargs.user_id, or args.0 for the first positional one",
        examples=["kwargs.user_id", "args.0"],
    ),
]

LIMIT: Final = Kind(
    {
        "defaultSnippets": [
            {
                "label": "one of each account",
                "description": "jobs with the same keyword `account` run one after the other",
                "body": {"by": ["kwargs.account"], "max_running": 1},
            }
        ]
    }
)


@dataclass(frozen=True, slots=True)
class Limit:
    """How many jobs of a task may run at once, and begin in a period."""

    #: Arguments: jobs in which they are equal are counted together. Empty: all jobs of the task are.
    by: Annotated[tuple[Argument, ...], Key("By", ["kwargs.account"])] = ()
    #: Jobs that may run at once.
    max_running: Annotated[int | None, between(1, 1_000_000_000), Key("Running at once", 1)] = None
    #: How many jobs may begin in a period.
    rate_limit: Annotated[RateLimit | None, RATE_LIMIT, Key("Rate limit", "10/s", default=None)] = None
