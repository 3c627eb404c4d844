"""
Pointers: small files that say which file each daemon runs and where it listens, so that commands find the daemon.

1. leave    one JSON file for each daemon, in its user's directory of pointers, readable by everyone
2. find     the pointers to a file, by its path or because both paths lead to the same file
3. remove   the pointer when the daemon ends

A daemon that is killed leaves its pointer behind. So whoever uses a pointer checks which process listens there.
Only pointers of root, of this user and of the file's owner are read. Standard library only.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import socket
import stat
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from fusiond.files import write_atomically
from fusiond.paths import control_socket, own_name
from fusiond.paths import pointers as pointers_of

#: bytes; no pointer is longer
_LONGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the daemon of a file is."""

    #: absolute path, as the daemon was given it
    file: str
    runtime: str
    state: str
    #: whether it is `fusiond dev`
    development: bool

    def leads_to(self, file: Path) -> bool:
        """Whether the daemon runs this file, by this or another path."""
        return same_file(self.file, file)


class Peer(NamedTuple):
    """The process that listens on a socket, as the kernel reports it."""

    pid: int
    uid: int


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two absolute paths are equal, or lead to the same file now."""
    return os.fspath(one) == os.fspath(other) or os.path.realpath(one) == os.path.realpath(other)


def peer_of(connected: socket.socket) -> Peer:
    """The process that listens at the other end of a unix socket."""
    found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", found)
    return Peer(pid, uid)


def is_listening(path: Path, users: frozenset[int] | None) -> bool:
    """
    Whether a process listens on a unix socket.

    Args:
        path: the socket.
        users: the users whose processes count; None: all.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.settimeout(1.0)
            probe.connect(str(path))
        except PermissionError:
            return True  # whoever uses the socket gets that error, too
        except OSError:
            return False
        return users is None or peer_of(probe).uid in users


def trusted(file: Path) -> frozenset[int]:
    """The users whose pointers to this file are trusted: root, this user, the file's owner."""
    found = {0, os.geteuid()}
    with contextlib.suppress(OSError):
        found.add(file.stat().st_uid)
    return frozenset(found)


@contextlib.contextmanager
def left(pointer: Pointer) -> Iterator[None]:
    """
    Leave the pointer while the block runs. Other pointers to the same runtime directory are removed.

    Raises:
        OSError: the pointer cannot be written, for instance because another user made a directory in its place.
    """
    directory = pointers_of(os.geteuid())
    base = _own_directory(directory.parent, 0o711)
    try:
        # systemd-tmpfiles removes old files in /tmp, but not from a directory that somebody has locked.
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(base, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.close(_own_directory(directory, 0o755))
        path = directory / f"{_name(pointer)}.json"
        _remove_others(directory, pointer)
        # Not durable: after a crash of the machine no daemon listens.
        write_atomically(path, json.dumps(asdict(pointer)).encode(), mode=0o644, durable=False)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(base)


def find(file: Path) -> list[Pointer]:
    """The pointers to this file: first those with this very path, the newest first, then those with another path."""
    found = [
        ((pointer.file == os.fspath(file), seen.st_mtime_ns), pointer)
        for uid in trusted(file)
        for seen, pointer in _of_user(uid)
        if pointer.leads_to(file)
    ]
    return [pointer for _, pointer in sorted(found, key=lambda each: each[0], reverse=True)]


def is_run(file: Path) -> bool:
    """Whether a production daemon of this file listens."""
    sockets = [control_socket(Path(pointer.runtime)) for pointer in find(file) if not pointer.development]
    return any(is_listening(path, trusted(file)) for path in sockets)


def other_file(runtime: Path, file: Path) -> str:
    """The other file whose daemon uses this runtime directory; "" if there is none, or if it is this file's."""
    users = set(trusted(file))
    with contextlib.suppress(OSError):
        users.add(runtime.stat().st_uid)
    found = [pointer for uid in users for _, pointer in _of_user(uid) if pointer.runtime == os.fspath(runtime)]
    return "" if any(pointer.leads_to(file) for pointer in found) else next((one.file for one in found), "")


def _name(pointer: Pointer) -> str:
    """The name of a daemon's pointer; two daemons of one file differ in their runtime directory."""
    where = hashlib.sha256(os.fsencode(pointer.runtime)).hexdigest()[:8]
    return f"{own_name(Path(pointer.file))}-{where}"


def _own_directory(directory: Path, mode: int) -> int:
    """A descriptor of this user's directory, which is made if it is missing. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=mode)
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    if os.fstat(number).st_uid != os.geteuid():
        os.close(number)
        raise PermissionError(errno.EPERM, "it belongs to another user", str(directory))
    os.fchmod(number, mode)
    return number


def _remove_others(directory: Path, pointer: Pointer) -> None:
    """Remove the pointers to this daemon's runtime directory, and those to a directory that does not exist."""
    for path in directory.glob("*.json"):
        known = _read(path, os.geteuid())
        if known is None or known[1].runtime == pointer.runtime or not os.path.lexists(known[1].runtime):
            path.unlink(missing_ok=True)


def _of_user(uid: int) -> Iterator[tuple[os.stat_result, Pointer]]:
    """The pointers of this user's daemons."""
    directory = pointers_of(uid)
    with contextlib.suppress(OSError):
        if directory.parent.lstat().st_uid == directory.lstat().st_uid == uid:
            yield from filter(None, (_read(path, uid) for path in directory.glob("*.json")))


def _read(path: Path, uid: int) -> tuple[os.stat_result, Pointer] | None:
    """A pointer that this user wrote; None if it is gone, malformed, or another user's."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            seen = os.fstat(file.fileno())
            if seen.st_uid != uid or not stat.S_ISREG(seen.st_mode):
                return None
            said = json.loads(file.read(_LONGEST))
            runs, runtime, state = (_path(said[name]) for name in ("file", "runtime", "state"))
            return seen, Pointer(runs, runtime, state, bool(said["development"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _path(said: object) -> str:
    """An absolute path. Raises ValueError if it is anything else."""
    if not isinstance(said, str) or not said.startswith("/") or "\0" in said:
        raise ValueError(said)
    return said
