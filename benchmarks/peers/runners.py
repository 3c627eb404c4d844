"""Each job runner that is compared: what to install, how to start its workers, how to count what it has done."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Runner:
    """One job runner, set up in one way."""

    name: str
    #: what has it: `fusiond`, `python`, `ruby` or `node`
    language: str
    #: the package whose version is told
    package: str
    #: a file of `apps/`
    app: str
    #: the workers' command lines with 8 slots
    workers: tuple[tuple[str, ...], ...]
    #: the Redis command or SQL that tells how many jobs are done, or, where `counts_down`, how many are left
    count: tuple[str, ...]
    #: jobs of a drain: it takes one to three seconds
    jobs: int
    #: the workers' command lines with 50 slots for jobs that sleep; () where that is not measured
    many_slots: tuple[tuple[str, ...], ...] = ()
    counts_down: bool = False
    #: its jobs are in PostgreSQL
    postgres: bool = False
    #: PostgreSQL gets statistics of the backlog before the workers start; nothing else is measured of it
    analyze: bool = False
    #: has a call that enqueues many jobs
    bulk: bool = False
    #: of fusiond: how many jobs each child runs at once, in threads, where jobs sleep; nothing else is measured of it
    threads: int = 0
    #: has its jobs run in children of their own
    fork: bool = False
    environment: dict[str, str] = field(default_factory=dict)


_HUEY = ("huey_consumer", "huey_app.huey", "-q")
_RQ = ("rq", "worker-pool", "default", "-n", "8", "-q", "-u", "{url}")
_DRAMATIQ = ("dramatiq", "dramatiq_app", "-p", "2")
_CELERY = ("celery", "-A", "celery_app", "worker", "-l", "WARNING")
_SIDEKIQ = ("sidekiq", "-r", "./sidekiq_app.rb", "-q", "default")
_GRAPHILE = ("node", "graphile_app.js", "worker", "24")
_QUIET = {"NO_LOG_SUCCESS": "1"}
# Jobs are deleted when they are done, nearly in the order of their ids. To count them would take PostgreSQL long.
_OLDEST = """SELECT coalesce(min(id) - 1, pg_sequence_last_value(pg_get_serial_sequence(
    'graphile_worker._private_jobs', 'id')::regclass)) FROM graphile_worker._private_jobs"""
_BULLMQ = ("node", "bullmq_app.js", "worker")

FUSIOND, FORK, THREADS = "fusiond, process", "fusiond, fork", "fusiond, 2 × 25 threads"
SIDEKIQ, GRAPHILE, BULLMQ, HUEY, RQ_FORK = "Sidekiq", "Graphile Worker", "BullMQ", "Huey", "RQ, a fork per job"
ANALYZED = "Graphile Worker, after ANALYZE"
# fmt: off
RUNNERS = (
    # Their workers are a daemon's: session.py starts it.
    Runner(FUSIOND, "fusiond", "fusiond", "fusiond_app.py", (), (), 50_000, ((),), bulk=True),
    Runner(THREADS, "fusiond", "fusiond", "fusiond_app.py", (), (), 50_000, ((),), threads=25),
    Runner(SIDEKIQ, "ruby", "sidekiq", "sidekiq_app.rb",
           ((*_SIDEKIQ, "-c", "4"),) * 2, ("LLEN", "queue:default"), 40_000,
           ((*_SIDEKIQ, "-c", "25"),) * 2, counts_down=True, bulk=True),
    Runner(GRAPHILE, "node", "graphile-worker", "graphile_app.js",
           (_GRAPHILE,) * 2, (_OLDEST,), 100_000, bulk=True, postgres=True, environment=_QUIET),
    Runner(ANALYZED, "node", "graphile-worker", "graphile_app.js",
           (_GRAPHILE,) * 2, (_OLDEST,), 100_000, bulk=True, postgres=True, analyze=True, environment=_QUIET),
    Runner(BULLMQ, "node", "bullmq", "bullmq_app.js",
           ((*_BULLMQ, "4"),) * 2, ("ZCARD", "bull:bench:completed"), 20_000,
           ((*_BULLMQ, "25"),) * 2, bulk=True),
    Runner(HUEY, "python", "huey", "huey_app.py",
           ((*_HUEY, "-k", "process", "-w", "8"),), ("HLEN", "huey.results.bench"), 10_000,
           ((*_HUEY, "-k", "thread", "-w", "50"),)),
    Runner("Dramatiq", "python", "dramatiq", "dramatiq_app.py",
           ((*_DRAMATIQ, "-t", "4"),), ("DBSIZE",), 6_000,
           ((*_DRAMATIQ, "-t", "25"),), environment={"dramatiq_queue_prefetch": "1000"}),
    Runner("Celery", "python", "celery", "celery_app.py",
           ((*_CELERY, "-c", "8"),), ("DBSIZE",), 3_000,
           ((*_CELERY, "-c", "50", "-P", "threads"),)),
    Runner("RQ, SimpleWorker", "python", "rq", "rq_app.py",
           ((*_RQ, "-w", "rq.worker.SimpleWorker"),), ("ZCARD", "rq:finished:default"), 2_000, bulk=True),
    Runner(FORK, "fusiond", "fusiond", "fusiond_app.py", (), (), 4_000, ((),), bulk=True, fork=True),
    Runner(RQ_FORK, "python", "rq", "rq_app.py",
           (_RQ,), ("ZCARD", "rq:finished:default"), 400, bulk=True, fork=True),
)
# fmt: on
BY_NAME = {runner.name: runner for runner in RUNNERS}
#: from npm; BullMQ leaves the choice of the client to who installs it, and its documentation uses ioredis
NPM = {"bullmq": ("bullmq", "ioredis"), "graphile-worker": ("graphile-worker@0.17.3",)}
#: from PyPI, a package each
REQUIREMENTS = {"rq": "rq", "huey": "huey", "dramatiq": "dramatiq[redis]", "celery": "celery[redis]"}
