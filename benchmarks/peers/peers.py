"""Each peer: what to install, how to start its workers, how to count what it has done."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Peer:
    """One job runner, set up in one way."""

    name: str
    #: the distribution whose version is told
    package: str
    #: a file of `apps/`
    app: str
    #: run in the environment's `bin`
    worker: tuple[str, ...]
    #: the Redis command that says how many results there are
    done: tuple[str, ...]
    jobs: int
    #: what fusiond is compared in: `process` or `fork`
    isolation: str = "process"
    environment: dict[str, str] = field(default_factory=dict)


#: to install
REQUIREMENTS = ("rq", "huey", "celery[redis]", "dramatiq[redis]")

_DRAMATIQ = ("dramatiq", "dramatiq_app")
# fmt: off
PEERS = (
    Peer("RQ, a fork for each job", "rq", "rq_app",
         ("rq", "worker-pool", "default", "-n", "8", "-q", "-u", "{url}"),
         ("ZCARD", "rq:finished:default"), 1_000, "fork"),
    Peer("RQ, SimpleWorker", "rq", "rq_app",
         ("rq", "worker-pool", "default", "-n", "8", "-q", "-u", "{url}", "-w", "rq.worker.SimpleWorker"),
         ("ZCARD", "rq:finished:default"), 4_000),
    Peer("Huey, 8 processes", "huey", "huey_app",
         ("huey_consumer", "huey_app.huey", "-k", "process", "-w", "8", "-q"),
         ("HLEN", "huey.results.bench"), 20_000),
    Peer("Celery, prefork, 8", "celery", "celery_app",
         ("celery", "-A", "celery_app", "worker", "-c", "8", "-l", "WARNING"), ("DBSIZE",), 5_000),
    Peer("Dramatiq, as it comes", "dramatiq", "dramatiq_app", _DRAMATIQ, ("DBSIZE",), 5_000),
    Peer("Dramatiq, prefetch 1000", "dramatiq", "dramatiq_app", _DRAMATIQ, ("DBSIZE",), 10_000,
         environment={"dramatiq_queue_prefetch": "1000"}),
)
# fmt: on
