"""What this machine and its kernel bound: memory, a socket's path, directories that lie on one another."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fusiond.config.lint.walk import said
from fusiond.config.quota import memory_limit
from fusiond.config.units import written_size
from fusiond.paths import LONGEST_CONTROL, control_socket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Config
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node, Place

#: bytes of sun_path, its closing NUL aside
_LONGEST_SOCKET: Final = 107


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each value that is beyond what there is."""
    yield from _sockets(root, config)
    state, runtime = config.state_directory, config.runtime_directory
    if state is not None and state == runtime and (node := root.get("runtime_directory")) is not None:
        message = "state_directory and runtime_directory are one: their redis/ would be one, too"
        yield node.place.error("same-directory", message, "write another directory")


def check_memory(root: Node, config: Config) -> Iterator[Problem]:
    """The sum over all groups of what their children may grow to, against what this machine has."""
    available = memory_limit()
    shares = {name: group.processes * group.max_memory for name, group in config.workers.items() if group.max_memory}
    total = sum(shares.values())
    if total > available:
        largest = max(shares, key=lambda name: shares[name])
        node = said(root, "workers", largest, "max_memory")
        terms = " + ".join(
            f"{config.workers[name].processes} × {written_size(share // config.workers[name].processes)}"
            for name, share in shares.items()
        )
        there = written_size(available >> 20 << 20)  # whole MiB: nobody counts a machine's memory in bytes
        message = f"max_memory comes to {written_size(total)} ({terms}), and this machine has {there}"
        place = node.place if node is not None else root.nearest("workers", largest)
        yield place.warning("memory-above-host", message, "lower max_memory or processes")


def _sockets(root: Node, config: Config) -> Iterator[Problem]:
    runtime, url = root.get("runtime_directory"), root.get("broker", "url")
    if runtime is not None and config.runtime_directory is not None:
        # Redis' own is longer by less than the most that it may be longer.
        yield from _socket(runtime.place, str(control_socket(Path(config.runtime_directory))), LONGEST_CONTROL)
    if url is not None and config.broker.url.startswith("unix:"):
        yield from _socket(url.place, urlsplit(config.broker.url).path)


def _socket(place: Place, path: str, longest: int = _LONGEST_SOCKET) -> Iterator[Problem]:
    length = len(os.fsencode(path))
    if length > longest:
        message = f"the path of {os.path.basename(path)} would be {length} bytes long, and {longest} are the most"  # noqa: PTH119
        yield place.error("socket-path-too-long", message, "write a shorter directory, such as /run/fusiond")
