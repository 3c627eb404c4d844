"""
The daemon's own directories, for state and for sockets: private, and one daemon's at a time.

A directory below /tmp may have been made by another user, and one that was open once may hold another user's files:
both are refused. The state directory is locked for as long as the daemon runs, and names the file that it belongs to.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from fusiond import paths
from fusiond.errors import FusionError
from fusiond.files import write_atomically


def make_private(directory: Path, *, open_to_others: bool = False) -> None:
    """
    Make the directory if it is missing; owned by this user, 0700.

    Args:
        directory: an absolute path.
        open_to_others: 0711: others may pass through to a socket that they may use.

    Raises:
        FusionError: it cannot be made, or it belongs to another user, or something in it does.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The symlink itself, too: another user may have made one below /tmp that leads to a directory of ours.
        for seen, owners in ((directory.lstat(), (os.geteuid(), 0)), (directory.stat(), (os.geteuid(),))):
            if seen.st_uid not in owners:
                raise FusionError(
                    f"{directory} belongs to user {seen.st_uid};"
                    " remove it, or set state_directory and runtime_directory"
                )
        directory.chmod(0o711 if open_to_others else 0o700)
        # It may have been open to others before, and the daemon would read their files as its own.
        for entry in directory.iterdir():
            with contextlib.suppress(FileNotFoundError):
                owner = entry.lstat().st_uid
                if owner not in (os.geteuid(), 0):
                    raise FusionError(f"{entry} belongs to user {owner}, and the daemon would read it; remove it")
    except OSError as error:
        raise FusionError(
            f"{directory}: {error.strerror}; make it writable, or set state_directory and runtime_directory"
        ) from error


@contextlib.contextmanager
def writing_to(state: Path) -> Iterator[None]:
    """Raises FusionError for an OSError in the block: a full or failing disk is not a mistake in the code."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise FusionError(
            f"{state} cannot be written: {reason}; make room there, or set state_directory to another place"
        ) from error


@contextlib.contextmanager
def locked(state: Path) -> Iterator[None]:
    """Lock the state directory during the block; the kernel unlocks it if the daemon is killed. Raises FusionError."""
    with writing_to(state):
        file = paths.lock_file(state).open("a+")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "?"
            runs = _owner(state)
            raise FusionError(
                f"{state} is in use by another daemon (pid {holder}{runs and f', which runs {runs}'});"
                " stop it, or set state_directory to another place"
            ) from None
        with writing_to(state):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        yield


def take_over(state: Path, source: Path, *, given: bool) -> None:
    """
    Note in the locked state directory that it belongs to this file from now on.

    Args:
        state: the directory.
        source: the file.
        given: whether somebody chose this directory for this file.

    Raises:
        FusionError: it belongs to another file, and nobody chose it for this one.
    """
    before = _owner(state)
    if before == str(source):
        return
    if before and not given:
        raise FusionError(f"{state} is the state directory of {before}; set state_directory in {source}")
    if before:
        print(f"{state} was the state directory of {before}; it is that of {source} from now on", file=sys.stderr)
    write_atomically(paths.owner_record(state), json.dumps({"file": str(source)}).encode())


def _owner(state: Path) -> str:
    """The file whose daemon used the directory last; "" if there is none, or the record cannot be read."""
    try:
        return str(json.loads(paths.owner_record(state).read_bytes())["file"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def make_runtime(runtime: Path, *, control_open: bool, redis_open: bool) -> None:
    """
    Make the directory for sockets, without the control socket of a daemon that was killed.

    Args:
        runtime: the directory.
        control_open: whether other users may use the control socket.
        redis_open: the same for the socket of the embedded server.

    Raises:
        FusionError: it cannot be made, or another daemon listens there.
    """
    if runtime.is_relative_to(base := paths.user_runtime()):
        make_private(base, open_to_others=True)
    make_private(runtime, open_to_others=control_open or redis_open)
    make_private(paths.redis_socket(runtime).parent, open_to_others=redis_open)
    _remove_old_socket(paths.control_socket(runtime))


def _remove_old_socket(control: Path) -> None:
    """Remove the control socket of a daemon that was killed. Raises FusionError if a daemon listens on it."""
    longest = paths.LONGEST_CONTROL
    if len(os.fsencode(control)) > longest:
        raise FusionError(
            f"{control} is longer than a socket's path may be ({longest} bytes); set a shorter runtime_directory"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(control))
        except OSError:
            control.unlink(missing_ok=True)
            return
    raise FusionError(f"another daemon listens on {control}; stop it, or set runtime_directory to another place")


def remove_leftovers(state: Path) -> None:
    """Remove what a killed daemon left: candidates, and the log tails of its programs."""
    for left in (*state.glob("candidate-*.json"), *(state / "tail").glob("*.log")):
        left.unlink(missing_ok=True)
