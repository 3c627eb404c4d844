"""
A Redis Cluster of three primaries on loopback, and one Redis beside it.

1. start   both, a daemon for each; on the Cluster a group for each of three queues, each of which lies on another shard
2. round   a backlog on the one Redis; as many jobs in one queue of the Cluster; three times as many in its three queues
3. tell    what a job costs in each way

The shards share the machine's processors, so the speed says little about three machines: if a job costs a shard of
three what it costs a Redis that is alone, then three machines do three times as much.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import TYPE_CHECKING

from benchmarks.daemon import PATIENCE, Daemon, group
from benchmarks.rounds import rounds
from benchmarks.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.figures import Figure
    from benchmarks.rounds import Block

ROUNDS = 5
SHARDS = 3
SLOTS = 16_384
#: what a round does
WAYS = ("one Redis", "one shard of three", "three shards at once")


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """Backlogs of jobs that do nothing, 4 children for each queue."""
    jobs = max(100, int(30_000 * scale))
    with contextlib.ExitStack() as stack:
        alone = stack.enter_context(Server(tcp=True))
        nodes = stack.enter_context(_cluster())
        queues = _queue_of_each(nodes)
        url = f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in nodes)}"
        first = stack.enter_context(_daemon(queues[:1], alone.url))
        second = stack.enter_context(_daemon(queues, url))
        blocks = {
            WAYS[0]: lambda: _drain(first, [alone], queues[:1], jobs),
            WAYS[1]: lambda: _drain(second, nodes, queues[:1], jobs),
            WAYS[2]: lambda: _drain(second, nodes, queues, jobs),
        }
        yield from rounds("drain", WAYS, max(2, round(ROUNDS * scale)), lambda way: blocks[way]())


def _daemon(queues: Sequence[str], url: str) -> Daemon:
    return Daemon(*(group("process", 4, queue, queue=queue) for queue in queues), url=url, queues=queues)


@contextlib.contextmanager
def _cluster() -> Iterator[list[Server]]:
    """Primaries without replicas, each with a third of the slots."""
    with contextlib.ExitStack() as stack:
        nodes = [
            stack.enter_context(Server("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", tcp=True))
            for _ in range(SHARDS)
        ]
        for number, node in enumerate(nodes):
            bounds = (number * SLOTS // SHARDS, (number + 1) * SLOTS // SHARDS - 1)
            node.ask("CLUSTER", "ADDSLOTSRANGE", *map(str, bounds))
            nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", str(node.port))
        deadline = time.monotonic() + PATIENCE
        while not all(map(_knows_all, nodes)):
            if time.monotonic() > deadline:
                raise SystemExit("the nodes of the Cluster have not found one another")
            time.sleep(0.05)
        yield nodes


def _knows_all(node: Server) -> bool:
    said = node.ask("CLUSTER", "INFO").decode().split()
    return {"cluster_state:ok", f"cluster_size:{SHARDS}"} <= set(said)


def _queue_of_each(nodes: Sequence[Server]) -> list[str]:
    """The name of a queue on each shard, in their order."""
    found: dict[int, str] = {}
    for name in map("queue{}".format, itertools.count()):
        slot = nodes[0].ask("CLUSTER", "KEYSLOT", f"{{{name}}}")
        found.setdefault(next(at for at in range(SHARDS) if slot < (at + 1) * SLOTS // SHARDS), name)
        if len(found) == SHARDS:
            return [found[at] for at in range(SHARDS)]
    raise AssertionError


def _drain(daemon: Daemon, servers: Sequence[Server], queues: Sequence[str], each: int) -> Block:
    """Work off a backlog in each of the queues; the CPU of all servers, those without a queue included."""
    goals = {}
    with daemon.client() as client:
        for queue in queues:
            daemon.suspend(queue, on=True)
            client.options(queue=queue).enqueue_many(("noop",) for _ in range(each))
            goals[queue] = daemon.finished(queue) + each
    before, began = _use(daemon, servers), time.monotonic()
    for queue in queues:
        daemon.suspend(queue, on=False)
    for queue, goal in goals.items():
        daemon.await_finished(goal, queue)
    seconds, jobs = time.monotonic() - began, each * len(queues)
    redis, dispatchers, children, commands = (new - old for new, old in zip(_use(daemon, servers), before, strict=True))
    return {
        "speed": jobs / seconds,
        "Redis' CPU": redis / jobs * 1e6,
        "dispatchers' CPU": dispatchers / jobs * 1e6,
        "children's CPU": children / jobs * 1e6,
        "processors in use": (redis + dispatchers + children) / seconds,
        "commands in Redis": commands / jobs,
    }


def _use(daemon: Daemon, servers: Sequence[Server]) -> tuple[float, float, float, int]:
    """So far: s of CPU of the servers, of the dispatchers and of the children, and commands."""
    spent = daemon.cpu()
    commands = sum(sum(server.calls().values()) for server in servers)
    return sum(server.use().cpu for server in servers), spent["dispatcher"], spent["children"], commands
