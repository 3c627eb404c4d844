"""An empty Redis of its own for a measure: over TCP or a unix socket, with the append-only file or without."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks import processes
from fusiond.broker.call import as_is, plain
from fusiond.broker.redis import embedded
from fusiond.broker.redis.connection import connect
from fusiond.config import model
from fusiond.supervise.server import choose_server

if TYPE_CHECKING:
    from collections.abc import Sequence


class Server:
    """The server that `broker: {url: embedded}` would run, with its options; gone at the end of the block."""

    def __init__(
        self,
        *options: str,
        tcp: bool = False,
        aof: bool = True,
        address: str = "127.0.0.1",
        inside: Sequence[str] = (),
    ) -> None:
        """
        A server, over a unix socket in any case.

        Args:
            options: further ones of its command line.
            tcp: whether it also listens on a port of `address`.
            aof: whether it has an append-only file.
            address: where it listens; other than loopback only where no stranger can reach it, as it has no password.
            inside: a command that runs another one, in front of the server's own: `ip netns exec NAME`.
        """
        self._directory = Path(tempfile.mkdtemp(prefix="fb", dir="/tmp"))
        self.path = self._directory / "redis.sock"
        #: 0: it listens on none
        self.port = _free_port() if tcp else 0
        #: by which this process reaches it, also where `address` is of another network
        self.socket_url = f"unix://{self.path}"
        self.url = f"redis://{address}:{self.port}" if tcp else self.socket_url
        server = choose_server().path
        where = ["--port", f"{self.port}", "--bind", address, "--protected-mode", "no"]
        words = [*embedded.command(server, self._directory, self.path, None), *where]
        self._words = [*inside, *words, "--appendonly", "yes" if aof else "no", *options]
        self._environment = embedded.environment()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._words, stdout=subprocess.DEVNULL, cwd=self._directory, env=self._environment
        )
        self._connection = connect(model.Broker(url=self.socket_url), self._directory)
        try:
            while not embedded.answers(self.path):
                time.sleep(0.01)
        except BaseException:  # Ctrl-C: the block that would end it has not begun
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._directory)

    def ask(self, *words: str) -> Any:
        """The reply to a command."""
        return self._connection.run(plain(as_is, *words))

    def memory(self) -> int:
        """Bytes that its data take up: what it has allocated without the buffers of connections and of its file."""
        fields = self.info("memory")
        buffers = sum(int(fields[name]) for name in ("mem_clients_normal", "mem_aof_buffer"))
        return int(fields["used_memory"]) - buffers

    def info(self, section: str) -> dict[str, str]:
        """A section of INFO."""
        lines = self.ask("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def calls(self) -> dict[str, int]:
        """Command → how often it was called, also by scripts: `evalsha`, `zadd` …"""
        found = self.info("commandstats").items()
        return {name.removeprefix("cmdstat_"): int(said.split(",")[0].partition("=")[2]) for name, said in found}

    def use(self) -> processes.Use:
        """CPU and memory of the server."""
        return processes.use(self._process.pid)["redis"]


def describe_server() -> str:
    """The server's name and version: `Valkey 9.1.2`."""
    return str(choose_server())


def _free_port() -> int:
    """One that nothing listens on, nor 10,000 above, where a node of a Cluster has its bus."""
    while True:
        # Below those that the kernel gives to connections.
        port = random.randrange(12_000, 22_000)
        with socket.socket() as one, socket.socket() as bus, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            bus.bind(("127.0.0.1", port + 10_000))
            return port
