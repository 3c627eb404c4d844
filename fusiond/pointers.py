"""
Notes that say which file a daemon runs and where it listens, so that commands find it whatever the file holds.

1. leave    one JSON file for each daemon, in the directory of its user's pointers, readable by everyone
2. find     the pointers to a file: by its path as named, or because both paths lead to one file
3. remove   it when the daemon ends

A daemon that is killed leaves its pointer. So a pointer proves nothing: whoever uses it checks who listens there.
Only pointers of root, of this user and of the file's owner are read. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import socket
import stat
import struct
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fusiond import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

#: bytes of a pointer; more is none of ours
_LONGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the daemon of a file is."""

    #: absolute path, as it was named to the daemon
    file: str
    runtime: str
    #: whether it is `fusiond dev`
    development: bool

    def leads_to(self, file: Path) -> bool:
        """Whether it is about this file, under whatever name."""
        return same_file(self.file, file)


class Peer(NamedTuple):
    """The process that listens on a socket, as the kernel knows it."""

    pid: int
    uid: int


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two absolute paths are the same name, or lead to the same file now."""
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
        users: those who may be the one that listens; None: anybody.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.settimeout(1.0)
            probe.connect(str(path))
        except PermissionError:
            return True  # to be told to whoever then uses it
        except OSError:
            return False
        return users is None or peer_of(probe).uid in users


def trusted(file: Path) -> frozenset[int]:
    """The users whose pointers and sockets are believed about this file: root, this user, the file's owner."""
    found = {0, os.geteuid()}
    with contextlib.suppress(OSError):
        found.add(file.stat().st_uid)
    return frozenset(found)


@contextlib.contextmanager
def left(pointer: Pointer) -> Iterator[None]:
    """
    Leave the pointer for as long as the block lasts. Pointers of other daemons to the same socket are removed.

    Raises:
        OSError: it cannot be left; a directory that another user made in its place is one of the reasons.
    """
    directory = paths.pointers(os.geteuid())
    base = _own_directory(directory.parent, 0o711)
    try:
        # systemd-tmpfiles removes what is old in /tmp, but leaves directories alone that somebody has locked.
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(base, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.close(_own_directory(directory, 0o755))
        path = directory / f"{_name(pointer)}.json"
        _remove_others(directory, pointer)
        _write(path, json.dumps(asdict(pointer)).encode())
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(base)


def find(file: Path) -> list[Pointer]:
    """The pointers to this file: those by this very name first, the newest of them first, then those by others."""
    found = [
        ((pointer.file == os.fspath(file), seen.st_mtime_ns), pointer)
        for uid in trusted(file)
        for seen, pointer in _of_user(uid)
        if pointer.leads_to(file)
    ]
    return [pointer for _, pointer in sorted(found, key=lambda each: each[0], reverse=True)]


def other_file(runtime: Path, file: Path) -> str:
    """The other file whose daemon has this runtime directory, as pointers say; "" where none has, or this file's."""
    users = set(trusted(file))
    with contextlib.suppress(OSError):
        users.add(runtime.stat().st_uid)
    found = [pointer for uid in users for _, pointer in _of_user(uid) if pointer.runtime == os.fspath(runtime)]
    return "" if any(pointer.leads_to(file) for pointer in found) else next((one.file for one in found), "")


def _name(pointer: Pointer) -> str:
    """Of one daemon: two of the same file have other directories."""
    where = hashlib.sha256(os.fsencode(pointer.runtime)).hexdigest()[:8]
    return f"{paths.own_name(Path(pointer.file))}-{where}"


def _own_directory(directory: Path, mode: int) -> int:
    """A descriptor of the directory, made if it is missing, this user's alone to write. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=mode)
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    if os.fstat(number).st_uid != os.geteuid():
        os.close(number)
        raise PermissionError(errno.EPERM, "it belongs to another user", str(directory))
    os.fchmod(number, mode)
    return number


def _remove_others(directory: Path, pointer: Pointer) -> None:
    """Remove what points to this daemon's runtime directory, and what points to none any more."""
    for path in directory.glob("*.json"):
        known = _read(path, os.geteuid())
        if known is None or known[1].runtime == pointer.runtime or not os.path.lexists(known[1].runtime):
            path.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    """Atomically; not durably: after a crash of the machine no daemon listens."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o644)) as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(content)
    temporary.replace(path)


def _of_user(uid: int) -> Iterator[tuple[os.stat_result, Pointer]]:
    """What this user's daemons have left."""
    directory = paths.pointers(uid)
    with contextlib.suppress(OSError):
        if directory.parent.lstat().st_uid == directory.lstat().st_uid == uid:
            for path in directory.glob("*.json"):
                found = _read(path, uid)
                if found is not None:
                    yield found


def _read(path: Path, uid: int) -> tuple[os.stat_result, Pointer] | None:
    """A pointer that this user wrote; None: it is gone, another user's, or none."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            seen = os.fstat(file.fileno())
            if seen.st_uid != uid or not stat.S_ISREG(seen.st_mode):
                return None
            said = json.loads(file.read(_LONGEST))
            return seen, Pointer(_path(said["file"]), _path(said["runtime"]), bool(said["development"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _path(said: object) -> str:
    """A path that a pointer holds. Raises ValueError where it is none."""
    if not isinstance(said, str) or not said.startswith("/") or "\0" in said:
        raise ValueError(said)
    return said
