"""
Hosts of their own on one machine: network namespaces with host names, on one bridge.

Nothing is made in the machine's own network: the bridge is in a namespace, too. What the namespaces hold goes with
them, and they go at the end of the block, also after Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BRIDGE = "lan"


class Network:
    """The hosts that `network` has made."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def address(self, name: str) -> str:
        """The IPv4 address of a host."""
        return f"10.0.0.{self._names.index(name) + 1}"

    def inside(self, name: str) -> list[str]:
        """The words in front of a command that is to run on that host, as the same process."""
        return ["ip", "netns", "exec", _namespace(name), "unshare", "--uts", "sh", "-c", _ON_HOST, name]


_ON_HOST = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'


@contextlib.contextmanager
def network(*names: str) -> Iterator[Network]:
    """Hosts of these names, of at most 10 letters, that reach one another; SystemExit where they cannot be made."""
    _check()
    made = Network(*names)
    try:
        _ip("netns", "add", _namespace(_BRIDGE))
        _ip("-n", _namespace(_BRIDGE), "link", "add", _BRIDGE, "type", "bridge")
        _ip("-n", _namespace(_BRIDGE), "link", "set", _BRIDGE, "up")
        for name in names:
            _add_host(name, made.address(name))
        yield made
    finally:
        for name in (*names, _BRIDGE):
            _remove(_namespace(name))


def _check() -> None:
    if os.geteuid():
        raise SystemExit("network namespaces need root: run this as root, or in a container with CAP_SYS_ADMIN")
    for program, package in (("ip", "iproute2"), ("unshare", "util-linux")):
        if shutil.which(program) is None:
            raise SystemExit(f"there is no `{program}` on this machine: apt-get install {package}")


def _add_host(name: str, address: str) -> None:
    host, bridge = _namespace(name), _namespace(_BRIDGE)
    _ip("netns", "add", host)
    _ip("-n", bridge, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", host)
    _ip("-n", bridge, "link", "set", name, "master", _BRIDGE, "up")
    _ip("-n", host, "address", "add", f"{address}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        _ip("-n", host, "link", "set", device, "up")


def _remove(namespace: str) -> None:
    """With what still runs there: a namespace lives as long as its processes."""
    left = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False).stdout
    for pid in map(int, left.split()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)


def _namespace(name: str) -> str:
    return f"fusiond-{os.getpid()}-{name}"


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ip {' '.join(words)}: {done.stderr.strip()}")
