"""The command of a situation that is tried many times, each time with another seed."""

import argparse
import contextlib

from tests.support.replicas import RedisCluster
from tests.support.running import Running

WATCHED = "metrics: true\nevents: {payload: true}\n"


def main(name, doc, violations, times=10):
    """
    Try it `--times` times, and print what was found; the exit status, 1 where anything was.

    `name`: of the module; `doc`: its text; `violations`: tries it once, with the keyword `seed`.
    """
    parser = argparse.ArgumentParser(prog=f"python -m tests.chaos.{name}", description=doc.split("\n\n")[0])
    parser.add_argument("--times", type=int, default=times)
    parser.add_argument("--seed", type=int, default=0, help="of the first time")
    parser.add_argument("--cluster", action="store_true", help="over a Redis Cluster, whose nodes nothing kills")
    parser.add_argument("--watched", action="store_true", help="with `events` and `metrics` in the file")
    given = parser.parse_args()
    failed = False
    Running.added = WATCHED if given.watched else ""
    with _empty_cluster() if given.cluster else contextlib.nullcontext(lambda: None) as make_empty:
        for number in range(given.times):
            make_empty()
            found = violations(seed=given.seed + number)
            print(f"{number + 1}: {len(found)} violations", *found, sep="\n  ", flush=True)
            failed = failed or bool(found)
    return int(failed)


@contextlib.contextmanager
def _empty_cluster():
    """A Cluster as the Redis of every daemon; what empties it."""
    # no node is to be taken for dead because the machine is busy
    with RedisCluster(timeout=15_000) as cluster:
        Running.broker_url, Running.cluster = cluster.url, cluster
        try:
            yield lambda: [node.do("FLUSHALL") for node in cluster.primaries()]
        finally:
            Running.broker_url = Running.cluster = None
