"""A Redis with the options of the embedded one, for all who are compared."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from fusiond.broker import embedded
from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.connection import connect
from fusiond.config import model
from fusiond.supervise.server import choose_server


class Server:
    """An empty server in the block."""

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="fb", dir="/tmp"))
        path = self._directory / "redis.sock"
        self.url = f"unix://{path}"
        words = embedded.command(choose_server().path, self._directory, path, None)
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, cwd=self._directory)
        while not embedded.answers(path):
            time.sleep(0.01)
        self._connection = connect(model.Broker(url=self.url), self._directory)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._directory)

    def ask(self, *words: str) -> Any:
        """The reply to a command."""
        return self._connection.run(plain(as_is, *words))

    def memory(self) -> int:
        """Bytes that it has allocated."""
        fields = self.ask("INFO", "memory").decode().splitlines()
        return int(next(line for line in fields if line.startswith("used_memory:")).partition(":")[2])
