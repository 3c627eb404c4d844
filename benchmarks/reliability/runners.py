"""Each runner: how its workers are started, by whom it is given jobs, what it says is left."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: children that run jobs
CHILDREN = 4
#: s that Celery's Redis transport keeps what is not acknowledged before it gives it to another; longer than any job
VISIBILITY = 30


@dataclass(frozen=True, slots=True)
class Runner:
    """One runner in one configuration. `{url}` and `{file}` in its words are filled in."""

    name: str
    #: the distribution whose version is told; "" for fusiond
    package: str
    #: a module of `apps/`, which has `enqueue(number, sleep)`
    app: str
    #: absolute, or in the peers' `bin`
    command: tuple[str, ...]
    #: services of that command
    units: int
    #: name → the Redis command that counts it
    left: Mapping[str, tuple[str, ...]]
    environment: dict[str, str] = field(default_factory=dict)
    #: what is set that is not the default, for the page
    settings: str = "nothing"


#: fusiond's file; `{children}`, `{apps}` and the broker's `{url}` are filled in
FILE = """\
version: 1
broker: {{url: "{url}"}}
tasks:
  run: {{run: work.run}}
workers:
  main: {{queues: [default], processes: {children}, directory: {apps}, pass_environment: [RUNS]}}
"""

_FUSIOND_LEFT = {
    "waiting": ("ZCARD", "fusion:{default}:queue"),
    "to be retried": ("ZCARD", "fusion:{default}:scheduled"),
    "started": ("ZCARD", "fusion:{default}:started"),
    "failed": ("ZCARD", "fusion:{default}:failed"),
}
_RQ_LEFT = {
    "waiting": ("LLEN", "rq:queue:default"),
    "being taken": ("LLEN", "rq:queue:default:intermediate"),
    "started": ("ZCARD", "rq:wip:default"),
    "failed": ("ZCARD", "rq:failed:default"),
}
_CELERY_LEFT = {"waiting": ("LLEN", "celery"), "unacknowledged": ("HLEN", "unacked")}

_RQ = ("rq", "worker", "default", "-q", "-u", "{url}")
_RQ_SAFE = ("--with-scheduler", "--worker-ttl", "30", "--job-monitoring-interval", "5", "--maintenance-interval", "10")
_CELERY = ("celery", "-A", "celery_app", "worker", "-c", str(CHILDREN), "-l", "WARNING")
_SAFE = {"RELIABILITY_SAFE": "1", "RELIABILITY_VISIBILITY": str(VISIBILITY)}

RUNNERS = (
    Runner(
        "fusiond", "", "fusiond_app", (str(Path(sys.executable).parent / "fusiond"), "run", "-c", "{file}"), 1,
        _FUSIOND_LEFT,
    ),
    Runner("RQ, default", "rq", "rq_app", _RQ, CHILDREN, _RQ_LEFT),
    Runner(
        "RQ, safest", "rq", "rq_app", (*_RQ, *_RQ_SAFE), CHILDREN, _RQ_LEFT, _SAFE,
        f"`Retry(max=3)`, `job_timeout=60`, `{' '.join(_RQ_SAFE)}`",
    ),
    Runner("Celery, default", "celery", "celery_app", _CELERY, 1, _CELERY_LEFT),
    Runner(
        "Celery, safest", "celery", "celery_app", _CELERY, 1, _CELERY_LEFT, _SAFE,
        "`task_acks_late`, `task_reject_on_worker_lost`, `worker_prefetch_multiplier=1`,"
        f" `visibility_timeout={VISIBILITY}`",
    ),
)  # fmt: skip
