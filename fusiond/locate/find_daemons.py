"""
Find the daemons of a file, and check that they run it.

1. look    where systemd's variable says, where pointers say, and last where the keys of the file and its path say
2. trust   a listener that is root, this user or the owner of the file; or the owner of a directory that root has made
3. ask     which file it runs; a daemon of another file does not count
4. sort    those that were given the file by this very path first, and those that could be asked

A daemon that may not be asked, or does not answer, counts as this file's unless a pointer says that it runs another.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from fusiond import paths
from fusiond.errors import ControlError, ForeignDaemon
from fusiond.locate import pointers
from fusiond.locate.control import TIMEOUT, ask
from fusiond.status_document import Identity, StatusDocument

#: seconds that a daemon may take to say which file it runs
PATIENCE: Final = 5.0
#: errors of connect() that mean that nobody listens
_NOBODY: Final = {errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED, errno.ELOOP, errno.ENAMETOOLONG}


@dataclass(frozen=True, slots=True)
class Located:
    """A daemon of the file that was asked for."""

    runtime: Path
    #: whether it is `fusiond dev`
    development: bool
    #: the path by which it was given its file
    source: str
    #: its answer to `identity`; None: it could not be asked
    identity: Identity | None = None
    #: the process that answered
    peer: pointers.Peer | None = None
    #: why it could not be asked
    error: ControlError | None = None

    @property
    def pid(self) -> int:
        """Its process; 0 if that is not known."""
        return self.identity["pid"] if self.identity else 0

    def status(self, timeout: float = TIMEOUT) -> StatusDocument:
        """The answer of this very process to `status`. Raises ControlError."""
        return cast("StatusDocument", self.ask("status", timeout=timeout))

    def ask(self, verb: str, *arguments: str, timeout: float = TIMEOUT) -> Any:
        """The answer of this very process to a verb. Raises ControlError."""
        if self.error is not None:
            raise self.error
        return ask(paths.control_socket(self.runtime), verb, *arguments, timeout=timeout, check=self._is_the_same)

    def _is_the_same(self, peer: pointers.Peer) -> None:
        if peer != self.peer:
            raise ControlError(f"{self.runtime}: the daemon was replaced by another meanwhile; try again")


@dataclass(slots=True)
class Daemons:
    """What was found for one file."""

    file: Path
    located: list[Located] = field(default_factory=list)
    #: why a place that was looked at has no daemon of this file
    refused: list[ControlError] = field(default_factory=list)

    @property
    def production(self) -> list[Located]:
        """Those of `fusiond run`."""
        return [each for each in self.located if not each.development]

    @property
    def development(self) -> list[Located]:
        """Those of `fusiond dev`."""
        return [each for each in self.located if each.development]


def locate(file: Path, key: Callable[[], str | None]) -> Daemons:
    """
    The daemons of this file on this host.

    Args:
        file: its absolute path, as `paths.find_config` returns it.
        key: reads the file's `runtime_directory`; is called only if that is needed.
    """
    found, seen = Daemons(file), set[Path]()

    def look(runtime: Path, *, development: bool, pointed: pointers.Pointer | None = None) -> None:
        """Add the daemon that listens there, once."""
        if runtime not in seen:
            seen.add(runtime)
            try:
                found.located += _probe(file, runtime, development=development, pointed=pointed)
            except ControlError as error:
                found.refused.append(error)

    if (given := paths.of_systemd("RUNTIME_DIRECTORY")) is not None:
        look(given, development=False)
    for pointer in pointers.find(file):
        look(Path(pointer.runtime), development=pointer.development, pointed=pointer)
    if not any(each.source == str(file) for each in found.production):
        said = key()
        for development in (False, True):
            look(paths.runtime_directory(file, said, development=development), development=development)
    # Several paths may lead to one file, and each may have a daemon of its own, whose variables differ.
    named = [each for each in found.located if each.source == str(file)]
    found.located = sorted(named or found.located, key=lambda each: each.identity is None)
    return found


def _probe(file: Path, runtime: Path, *, development: bool, pointed: pointers.Pointer | None) -> list[Located]:
    """The daemon there; empty: nobody listens. Raises ControlError if it is another file's, or not to be trusted."""
    control = paths.control_socket(runtime)
    if len(os.fsencode(control)) > paths.LONGEST_CONTROL:
        return []
    peers: list[pointers.Peer] = []

    def check(peer: pointers.Peer) -> None:
        _check_user(file, runtime, peer.uid, pointed=pointed is not None)
        peers.append(peer)

    try:
        identity: Identity = ask(control, "identity", timeout=PATIENCE, check=check)
    except ControlError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _NOBODY:
            return []
        if cause is None:
            raise
        if isinstance(cause, PermissionError):
            _check_owner(file, control, pointed=pointed is not None)
        if other := pointers.other_file(runtime, file):
            raise _foreign(file, other) from None
        return [Located(runtime, development, pointed.file if pointed else str(file), error=error)]
    if not pointers.same_file(identity["source"], file):
        raise _foreign(file, identity["source"])
    return [Located(runtime, identity["development"], identity["source"], identity, peers[-1])]


def _foreign(file: Path, other: str) -> ForeignDaemon:
    return ForeignDaemon(f"the daemon here runs {other}, not {file}; use -c {other}")


def _check_user(file: Path, runtime: Path, uid: int, *, pointed: bool) -> None:
    """Raise ControlError if this user is not trusted to say which daemon runs the file."""
    if uid in pointers.trusted(file) or (not pointed and _is_placed_by_root(runtime, uid)):
        return
    control = paths.control_socket(runtime)
    raise ControlError(f"{control}: user {uid} listens there, who is neither root nor you nor the owner of {file}")


def _check_owner(file: Path, control: Path, *, pointed: bool) -> None:
    """The same for a socket that this user may not connect to."""
    try:
        uid = control.lstat().st_uid
    except OSError:
        return  # its directory is closed to this user: whose it is cannot be known
    _check_user(file, control.parent, uid, pointed=pointed)


def _is_placed_by_root(runtime: Path, uid: int) -> bool:
    """Whether root alone decides who owns that directory, as with /run/fusiond of systemd's unit."""
    try:
        parent = runtime.parent.stat()
        return runtime.stat().st_uid == uid and parent.st_uid == 0 and not parent.st_mode & 0o022
    except OSError:
        return False
