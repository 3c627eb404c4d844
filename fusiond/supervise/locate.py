"""
Find the daemons of a file, and prove that they run it.

1. look    where systemd's variable says, where pointers say, and last where the file's keys and its path say
2. trust   a listener that is root, this user or the file's owner; or the owner of a directory that root has placed
3. ask     which file it runs; a daemon of another file is none
4. choose  the production daemon and `fusiond dev` apart

A daemon that may not be asked, or does not answer, counts as this file's where nothing says that it runs another.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fusiond import paths, pointers
from fusiond.errors import ControlError, ForeignDaemon
from fusiond.supervise.control import TIMEOUT, ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    #: its file, as it was named to it
    source: str
    #: what it answered to `identity`; None: it could not be asked
    identity: dict[str, Any] | None = None
    #: the process that answered
    peer: pointers.Peer | None = None
    #: why it could not be asked
    error: ControlError | None = None

    @property
    def pid(self) -> int:
        """Its process; 0 where that is not known."""
        return int(self.identity.get("pid", 0)) if self.identity else 0

    def ask(self, verb: str, *arguments: str, timeout: float = TIMEOUT) -> dict[str, Any]:
        """What this very process answers to a verb. Raises ControlError."""
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
    production: list[Located] = field(default_factory=list)
    development: list[Located] = field(default_factory=list)
    #: why a place that was looked at has none of this file
    refused: list[ControlError] = field(default_factory=list)

    def all(self) -> Iterator[Located]:
        """Those of both kinds."""
        yield from self.production
        yield from self.development

    def runs_by_this_name(self, kind: list[Located]) -> bool:
        """Whether one of them was given the file by this very path."""
        return any(located.source == str(self.file) for located in kind)

    def prefer_this_name(self) -> None:
        """
        Leave out the daemons that run the file by another name, where one runs it by this one.

        Several names may lead to one file, and each have a daemon of its own: their variables differ.
        """
        if self.runs_by_this_name([*self.all()]):
            for kind in (self.production, self.development):
                kind[:] = [located for located in kind if located.source == str(self.file)]


def locate(file: Path, key: Callable[[], str | None]) -> Daemons:
    """
    The daemons of this file on this host.

    Args:
        file: its absolute path, as `paths.find_config` returns it.
        key: reads the file's `runtime_directory`; is called only where that is needed.
    """
    found, seen = Daemons(file), set[Path]()

    def look(runtime: Path, *, development: bool, pointed: pointers.Pointer | None = None) -> None:
        if runtime in seen:
            return
        seen.add(runtime)
        try:
            located = _probe(file, runtime, development=development, pointed=pointed)
        except ControlError as error:
            found.refused.append(error)
            return
        if located is not None:
            (found.development if located.development else found.production).append(located)

    if (given := paths.of_systemd("RUNTIME_DIRECTORY")) is not None:
        look(given, development=False)
    for pointer in pointers.find(file):
        look(Path(pointer.runtime), development=pointer.development, pointed=pointer)
    if not found.runs_by_this_name(found.production):
        said = key()
        for development in (False, True):
            look(paths.runtime_directory(file, said, development=development), development=development)
    found.prefer_this_name()
    for kind in (found.production, found.development):
        kind.sort(key=lambda located: located.identity is None)
    return found


def _probe(file: Path, runtime: Path, *, development: bool, pointed: pointers.Pointer | None) -> Located | None:
    """The daemon there; None: nobody listens. Raises ControlError where it is not this file's, or not to be trusted."""
    control = paths.control_socket(runtime)
    if len(os.fsencode(control)) > paths.LONGEST_CONTROL:
        return None
    peers: list[pointers.Peer] = []

    def check(peer: pointers.Peer) -> None:
        _check_user(file, runtime, peer.uid, pointed=pointed is not None)
        peers.append(peer)

    try:
        identity = ask(control, "identity", timeout=PATIENCE, check=check)
    except ControlError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _NOBODY:
            return None
        if cause is None:
            raise
        if isinstance(cause, PermissionError):
            _check_owner(file, control, pointed=pointed is not None)
        _check_pointers(file, runtime)
        return Located(runtime, development, pointed.file if pointed else str(file), error=error)
    runs = str(identity.get("source", "?"))
    if not pointers.same_file(runs, file):
        raise ForeignDaemon(f"the daemon here runs {runs}, not {file}; use -c {runs}")
    return Located(runtime, bool(identity.get("development")), runs, identity, peers[-1])


def _check_user(file: Path, runtime: Path, uid: int, *, pointed: bool) -> None:
    """Raise ControlError where what this user says of the file is not to be believed."""
    if uid in pointers.trusted(file) or (not pointed and _is_placed_by_root(runtime, uid)):
        return
    control = paths.control_socket(runtime)
    raise ControlError(f"{control}: user {uid} listens there, who is neither root nor you nor the owner of {file}")


def _check_owner(file: Path, control: Path, *, pointed: bool) -> None:
    """The same of a socket that may not be connected to."""
    try:
        uid = control.lstat().st_uid
    except OSError:
        return  # its directory is closed to this user: another one, or an attacker, cannot be told from it
    _check_user(file, control.parent, uid, pointed=pointed)


def _is_placed_by_root(runtime: Path, uid: int) -> bool:
    """Whether root alone decides whose directory that is, as with /run/fusiond of systemd's unit."""
    try:
        parent = runtime.parent.stat()
        return runtime.stat().st_uid == uid and parent.st_uid == 0 and not parent.st_mode & 0o022
    except OSError:
        return False


def _check_pointers(file: Path, runtime: Path) -> None:
    """Raise ForeignDaemon where the daemon there left a pointer to another file."""
    if other := pointers.other_file(runtime, file):
        raise ForeignDaemon(f"the daemon here runs {other}, not {file}; use -c {other}")
