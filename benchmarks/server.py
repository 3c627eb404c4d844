"""An empty Redis of its own for a measure: over TCP or a unix socket, with the append-only file or without."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from benchmarks import processes
from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.connection import connect
from fusiond.broker.redis.embedded import answers, command
from fusiond.config import model
from fusiond.supervise.server import choose_server


class Server:
    """The server that `broker: {url: embedded}` would run, with its options; gone at the end of the block."""

    def __init__(self, *, tcp: bool = False, aof: bool = True) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="fb", dir="/tmp"))
        self.path = self._directory / "redis.sock"
        port = _free_port() if tcp else 0
        self.url = f"redis://127.0.0.1:{port}" if tcp else f"unix://{self.path}"
        options = ["--port", f"{port}", "--bind", "127.0.0.1", "--appendonly", "yes" if aof else "no"]
        found = choose_server()
        #: what it calls itself, with its version
        self.version = str(found)
        self._words = [*command(found.path, self._directory, self.path, None), *options]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._words, stdout=subprocess.DEVNULL, cwd=self._directory)
        while not answers(self.path):
            time.sleep(0.01)
        self._connection = connect(model.Broker(url=f"unix://{self.path}"), self._directory)
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
        lines = self.ask("INFO", "memory").decode().splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        buffers = sum(int(fields[name]) for name in ("mem_clients_normal", "mem_aof_buffer"))
        return int(fields["used_memory"]) - buffers

    def use(self) -> processes.Use:
        """CPU and memory of the server."""
        return processes.use(self._process.pid)["redis"]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
