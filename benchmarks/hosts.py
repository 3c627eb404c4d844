"""
One, two and three hosts on one Redis, each in a network namespace of its own. Needs root and iproute2.

1. start   a Redis, and a daemon on each host; one host serves the queue `one`, two serve `two`, three `three`
2. round   the same work for each of the queues in turn; the next round in the other order
3. tell    of one, two and three hosts the median over the rounds, and its ratio to one host in the same round

The hosts share the machine's processors, so the speed of a drain says little about real hosts. CPU and commands for a
job say what a further host costs the others; jobs that only wait show that slots add up.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure, percentile
from benchmarks.network import network
from benchmarks.rounds import rounds
from benchmarks.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.network import Network
    from benchmarks.rounds import Block
    from fusiond import Client
    from fusiond.client.blocking import Job

#: those that serve the queue at place n are the first n + 1
HOSTS, QUEUES = ("host1", "host2", "host3"), ("one", "two", "three")
WAYS = ("1 host", "2 hosts", "3 hosts")
REDIS = "redis"
ROUNDS = 5
#: one in so many jobs is asked on which host it ran
SAMPLE = 20
#: slots of a host whose jobs wait, seconds of such a job of a backlog and of one that comes alone
SLOTS, NAP, LONG_NAP = 50, 0.02, 0.1
#: the children of a group with so many slots
OF_SLOTS = ("process", 1, f"executor: asyncio, concurrency: {SLOTS}")
#: seconds of each block whose jobs wait
BLOCK = 3.0
_PINGS = """
import socket, sys, time
redis = socket.create_connection((sys.argv[1], int(sys.argv[2])))
redis.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
began = time.perf_counter()
for _ in range(2000):
    redis.sendall(b"PING\\r\\n")
    redis.recv(64)
