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
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BRIDGE = "lan"
_CABLE = Path(__file__).parent / "cable.py"


class Network:
    """The hosts that `network` has made."""

    def __init__(self, *names: str) -> None:
        self._names = names
        #: what carries the frames of the host that is far away
        self.cable: subprocess.Popen[str] | None = None

    def address(self, name: str) -> str:
        """The IPv4 address of a host."""
        return f"10.0.0.{self._names.index(name) + 1}"

    def inside(self, name: str) -> list[str]:
        """The words in front of a command that is to run on that host, as the same process."""
        return [*_within(name), "unshare", "--uts", "sh", "-c", _ON_HOST, name]

    def delay(self, seconds: float) -> None:
        """From now on, hold back each frame to and from the host that is far away for so long."""
        assert self.cable is not None
        assert self.cable.stdin is not None
        self.cable.stdin.write(f"{seconds}\n")
        self.cable.stdin.flush()


_ON_HOST = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'


@contextlib.contextmanager
def network(*names: str, far: str | None = None) -> Iterator[Network]:
    """
    Hosts of these names, of at most 10 letters, that reach one another; SystemExit where they cannot be made.

    `far`: the name of one whose frames can be delayed.
    """
    _check()
    made = Network(*names)
    try:
        _ip("netns", "add", _namespace(_BRIDGE))
        _ip("-n", _namespace(_BRIDGE), "link", "add", _BRIDGE, "type", "bridge")
        _ip("-n", _namespace(_BRIDGE), "link", "set", _BRIDGE, "up")
        for name in names:
            _ip("netns", "add", _namespace(name))
            if name == far:
                made.cable = _lay_cable(name)
            else:
                _plug_in(name)
            _set_up(name, made.address(name))
        yield made
    finally:
        if made.cable is not None:
            made.cable.communicate()
        for name in (*names, _BRIDGE):
            _remove(_namespace(name))


def _check() -> None:
    if os.geteuid():
        raise SystemExit("network namespaces need root: run this as root, or in a container with CAP_SYS_ADMIN")
    for program, package in (("ip", "iproute2"), ("unshare", "util-linux")):
        if shutil.which(program) is None:
            raise SystemExit(f"there is no `{program}` on this machine: apt-get install {package}")


def _plug_in(name: str) -> None:
    """A host's device `eth0`, whose other end is at the bridge and has the host's name."""
    peer = ["peer", "name", "eth0", "netns", _namespace(name)]
    _ip("-n", _namespace(_BRIDGE), "link", "add", name, "type", "veth", *peer)
    _ip("-n", _namespace(_BRIDGE), "link", "set", name, "master", _BRIDGE, "up")


def _lay_cable(name: str) -> subprocess.Popen[str]:
    """The same, with a process between the two ends."""
    words = [*_within(_BRIDGE), sys.executable, "-I", "-S", str(_CABLE), name, "far"]
    cable = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert cable.stdout is not None
    if not cable.stdout.readline():
        cable.communicate()
        raise SystemExit("the cable has no TAP devices: this needs /dev/net/tun, `modprobe tun`")
    _ip("-n", _namespace(_BRIDGE), "link", "set", name, "master", _BRIDGE, "up")
    _ip("-n", _namespace(_BRIDGE), "link", "set", "far", "netns", _namespace(name))
    _ip("-n", _namespace(name), "link", "set", "far", "name", "eth0")
    return cable


def _set_up(name: str, address: str) -> None:
    _ip("-n", _namespace(name), "address", "add", f"{address}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        _ip("-n", _namespace(name), "link", "set", device, "up")


def _remove(namespace: str) -> None:
    """With what still runs there: a namespace lives as long as its processes."""
    left = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False).stdout
    for pid in map(int, left.split()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)


def _within(name: str) -> list[str]:
    return ["ip", "netns", "exec", _namespace(name)]


def _namespace(name: str) -> str:
    return f"fusiond-{os.getpid()}-{name}"


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ip {' '.join(words)}: {done.stderr.strip()}")
