"""
A Redis for one simulation, whose clock is what the simulation says.

1. start    a server without files and without a port, which ends with this process
2. prepare  the scripts of this process: they read a clock that is a key
3. collect  calls, each with the moment at which it is made, and send them in one round trip once a reply is needed
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fusiond.broker import script
from fusiond.broker.call import Call, Plan, as_is, plain
from fusiond.broker.redis import embedded
from fusiond.broker.redis.connection import Connection, connect
from fusiond.config.model import Broker
from fusiond.errors import BrokerError, FusionError
from fusiond.supervise.server import choose_server

T = TypeVar("T")

#: calls that are sent together at most
_MOST = 200
#: s that the server may take to start, and to answer
_PATIENCE = 60.0
#: Sets the clock, and deletes the locks that expire by it.
_CLOCK = b"""
redis.call('MSET', 'clock:s', ARGV[1], 'clock:us', ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'expiries', '-inf', ARGV[3], 'LIMIT', 0, 1000)
if keys[1] then
  redis.call('DEL', unpack(keys))
  redis.call('ZREM', 'expiries', unpack(keys))
end
"""
#: What asks Redis for the time, or has it delete a key after some time: its own clock goes on during a simulation. A
#: rate's key may stay, since what it holds is over by then.
TIMES = {
    "now": {"redis.call('TIME')": "redis.call('MGET', 'clock:s', 'clock:us')"},
    "rate": {", 'PX', whole(math.max(1, math.ceil(spent - MOMENT)))": ""},
    "locks": {
        "redis.call('SET', key, id, 'PX', rule)": (
            "redis.call('SET', key, id) redis.call('ZADD', 'expiries', now + rule, key)"
        ),
        "redis.call('PTTL', key) < 0": "not redis.call('ZSCORE', 'expiries', key)",
    },
}


class VirtualRedis:
    """The connection to it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        #: locks of unique jobs may expire
        self.has_expiries = True
        #: epoch ms
        self.now = 0
        self._calls: list[Call[Any]] = []
        self._on_reply: list[Callable[[Any], None] | None] = []
        #: the moment that the clock in Redis shows
        self._said = -1
        #: the scripts that it has
        self._loaded: set[bytes] = set()

    def add(self, call: Call[Any], on_reply: Callable[[Any], None] | None = None) -> None:
        """Make the call at this moment. Its reply comes with the next `flush`; an error ends the simulation."""
        if self._said != self.now:
            self._said = self.now
            self._calls.append(self._show())
            self._on_reply.append(None)
        if call.script and call.script.sha not in self._loaded:
            # A call whose script Redis lacks is repeated behind those sent with it: a claim would miss the job before.
            self._loaded.add(call.script.sha)
            self._calls.append(plain(as_is, "SCRIPT", "LOAD", call.script.source))
            self._on_reply.append(None)
        self._calls.append(call)
        self._on_reply.append(on_reply)
        if len(self._calls) >= _MOST:
            self.flush()

    def flush(self) -> None:
        """Get the replies. Raises BrokerError."""
        calls, on_reply = self._calls, self._on_reply
        self._calls, self._on_reply = [], []
        for heard, reply in zip(on_reply, self.connection.run_many(calls) if calls else (), strict=True):
            if isinstance(reply, BrokerError):
                raise reply
            if heard:
                heard(reply)

    def run(self, what: Call[T] | Plan[T]) -> T:
        """Run a Call or a Plan at this moment. Raises BrokerError."""
        self._set_clock()
        return self.connection.run(what)

    def run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Run Calls at this moment; in place of a reply that was an error stands a BrokerError, not raised."""
        self._set_clock()
        return self.connection.run_many(calls)

    def _set_clock(self) -> None:
        self.flush()
        if self._said != self.now:
            self._said = self.now
            self.connection.run(self._show())

    def _show(self) -> Call[Any]:
        """Set the clock in Redis."""
        seconds, us = self.now // 1000, self.now % 1000 * 1000
        if self.has_expiries:
            return Call((b"EVAL", _CLOCK, 0, seconds, us, self.now), as_is)
        return Call((b"MSET", b"clock:s", seconds, b"clock:us", us), as_is)

    def memory(self) -> int:
        """Bytes that the server holds."""
        info: bytes = self.connection.run(plain(as_is, "INFO", "memory"))
        return int(info.partition(b"used_memory:")[2].split()[0])


@contextlib.contextmanager
def virtual_redis() -> Iterator[VirtualRedis]:
    """One of them, until the block ends. Raises NoServer, or FusionError where the server does not start."""
    with script.replaced(TIMES), tempfile.TemporaryDirectory(prefix="fusiond-simulation-") as name:
        directory = Path(name)
        path, socket = choose_server().path, directory / "socket"
        words = [path, "--unixsocket", str(socket), "--dir", name, "--port", "0", "--save", "", "--appendonly", "no"]
        server = embedded.launch(words, directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _await_answer(server, path, socket)
            with connect(Broker(f"unix://{directory}/socket"), directory, timeout=_PATIENCE) as connection:
                yield VirtualRedis(connection)
        finally:
            server.kill()
            server.wait()


def _await_answer(server: subprocess.Popen[bytes], path: str, socket: Path) -> None:
    """Wait until the server of that program answers. Raises FusionError."""
    until = time.monotonic() + _PATIENCE
    while not embedded.answers(socket):
        if server.poll() is not None or time.monotonic() > until:
            raise FusionError(f"{path}, which the simulation needs, does not start; try `{path} --version`")
        time.sleep(embedded.GLANCE)
