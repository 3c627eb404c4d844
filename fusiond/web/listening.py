"""The socket on which the dashboard listens: of an address and a port, or a path that the file names."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from fusiond.config.model.web_face import Web


def listener(settings: Web, runtime: Path) -> socket.socket:
    """A socket that listens. Raises OSError."""
    sock = _at_path(Path(settings.socket), settings.socket_group, runtime) if settings.socket else _at(settings.listen)
    sock.listen(128)
    sock.setblocking(False)
    return sock


def _at(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, where = found[0]
    sock = socket.socket(family, kind, protocol)
    with _closed_on_error(sock):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
    return sock


def _at_path(path: Path, group: str | None, runtime: Path) -> socket.socket:
    """One that the daemon's user and the group may connect to."""
    remove_stale(path)
    sock = socket.socket(socket.AF_UNIX)
    with _closed_on_error(sock):
        sock.bind(str(path))  # nobody can connect before it listens
        if group:
            _give(path, group)
        path.chmod(0o660)
        if path.parent == runtime:
            runtime.chmod(0o711)  # others may pass through to this socket
    return sock


@contextlib.contextmanager
def _closed_on_error(sock: socket.socket) -> Iterator[None]:
    try:
        yield
    except OSError:
        sock.close()
        raise


def remove_stale(path: Path) -> None:
    """Remove a socket on which nobody listens any more. Raises OSError if somebody does, or it is no socket."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(errno.EEXIST, "it is there, and is no socket")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            probe.connect(str(path))
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
        return
    except BlockingIOError:  # so many wait to be let in
        pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _give(path: Path, group: str) -> None:
    """Raises OSError."""
    try:
        os.chown(path, -1, grp.getgrnam(group).gr_gid)
    except KeyError:
        raise OSError(errno.EINVAL, f"there is no group {group!r}; groupadd {group}") from None
    except PermissionError:
        sentence = f"the daemon's user may not give it to group {group!r}; add the user to it"
        raise PermissionError(errno.EPERM, sentence) from None


def url_of(address: str, port: int) -> str:
    """Where a browser of this machine finds it."""
    host = address.rpartition(":")[0]
    return f"http://{'127.0.0.1' if host == '0.0.0.0' else '[::1]' if host == '[::]' else host}:{port}/"  # noqa: S104
