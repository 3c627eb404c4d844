"""
Real servers that stand in for one another, on loopback: a primary with replicas under Sentinels, and a Cluster.

Each lives in a directory of its own, on free ports, and dies with the process that started it.
"""

import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.connection import connect
from fusiond.config import model
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.supervise.server import choose_server
from tests.support.running import end_with_parent, until

#: not that of `random`, whose seed a test may have set to what other test processes set
_RANDOM = random.SystemRandom()
PASSWORD = "opensesame"
SLOTS = 16384


def free_port():
    """
    A port that nothing listens on now, with its cluster bus port, 10,000 above.

    Both are below those that the kernel gives to connections, of which one could have it while a node is down.
    """
    while True:
        port = _RANDOM.randrange(12_000, 22_000)
        with socket.socket() as one, socket.socket() as bus:
            try:
                one.bind(("127.0.0.1", port))
                bus.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port


class Node:
    """One server, or Sentinel, on a port."""

    def __init__(self, directory, *options, mode=None, port=None):
        self.port = port or free_port()
        self.directory = Path(directory) / str(self.port)
        self.directory.mkdir()
        self.options, self.mode = options, mode
        self.process = None
        self.node = connect(model.Broker(url=f"redis://127.0.0.1:{self.port}"), self.directory)
        self.start()

    @property
    def name(self):
        return f"127.0.0.1:{self.port}"

    def start(self, *more):
        """With further options, this time."""
        words = [
            "--port",
            self.port,
            "--bind",
            "127.0.0.1",
            "--dir",
            self.directory,
            "--logfile",
            self.directory / "log",
        ]
        if self.mode is None:
            words += ["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", *self.options, *more]
            command = [choose_server().path, *words]
        else:
            file = self.directory / "conf"
            if not file.exists():
                pairs = zip(words[::2], words[1::2], strict=True)
                file.write_text(
                    "".join(f"{key[2:]} {value}\n" for key, value in pairs) + "\n".join(self.options) + "\n"
                )
            command = [choose_server().path, file, f"--{self.mode}"]
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.DEVNULL,
            preexec_fn=end_with_parent,  # noqa: PLW1509
        )
        until(self.answers, lambda: (self.directory / "log").read_text()[-2000:])

    def answers(self):
        assert self.process.poll() is None, (self.directory / "log").read_text()[-2000:]
        try:
            return self.do("PING")
        except (BrokerUnavailable, AssertionError):
            return False

    def do(self, *words):
        """The reply of one command; an error is an AssertionError."""
        [reply] = self.node.run_many([plain(as_is, *words)])
        assert not isinstance(reply, BrokerError), f"{self.name} {words}: {reply}"
        return reply

    def info(self, section):
        lines = (line.partition(":") for line in self.do("INFO", section).decode().splitlines())
        return {name: value for name, _, value in lines}

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.node.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()