print((time.perf_counter() - began) / 2000)
"""


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """A backlog of jobs that do nothing, one of jobs that wait, and single jobs at half of what the slots could do."""
    turns = max(2, round(ROUNDS * scale))
    with network(REDIS, *HOSTS) as hosts:
        with fleet_of(hosts, "process", 4) as fleet:
            yield Figure("PING from a host to Redis", fleet.ping() * 1e6, "µs")
            yield from _idle(fleet, max(1.0, 20 * scale))
            jobs = max(100, int(30_000 * scale))
            yield from rounds("drain", WAYS, turns, lambda way: _drain(fleet, way, "host", (), jobs))
        with fleet_of(hosts, *OF_SLOTS) as fleet:
            seconds = max(0.5, BLOCK * scale)
            yield from rounds("jobs of 20 ms", WAYS, turns, lambda way: naps(fleet, way, seconds))
            yield from rounds("half load", WAYS, turns, lambda way: half_load(fleet, way, seconds))


class Use(NamedTuple):
    """What was used so far."""

    redis: float
    #: s; of all hosts
    dispatchers: float
    children: float
    calls: dict[str, int]
    #: bytes that Redis has read and written
    read: int
    written: int


class Fleet:
    """A Redis, daemons on three hosts, and a producer beside Redis."""

    def __init__(self, server: Server, daemons: Sequence[Daemon], client: Client, hosts: Network) -> None:
        self.server, self.daemons, self.client, self._hosts = server, daemons, client, hosts

    def use(self) -> Use:
        """What Redis and the programs of all hosts have used."""
        spent = [daemon.cpu() for daemon in self.daemons]
        sums = [sum(each[kind] for each in spent) for kind in ("dispatcher", "children")]
        stats = self.server.info("stats")
        traffic = [int(stats[f"total_net_{way}_bytes"]) for way in ("input", "output")]
        return Use(self.server.use().cpu, sums[0], sums[1], self.server.calls(), traffic[0], traffic[1])

    def ping(self) -> float:
        """Seconds of a round trip from a host to Redis."""
        words = [*self._hosts.inside(HOSTS[0]), sys.executable, "-c", _PINGS]
        where = [self._hosts.address(REDIS), str(self.server.port)]
        return float(subprocess.run([*words, *where], capture_output=True, text=True, check=True).stdout)


@contextlib.contextmanager
def fleet_of(hosts: Network, isolation: str, processes: int, keys: str = "") -> Iterator[Fleet]:
    """A fleet whose groups have such children."""
    groups = [
        group(isolation, processes, queue, queue=queue, keys=", ".join(filter(None, [keys, _on(count)])))
        for count, queue in enumerate(QUEUES, 1)
    ]
    with contextlib.ExitStack() as stack:
        server = Server(tcp=True, address=hosts.address(REDIS), inside=hosts.inside(REDIS))
        stack.enter_context(server)
        daemons = [
            stack.enter_context(
                Daemon(*groups, url=server.url, reach=server.socket_url, queues=QUEUES, inside=hosts.inside(host))
            )
            for host in HOSTS
        ]
        yield Fleet(server, daemons, stack.enter_context(daemons[0].client()), hosts)


def _on(count: int) -> str:
    return f"hosts: [{', '.join(HOSTS[:count])}]"


def _drain(fleet: Fleet, way: str, task: str, args: tuple[Any, ...], jobs: int) -> Block:
    """Work off a backlog of the queue that so many hosts serve."""
    queue, daemon = QUEUES[WAYS.index(way)], fleet.daemons[0]
    daemon.suspend(queue, on=True)
    waiting = fleet.client.options(queue=queue).enqueue_many((task, args) for _ in range(jobs))
    goal = daemon.finished(queue) + jobs
    before, began = fleet.use(), time.monotonic()
    daemon.suspend(queue, on=False)
    daemon.await_finished(goal, queue)
    seconds = time.monotonic() - began
    after = fleet.use()
    ran = [_host(job) for job in waiting[::SAMPLE]]
    return {"speed": jobs / seconds, **_spent(before, after, jobs, seconds), **_shares(ran, way)}


def naps(fleet: Fleet, way: str, seconds: float) -> Block:
    """A backlog of jobs that wait, enough for all slots for some seconds."""
    ideal = SLOTS / NAP * _count(way)
    found = _drain(fleet, way, "visit", (NAP,), int(ideal * seconds))
    return {"of what the slots could do": found["speed"] / ideal, **found}


def half_load(fleet: Fleet, way: str, seconds: float) -> Block:
    """Single jobs at random times, on average as many as keep half of the slots busy."""
    rate = SLOTS / LONG_NAP * _count(way) / 2
    queue, daemon = QUEUES[WAYS.index(way)], fleet.daemons[0]
    client, goal = fleet.client.options(queue=queue), daemon.finished(queue)
    sent: list[tuple[float, Job[Any]]] = []
    before, began = fleet.use(), time.monotonic()
    due = began
    while (due := due + random.expovariate(rate)) < began + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        sent.append((time.monotonic(), client.enqueue("visit", LONG_NAP)))
    daemon.await_finished(goal + len(sent), queue)
    took, after = time.monotonic() - began, fleet.use()
    ends = [(at, *job.result(timeout=10)) for at, job in sent]
    waits = [(begun - at) * 1e3 for at, _, begun in ends]
    late = {f"enqueue → start, p{percent}": percentile(waits, percent / 100) for percent in (50, 99)}
    return {**late, **_spent(before, after, len(sent), took), **_shares([host for _, host, _ in ends], way)}


def _spent(before: Use, after: Use, jobs: int, seconds: float) -> Block:
    """What each job has cost; the producer's part in it too, where it enqueued meanwhile."""
    calls = Counter(after.calls)
    calls.subtract(before.calls)
    cpu = [getattr(after, name) - getattr(before, name) for name in ("redis", "dispatchers", "children")]
    return {
        **dict(zip(("Redis' CPU", "dispatchers' CPU", "children's CPU"), (s / jobs * 1e6 for s in cpu), strict=True)),
        "processors in use": sum(cpu) / seconds,
        "commands in Redis": calls.total() / jobs,
        "scripts called": calls["evalsha"] / jobs * 1e3,
        "messages published": calls["publish"] / jobs * 1e3,
        "to Redis": (after.read - before.read) / jobs,
        "from Redis": (after.written - before.written) / jobs,
    }


def _shares(ran: Sequence[str], way: str) -> Block:
    """How even the jobs were spread: 1 is the same number for each host, 0 nothing for one of them."""
    count, spread = _count(way), Counter(ran)
    return {"least host's share of an even one": min(spread[host] for host in HOSTS[:count]) * count / len(ran)}


def _count(way: str) -> int:
    return WAYS.index(way) + 1


def _host(job: Job[Any]) -> str:
    found = job.result(timeout=10)
    return str(found if isinstance(found, str) else found[0])


def _idle(fleet: Fleet, seconds: float) -> Iterator[Figure]:
    """What a dispatcher without work costs Redis and itself."""
    dispatchers = sum(range(1, len(HOSTS) + 1))
    before = fleet.use()
    time.sleep(seconds)
    after = fleet.use()
    calls = sum(after.calls.values()) - sum(before.calls.values())
    note = f"{dispatchers} dispatchers on {WAYS[-1]}, schedulers included"
    yield Figure("idle, commands in Redis", calls / seconds / dispatchers, "/s each", note=note)
    share = (after.redis - before.redis) / seconds / dispatchers
    yield Figure("idle, Redis' CPU", share * 1e6, "µs/s each", note=note)
