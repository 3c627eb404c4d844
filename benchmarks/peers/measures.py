"""What is measured of one runner on one empty server; each returns quantity → figure, `backlogs` pairs of these."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from benchmarks import calibration
from benchmarks.figures import percentile
from benchmarks.peers.runners import BY_NAME, FUSIOND
from benchmarks.peers.session import Session
from benchmarks.server import Server

if TYPE_CHECKING:
    from benchmarks.peers.postgres import Postgres
    from benchmarks.peers.runners import Runner

#: single calls of `enqueue`, where there is a call for many
SINGLE = 2_000
#: seconds after the start of idle workers, and seconds for which they are watched
REST, WATCHED = 4.0, 8.0
#: jobs of the two backlogs
SMALL, LARGE = 50_000, 1_000_000


def work(runner: Runner, server: Server | Postgres, scale: float) -> dict[str, float]:
    """
    A backlog is enqueued, one by one and in bulk, and worked off.

    The drain is watched from a tenth to 95 %: the start of the workers is not part of it.
    """
    jobs = max(100, int(runner.jobs * scale))
    single = min(SINGLE, jobs // 2) if runner.bulk else jobs
    with Session(runner, server) as session:
        empty = server.memory()
        figures = {"one": single / session.produce("one", single)}
        if runner.bulk:
            figures["many"] = (jobs - single) / session.produce("many", jobs - single)
        figures["waiting"] = (server.memory() - empty) / jobs
        figures |= _drain(session, jobs)
        session.await_done(int(jobs * 0.97))
        time.sleep(0.3)
        figures["finished"] = (server.memory() - empty) / jobs
    return figures


def _drain(session: Session, jobs: int, upto: float = 0.95, before: int = 0) -> dict[str, float]:
    """`before`: so many were done before these."""
    session.start()
    began, first = session.await_done(before + jobs // 10)
    cpu, redis = session.cpu(), session.server.use().cpu
    ended, last = session.await_done(before + int(jobs * upto))
    count = last - first
    return {
        "drain": count / (ended - began),
        "workers": (session.cpu() - cpu) / count * 1e3,
        "redis": (session.server.use().cpu - redis) / count * 1e3,
    }


def latency(runner: Runner, server: Server | Postgres, scale: float) -> dict[str, float]:
    """From before the call that enqueues to the first line of the job, while nothing else is to be done; ms."""
    warm, jobs = 20, max(10, int(100 * scale))
    with Session(runner, server) as session:
        session.start()
        session.produce("mark", 1)
        session.await_marks(1)
        session.produce("mark", warm + jobs)
        session.await_marks(1 + warm + jobs)
        waits = [wait * 1e3 for wait in session.waits()[-jobs:]]
    return {"p50": percentile(waits, 0.5), "p99": percentile(waits, 0.99)}


def sleepers(runner: Runner, server: Server | Postgres, scale: float) -> dict[str, float]:
    """Jobs that sleep 10 ms, in 50 slots: 5,000 jobs a second would be ideal."""
    jobs = max(200, int(3_000 * scale))
    with Session(runner, server, slots=50) as session:
        session.produce("rest", jobs)
        return _drain(session, jobs, 0.9)


def idle(runner: Runner, server: Server | Postgres, scale: float) -> dict[str, float]:
    """Workers with 8 slots that have worked a little and have nothing to do."""
    with Session(runner, server) as session:
        session.start()
        session.produce("mark", 3)
        session.await_marks(3)
        time.sleep(REST * scale)
        cpu, redis, began = session.cpu(), server.use().cpu, time.monotonic()
        time.sleep(WATCHED * scale)
        seconds = time.monotonic() - began
        return {
            "workers": (session.cpu() - cpu) / seconds * 100,
            "redis": (server.use().cpu - redis) / seconds * 100,
            "memory": session.pss() / 1e6,
        }


def backlogs(server: Server, scale: float) -> list[tuple[dict[str, float], dict[str, float]]]:
    """
    A small and a large backlog of fusiond's, each enqueued in bulk.

    The large one is worked off in pieces of the small one's size. After each piece its queue is suspended, and a small
    backlog is worked off on a server of its own. The two are a pair: most changes of the machine's speed, which may
    come from one second to the next, reach both.

    Returns:
        for each piece the figures of the small backlog and those of the piece. Only the first pair says how fast the
        large backlog was enqueued.
    """
    large, small = (max(10_000, int(jobs * scale)) for jobs in (LARGE, SMALL))
    pairs, pieces = [], math.ceil(large / small)
    with Session(BY_NAME[FUSIOND], server) as session:
        bulk = {"many": large / session.produce("many", large)}
        for turn in range(pieces):
            before = session.done()
            piece = _drain(session, (large - before) // (pieces - turn), before=before)
            session.pause()
            other = Server(tcp=True, aof=False)
            with other, Session(BY_NAME[FUSIOND], other) as beside:
                few = {"many": small / beside.produce("many", small), **_drain(beside, small)}
            pairs.append((few, piece if turn else bulk | piece))
    return pairs


def machine() -> dict[str, float]:
    """What the machine does at this moment."""
    return {"ping": calibration.ping() * 1e6, "fork": calibration.fork() * 1e3, "loop": calibration.loop() * 1e3}
