"""
What the machine itself does at this moment: the measure of what has no peer.

Each program is the bare minimum of a thing that fusiond must do as well. A measure runs one of them in turn with its
own work, and its gate is a ratio to it: a machine that is slower, or busier, makes both slower.
"""

from __future__ import annotations

import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from benchmarks import processes
from benchmarks.server import Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_FORKS = """
import os, time
began = time.perf_counter()
for _ in range({count}):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
print((time.perf_counter() - began) / {count})
"""
_NAPS = """
import asyncio, time
left = iter(range({count}))
async def worker():
    for _ in left:
        await asyncio.sleep({seconds})
async def main():
    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range({at_once})))
    print(time.perf_counter() - began)
asyncio.run(main())
"""
_TIMER = "import time\nwhile True: time.sleep(0.05)"


class Pings:
    """Round trips of PING over a bare socket, which nothing reads but `recv`."""

    def __init__(self, path: Path | str) -> None:
        """`path`: of the server's unix socket."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def once(self) -> float:
        """Seconds of one."""
        began = time.perf_counter()
        self._socket.sendall(b"PING\r\n")
        if self._socket.recv(64) != b"+PONG\r\n":
            raise SystemExit("Redis answers PING with something else")
        return time.perf_counter() - began

    def mean(self, count: int = 5_000) -> float:
        """Seconds of each of many in a row."""
        began = time.perf_counter()
        for _ in range(count):
            self.once()
        return (time.perf_counter() - began) / count

    def after_pause(self) -> float:
        """Seconds of one after a pause of 20 to 40 ms, as a job that comes alone finds the machine."""
        pause()
        return self.once()


def pause() -> None:
    """20 to 40 ms."""
    time.sleep(random.uniform(0.02, 0.04))


def ping(count: int = 5_000) -> float:
    """Seconds of a round trip to a Redis that does nothing else."""
    with Server(aof=False) as server:
        pings = Pings(server.path)
        try:
            return pings.mean(count)
        finally:
            pings.close()


def fork(count: int = 500) -> float:
    """Seconds in which an interpreter that has loaded next to nothing forks a child, and it ends, and is waited for."""
    return float(_python(_FORKS.format(count=count)))


def loop(count: int = 2_000_000) -> float:
    """Seconds of a million rounds of a loop in Python that does nothing."""
    began = time.perf_counter()
    for _ in range(count):
        pass
    return (time.perf_counter() - began) / count * 1e6


def naps(count: int, at_once: int, seconds: float) -> float:
    """Seconds in which a bare event loop awaits `count` sleeps, each of so many seconds, `at_once` at a time."""
    return float(_python(_NAPS.format(count=count, at_once=at_once, seconds=seconds)))


def interpreter() -> float:
    """Seconds in which this Python starts and ends, with its site-packages."""
    began = time.perf_counter()
    _python("pass", bare=False)
    return time.perf_counter() - began


def timer(seconds: float) -> float:
    """Share of a core that a process takes which wakes every 50 ms and does nothing."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", _TIMER])
    try:
        time.sleep(min(1.0, seconds))
        before, began = processes.use(process.pid)["fusiond"].cpu, time.monotonic()
        time.sleep(seconds)
        return (processes.use(process.pid)["fusiond"].cpu - before) / (time.monotonic() - began)
    finally:
        process.kill()
        process.wait()


def interpreter_memory() -> int:
    """Bytes (PSS) of a Python that has loaded what nearly every program has, and waits."""
    words = [sys.executable, "-I", "-c", "import json, logging, socket, sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        taken = processes.use(process.pid)["fusiond"].pss
        process.communicate()
    return taken


def bytes_of_a_job(args: Sequence[object], kwargs: Mapping[str, object], jobs: int = 20_000) -> float:
    """Bytes of Redis for the least that a queue can keep of a job: one string of JSON, and its id in a sorted set."""
    body = json.dumps({"task": "noop", "args": args, "kwargs": kwargs}, separators=(",", ":"))
    script = (
        "for n = 1, ARGV[1] do local id = string.format('%020d', n);"
        " redis.call('SET', 'job:' .. id, ARGV[2]); redis.call('ZADD', 'queue', n, id) end"
    )
    with Server(aof=False) as server:
        before = server.memory()
        server.ask("EVAL", script, "0", str(jobs), body)
        return (server.memory() - before) / jobs


def summary(rounds: int = 3) -> dict[str, float]:
    """Medians: PING µs, fork ms, a million loops ms. For the head of a report."""
    return {
        "ping": statistics.median(ping() for _ in range(rounds)) * 1e6,
        "fork": statistics.median(fork() for _ in range(rounds)) * 1e3,
        "loop": statistics.median(loop() for _ in range(rounds)) * 1e3,
    }


def _python(code: str, *, bare: bool = True) -> str:
    words = [sys.executable, *(("-I", "-S") if bare else ()), "-c", code]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=dict(os.environ)).stdout
