"""
`python -m benchmarks.peers [NAME …]`: fusiond and its peers, one after the other, in one run.

1. install   the peers, if they are not there yet
2. enqueue   a backlog of no-ops
3. start     the workers, and count results from the first one that is seen to the last: start-up is not measured
4. compare   jobs a second, ours to theirs
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.daemon import APP, Daemon, group
from benchmarks.figures import machine
from benchmarks.peers.environment import install, version
from benchmarks.peers.peers import PEERS, Peer
from benchmarks.peers.server import Server
from benchmarks.processes import tree, use

if TYPE_CHECKING:
    from collections.abc import Callable

APPS = Path(__file__).parent / "apps"
#: seconds in which a backlog must be worked off
PATIENCE = 180.0
#: jobs of fusiond's own, by isolation
OURS = {"process": 50_000, "fork": 3_000}


class Result(NamedTuple):
    """What one runner did."""

    #: jobs a second
    drain: float
    #: ms of CPU of its workers for each job
    cpu: float
    #: jobs a second, one call each
    enqueue: float
    #: bytes of Redis memory for each that waited
    waiting: float


def main() -> None:
    """Measure ours, then each peer, and print a line for each."""
    names = [name.lower() for name in sys.argv[1:]]
    environment = install()
    if environment is None:
        print("PyPI cannot be reached, so that no peer can be installed; nothing is compared.")
        return
    print(machine("Redis as `broker: {url: embedded}` runs it, unix socket"))
    print(f"{'':<36} {'drain, jobs/s':>14} {'ours/theirs':>12} {'CPU ms/job':>11} {'enqueue/s':>10} {'bytes/job':>10}")
    ours = {isolation: _ours(isolation, jobs) for isolation, jobs in OURS.items()}
    for isolation, result in ours.items():
        _print(f"fusiond, {isolation}, 8 children", result, None)
    for peer in PEERS:
        if not names or any(name in peer.name.lower() for name in names):
            result = _peer(peer, environment)
            installed = version(environment, peer.package)
            _print(f"{peer.name} ({installed})", result, ours[peer.isolation].drain / result.drain)


def _print(name: str, result: Result, ratio: float | None) -> None:
    compared = f"{ratio:>11.1f}×" if ratio else f"{'':>12}"
    print(
        f"{name:<36} {result.drain:>14,.0f} {compared} {result.cpu:>11.3f} {result.enqueue:>10,.0f}"
        f" {result.waiting:>10,.0f}",
        flush=True,
    )


def _ours(isolation: str, jobs: int) -> Result:
    with Server() as server, Daemon(group(isolation, 8), url=server.url) as daemon, daemon.client() as client:
        daemon.suspend(on=True)
        single = 2000
        client.enqueue("noop")
        empty, began = server.memory(), time.monotonic()
        for _ in range(single):
            client.enqueue("noop")
        enqueue = single / (time.monotonic() - began)
        client.enqueue_many(("noop",) for _ in range(jobs - single - 1))
        waiting = (server.memory() - empty) / (jobs - 1)
        daemon.suspend(on=False)
        drain, cpu = _watch(daemon.finished, lambda: daemon.use()["fusiond"].cpu, jobs)
    return Result(drain, cpu, enqueue, waiting)


def _peer(peer: Peer, environment: Path) -> Result:
    with Server() as server, tempfile.TemporaryFile("w+") as log:
        variables = {**os.environ, **peer.environment, "BENCH_URL": server.url, "PYTHONPATH": f"{APPS}:{APP}"}
        empty = server.memory()
        told = subprocess.run(
            [environment / "bin" / "python", APPS / f"{peer.app}.py", str(peer.jobs)],
            env=variables, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        waiting = (server.memory() - empty) / peer.jobs
        before = int(server.ask(*peer.done))
        name, *words = (word.format(url=server.url) for word in peer.worker)
        worker = subprocess.Popen([environment / "bin" / name, *words], env=variables, cwd=APPS, stdout=log, stderr=log)
        try:
            drain, cpu = _watch(
                lambda: int(server.ask(*peer.done)) - before, lambda: use(worker.pid)["fusiond"].cpu, peer.jobs
            )
        except TimeoutError as error:
            log.seek(0)
            raise SystemExit(f"{peer.name}: {error}\n{log.read()[-2000:]}") from None
        finally:
            _end(worker)
    return Result(drain, cpu, float(told.stdout), waiting)


def _watch(done: Callable[[], int], cpu: Callable[[], float], jobs: int) -> tuple[float, float]:
    """Jobs a second, and ms of CPU for each, from the first result that is seen to nearly the last."""
    first = _await(done, 1)
    worked = cpu()
    # Not to the very last: where keys are counted, a few are not results.
    last = _await(done, int(jobs * 0.95))
    count = last[1] - first[1]
    return count / (last[0] - first[0]), (cpu() - worked) / count * 1e3


def _await(done: Callable[[], int], count: int) -> tuple[float, int]:
    """The time at which at least so many were done, and how many. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE
    while (found := done()) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{found} of {count} jobs after {PATIENCE:.0f} s")
        time.sleep(0.005)
    return time.monotonic(), found


def _end(worker: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL for all of it where that is not obeyed."""
    worker.terminate()
    try:
        worker.wait(15)
    except subprocess.TimeoutExpired:
        for pid in reversed(tree(worker.pid)):
            os.kill(pid, signal.SIGKILL)
        worker.wait()


if __name__ == "__main__":
    main()