class Servers:
    """Some servers and their directory."""

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="fr-", dir="/tmp"))
        self.servers = []

    def add(self, *options, **more):
        self.servers.append(Node(self.directory, *options, **more))
        return self.servers[-1]

    def close(self):
        for server in self.servers:
            server.stop()
        shutil.rmtree(self.directory)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Sentinels(Servers):
    """A primary, its replicas, and three Sentinels that fail over within a second or two."""

    def __init__(self, replicas=2, down_after=1000):
        super().__init__()
        self.data = [self.add()]
        self.data += [self.add() for _ in range(replicas)]
        for replica in self.data[1:]:
            replica.do("REPLICAOF", "127.0.0.1", self.data[0].port)
        until(lambda: self.data[0].info("replication")["connected_slaves"] == str(replicas))
        watch = (
            f"sentinel monitor shop 127.0.0.1 {self.data[0].port} 2",
            f"sentinel down-after-milliseconds shop {down_after}",
            "sentinel failover-timeout shop 3000",
            "sentinel parallel-syncs shop 2",
        )
        self.sentinels = [self.add(*watch, mode="sentinel") for _ in range(3)]
        until(self.settled, "the Sentinels have not found one another")

    @property
    def url(self):
        return f"redis+sentinel://{','.join(sentinel.name for sentinel in self.sentinels)}/shop"

    def primary(self):
        """The server that the Sentinels lead to, by the word of most of them."""
        ports = [int(sentinel.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop")[1]) for sentinel in self.sentinels]
        most = max(ports, key=ports.count)
        return next(server for server in self.data if server.port == most)

    def settled(self):
        """Whether all data servers run, replicate from one primary, and every Sentinel sees all of them."""
        try:
            primary = self.primary()
            if primary.info("replication")["role"] != "master":
                return False
            others = [server for server in self.data if server is not primary]
            links = [server.info("replication") for server in others]
            return all(
                link["role"] == "slave"
                and link["master_port"] == str(primary.port)
                and link["master_link_status"] == "up"
                for link in links
            ) and all(self._sees(sentinel, primary, len(others)) for sentinel in self.sentinels)
        except (BrokerUnavailable, KeyError):
            return False

    def _sees(self, sentinel, primary, replicas):
        flat = sentinel.do("SENTINEL", "MASTER", "shop")
        state = dict(zip(flat[::2], flat[1::2], strict=True))
        peers = (int(state[b"num-slaves"]), int(state[b"num-other-sentinels"]))
        return int(state[b"port"]) == primary.port and state[b"flags"] == b"master" and peers == (replicas, 2)

    def fail_over(self, *, stop=False):
        """Kill the primary, or stop it, and wait for another; it comes back as a replica. Seconds without one."""
        old = self.primary()
        began = time.monotonic()
        if stop:
            old.process.send_signal(signal.SIGSTOP)
        else:
            old.kill()
        until(lambda: self.primary() is not old and self._is_primary(self.primary()))
        took = time.monotonic() - began
        # A Sentinel would take some ten seconds to make it one.
        if stop:
            old.process.send_signal(signal.SIGCONT)
            old.do("REPLICAOF", "127.0.0.1", self.primary().port)
        else:
            old.start("--replicaof", f"127.0.0.1 {self.primary().port}")
        until(self.settled, "the old primary is no replica yet")
        return took

    def _is_primary(self, server):
        try:
            return server.info("replication")["role"] == "master"
        except (BrokerUnavailable, AssertionError):
            return False


class RedisCluster(Servers):
    """Six nodes: three primaries with a replica each."""

    def __init__(self, timeout=1000, aof=False):
        super().__init__()
        options = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            timeout,
            "--cluster-replica-validity-factor",
            0,
        ]
        options += ["--appendonly", "yes"] if aof else []
        self.nodes = [self.add(*options) for _ in range(6)]
        first, *others = self.nodes
        for node in others:
            first.do("CLUSTER", "MEET", "127.0.0.1", node.port)
        for number, node in enumerate(self.nodes[:3]):
            bounds = (number * SLOTS // 3, (number + 1) * SLOTS // 3 - 1)
            node.do("CLUSTER", "ADDSLOTSRANGE", *bounds)
        for replica, primary in zip(self.nodes[3:], self.nodes[:3], strict=True):
            identity = self.id(primary)
            until(lambda: identity in replica.do("CLUSTER", "NODES").decode())  # noqa: B023
            replica.do("CLUSTER", "REPLICATE", identity)
        until(self.settled, "the Cluster did not come about")

    @property
    def url(self):
        return f"redis+cluster://{','.join(node.name for node in self.nodes[:3])}"

    def id(self, node):
        return node.do("CLUSTER", "MYID").decode()

    def primaries(self):
        """Those that are up and own slots."""
        return [node for node in self.nodes if self._role(node) == "master" and self.ranges(node)]

    def ranges(self, node):
        """The slots of a node, as words of CLUSTER NODES."""
        for line in node.do("CLUSTER", "NODES").decode().splitlines():
            words = line.split()
            if "myself" in words[2]:
                return [word for word in words[8:] if not word.startswith("[")]
        return []

    def settled(self):
        """Whether all run, all slots have a primary, each of these a replica in step, and all nodes agree."""
        try:
            for node in self.nodes:
                state = node.info("replication")
                if node.do("CLUSTER", "INFO").decode().split()[0] != "cluster_state:ok":
                    return False
                if state["role"] == "slave" and state["master_link_status"] != "up":
                    return False
                lines = [line.split() for line in node.do("CLUSTER", "NODES").decode().splitlines()]
                if len(lines) != len(self.nodes) or any(set(words[2].split(",")) - _SOUND for words in lines):
                    return False
            return all(int(node.info("replication")["connected_slaves"]) >= 1 for node in self.primaries())
        except (BrokerUnavailable, KeyError):
            return False

    def owner(self, key):
        """The primary of the key's slot."""
        slot = self.nodes_alive()[0].do("CLUSTER", "KEYSLOT", key)
        for first, last, primary, *_ in self.nodes_alive()[0].do("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return slot, next(node for node in self.nodes if node.port == primary[1])
        raise AssertionError(f"slot {slot} has no owner")

    def nodes_alive(self):
        return [node for node in self.nodes if node.process.poll() is None]

    def fail_over(self, node):
        """Kill a primary and wait until its replica has its slots; it comes back as a replica. Seconds without it."""
        began = time.monotonic()
        node.kill()
        until(lambda: len(self._awake()) == 3, "no replica was promoted")
        took = time.monotonic() - began
        node.start()
        until(self.settled, "the old primary is no replica yet")
        return took

    def _awake(self):
        alive = self.nodes_alive()
        try:
            owners = {primary[1] for _, _, primary, *_ in alive[0].do("CLUSTER", "SLOTS")}
        except BrokerUnavailable:
            return []
        return [node for node in alive if node.port in owners and self._role(node) == "master"]

    def _role(self, node):
        try:
            return node.info("replication")["role"]
        except (BrokerUnavailable, AssertionError):
            return ""

    def migrate(self, slot, target, batch=10):
        """Move a slot key by key, as `redis-cli --cluster reshard` does; how many keys."""
        source = next(node for node in self.primaries() if self._owns(node, slot))
        moved = 0
        target.do("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id(source))
        source.do("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id(target))
        while keys := source.do("CLUSTER", "GETKEYSINSLOT", slot, batch):
            source.do("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            moved += len(keys)
        for node in (target, source, *self.primaries()):
            node.do("CLUSTER", "SETSLOT", slot, "NODE", self.id(target))
        return moved

    def can_move_whole(self):
        """Whether the servers know CLUSTER MIGRATESLOTS, as Valkey 9 does."""
        [reply] = self.nodes[0].node.run_many([plain(as_is, "CLUSTER", "GETSLOTMIGRATIONS")])
        return not isinstance(reply, BrokerError)

    def migrate_whole(self, slot, target):
        """Move a slot as one."""
        source = next(node for node in self.primaries() if self._owns(node, slot))
        source.do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", self.id(target))
        until(lambda: self._owns(target, slot), lambda: str(source.do("CLUSTER", "GETSLOTMIGRATIONS")))

    def _owns(self, node, slot):
        for word in self.ranges(node):
            first, _, last = word.partition("-")
            if int(first) <= slot <= int(last or first):
                return True
        return False


#: flags of CLUSTER NODES of which none says that something is wrong
_SOUND = {"myself", "master", "slave"}
