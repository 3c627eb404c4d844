"""
From a file's path to a running daemon.

1. read       and validate the file in the helper process; problems are printed and end the start with 78
2. directories that only this user can write, for state and for sockets
3. lock       the state directory: one daemon each; where it was another file's, take it over or refuse
4. accept     the configuration, as a reload would: a new number if its content is new. A rollback stands for as long as
              the file says what was rolled back
5. run        the loop, and leave a pointer for the commands meanwhile
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import grp
import json
import logging
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond import hook, logs, paths, pointers
from fusiond.config.accepted import diff, history
from fusiond.config.accepted import snapshot as snapshots
from fusiond.config.accepted.snapshot import Snapshot, read_snapshot
from fusiond.config.endpoints import with_namespace
from fusiond.errors import ConfigError, FusionError
from fusiond.identity import daemon_id
from fusiond.program import EX_CONFIG
from fusiond.supervise.daemon import Daemon
from fusiond.supervise.notify import Notify
from fusiond.supervise.programs import SCHEDULER, Places
from fusiond.supervise.reload.reading import Reading, Result, for_reload, watched
from fusiond.supervise.server import NoServer, choose_server
from fusiond.supervise.supervisord.daemon_options import DaemonOptions
from fusiond.supervise.watch import as_read, fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fusiond.config.model import Config

log = logging.getLogger(__name__)


def run(config_path: Path, *, only: Sequence[str] = (), last_good: bool = False, development: bool = False) -> int:
    """
    Run the daemon in the foreground until it is told to end.

    Args:
        config_path: the YAML file.
        only: names of groups, or `scheduler`; empty: all.
        last_good: start from the configuration that was accepted last, whatever the file says now.
        development: small, with a broker of its own, and code is taken in as it is saved: `fusiond dev`.

    Returns:
        the exit status: 0, or 78 where the file cannot be used.

    Raises:
        FusionError: it cannot start here; says what to do.
    """
    _run_hook()
    notify = Notify()
    source = config_path.absolute()
    found, read = _read(source, development=development)
    if read.problems and not (last_good and found is None):
        print(read.text, file=sys.stderr)
    if found is None and not last_good:
        return EX_CONFIG
    key = found.state_directory if found else read.state_directory
    state = paths.state_directory(source, key, development=development)
    make_private(state)
    with locked(state), contextlib.ExitStack() as during:
        _take_over(state, source, given=paths.is_given_state(source, key))
        daemon_id(state)
        if last_good:
            accepted = _last_good(state, found, source)
        else:
            accepted = _rolled_back(state, found, source) or _accept(state, found, source)
        try:
            daemon = _daemon(accepted, state, frozenset(only), notify, development=development)
        except NoServer as error:
            print(f"fusiond: {error}", file=sys.stderr)
            return EX_CONFIG
        _record(state, accepted, "fusiond run --last-good" if last_good else "fusiond run")
        files = watched(source, read.files)
        seen = as_read(fingerprint(files), read.stats)
        daemon.reloads.remember(files, seen, snapshots.content_hash(found) if found else "")
        _leave_pointer(during, pointers.Pointer(str(source), str(daemon.places.runtime), development))
        daemon.main()
    logs.stop()
    return 0


def _run_hook() -> None:
    """Run the file that FUSIOND_HOOK names. Raises FusionError."""
    try:
        hook.run("supervisor")
    except (OSError, ValueError) as error:
        raise FusionError(str(error)) from None


def _read(source: Path, *, development: bool) -> tuple[Config | None, Result]:
    """The file's configuration, None where it cannot be used, and how it was read. Raises FusionError."""
    with tempfile.TemporaryDirectory(prefix="fusiond-") as directory:
        out = Path(directory) / "candidate.json"
        arguments = for_reload(out, 1, development=development)
        try:
            with contextlib.closing(Reading(source, set(), arguments)) as reading:
                result = reading.wait()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FusionError(f"{source} could not be validated: {error}") from error
        return read_snapshot(out).config if result.usable else None, result


def _take_over(state: Path, source: Path, *, given: bool) -> None:
    """
    Note in the state directory whose it is from now on. The caller holds its lock.

    Raises:
        FusionError: it is another file's, and nobody has said that this file is to have it.
    """
    record = paths.owner_record(state)
    before = _owner(record)
    if before == str(source):
        return
    if before and not given:
        raise FusionError(f"{state} is the state directory of {before}; set state_directory in {source}")
    if before:
        print(f"{state} was the state directory of {before}; it is that of {source} from now on", file=sys.stderr)
    snapshots.write_atomically(record, json.dumps({"file": str(source)}).encode())


def _owner(record: Path) -> str:
    """The file whose daemon used the directory last; "" where there is none, or none that can be told."""
    try:
        return str(json.loads(record.read_bytes())["file"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _leave_pointer(during: contextlib.ExitStack, pointer: pointers.Pointer) -> None:
    """Have commands find this daemon; without a pointer they look where the file and its path say."""
    try:
        during.enter_context(pointers.left(pointer))
    except OSError as error:
        log.warning("commands may not find this daemon while its file is wrong: no pointer can be left: %s", error)


def _accept(state: Path, config: Config | None, source: Path) -> Snapshot:
    """The current snapshot, made from `config` where its content is new."""
    if config is None:
        raise ConfigError(f"{source}: nothing to start from")
    current = paths.current_snapshot(state)
    with contextlib.suppress(ConfigError):
        before = read_snapshot(current)
        if before.hash == snapshots.content_hash(config) and before.source == str(source):
            return before
    generation = max(snapshots.next_generation(current), history.newest(paths.history(state)) + 1)
    candidate = paths.candidate_snapshot(state, generation)
    written = snapshots.write(candidate, config, generation=generation, source=str(source))
    snapshots.promote(candidate, current, paths.last_good_snapshot(state))
    return dataclasses.replace(written, path=current)


def _rolled_back(state: Path, found: Config | None, source: Path) -> Snapshot | None:
    """What an operator went back to, where the file still says what they went back from; a restart undoes nothing."""
    with contextlib.suppress(ConfigError):
        running = read_snapshot(paths.current_snapshot(state))
        asked = found is not None and running.instead_of == snapshots.content_hash(found)
        if running.restores and asked and running.source == str(source):
            return running
    return None


def _record(state: Path, accepted: Snapshot, who: str) -> None:
    """Keep in the history what this start accepted, if it is new there; nothing depends on it."""
    directory = paths.history(state)
    try:
        kept = history.entries(directory, of=accepted.source)
        if kept and kept[-1].generation == accepted.generation:
            return
        before = history.config_of(directory, kept[-1].generation) if kept else None
        plan = _at_start(before, accepted.config) if before else None
        history.record(directory, accepted, plan, (who,), accepted_at=time.time())
    except (OSError, ConfigError) as error:
        log.warning("the history could not be written: %s", error)


def _at_start(before: Config, now: Config) -> diff.Plan:
    """What changed over a restart, which takes in what a reload refuses."""
    plan = diff.plan(before, now)
    return dataclasses.replace(plan, told=(*plan.told, *plan.refused), refused=())


def _last_good(state: Path, found: Config | None, source: Path) -> Snapshot:
    """What was accepted last of this file and is not what it says now. Raises ConfigError where there is none."""
    current = _of_file(read_snapshot(paths.current_snapshot(state)), source)
    if found is None or current.hash != snapshots.content_hash(found):
        return current
    before = _of_file(read_snapshot(paths.last_good_snapshot(state)), source)
    # Numbers only grow: the older content becomes the current one, under a new number.
    return _accept(state, before.config, Path(before.source))


def _of_file(snapshot: Snapshot, source: Path) -> Snapshot:
    """The snapshot itself. Raises ConfigError where it was accepted of another file, whose the directory was then."""
    if snapshot.source != str(source):
        raise ConfigError(f"{snapshot.path} is of {snapshot.source}, not of {source}; start without --last-good")
    return snapshot


def _daemon(accepted: Snapshot, state: Path, only: frozenset[str], notify: Notify, *, development: bool) -> Daemon:
    config = accepted.config
    if unknown := sorted(only - {SCHEDULER, *config.workers}):
        known = ", ".join([SCHEDULER, *config.workers])
        raise FusionError(f"--only {unknown[0]}: no such group; there are {known}")
    source = Path(accepted.source)
    runtime = paths.runtime_directory(source, config.runtime_directory, development=development)
    control = paths.control_socket(runtime)
    group = group_id(config.control.group, "control.group")
    if runtime.is_relative_to(base := paths.user_runtime()):
        make_private(base, open_to_others=True)
    make_private(runtime, open_to_others=group >= 0 or bool(config.broker.socket_group))
    make_private(paths.redis_socket(runtime).parent, open_to_others=bool(config.broker.socket_group))
    _clear(control)
    try:
        logs.setup(config.logging, "fusiond")
    except OSError as error:
        raise FusionError(f"{config.logging.file}: {error.strerror}; mend logging.file, or its permissions") from error
    server = ""
    if config.broker.url == "embedded":
        found = choose_server(paths.redis_state(state), config.broker.server)
        log.info("the embedded server is %s, %s", found, found.path)
        server = found.path
    _forget(state)
    log.info("state directory %s, sockets in %s", state, runtime)
    if file := hook.path():
        log.warning("%s is set: %s runs in each process of this daemon", hook.VARIABLE, file)
    if development:
        url = with_namespace(f"unix://{paths.redis_socket(runtime)}", config.broker.namespace)
        log.info("for producers in other terminals: export FUSION_URL=%s", shlex.quote(url))
    options = DaemonOptions(control, group)
    return Daemon(options, accepted, Places(state, runtime, server, only, development), notify)


def make_private(directory: Path, *, open_to_others: bool = False) -> None:
    """
    The directory, made if it is missing, owned by this user, 0700.

    Args:
        directory: an absolute path.
        open_to_others: 0711: others may pass through to a socket that is opened to them.

    Raises:
        FusionError: it cannot be made, or is another's.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The link itself, too: below /tmp another user may have laid one to a directory of ours.
        for seen, owners in ((directory.lstat(), (os.geteuid(), 0)), (directory.stat(), (os.geteuid(),))):
            if seen.st_uid not in owners:
                raise FusionError(
                    f"{directory} belongs to user {seen.st_uid};"
                    " remove it, or set state_directory and runtime_directory"
                )
        directory.chmod(0o711 if open_to_others else 0o700)
        _refuse_planted(directory)
    except OSError as error:
        raise FusionError(
            f"{directory}: {error.strerror}; make it writable, or set state_directory and runtime_directory"
        ) from error


def _refuse_planted(directory: Path) -> None:
    """It may have been open to others before: what they have laid into it would be read as what we wrote."""
    for entry in directory.iterdir():
        with contextlib.suppress(FileNotFoundError):
            owner = entry.lstat().st_uid
            if owner not in (os.geteuid(), 0):
                raise FusionError(f"{entry} belongs to user {owner}: the daemon would take it for its own; remove it")


@contextlib.contextmanager
def locked(state: Path) -> Iterator[None]:
    """Hold the state directory for as long as the block lasts; the kernel lets go of it if the daemon is killed."""
    path = paths.lock_file(state)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "?"
            runs = _owner(paths.owner_record(state))
            raise FusionError(
                f"{state} is in use by another daemon (pid {holder}{runs and f', which runs {runs}'});"
                " stop it, or set state_directory to another place"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def group_id(name: str | None, key: str) -> int:
    """The number of a system group; -1 for None. Raises FusionError."""
    if name is None:
        return -1
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise FusionError(f"{key}: there is no system group {name!r}; create it, or remove the key") from None


def _clear(control: Path) -> None:
    """Remove the socket of a daemon that was killed. Raises FusionError if one listens."""
    longest = paths.LONGEST_CONTROL
    if len(os.fsencode(control)) > longest:
        raise FusionError(
            f"{control} is longer than a socket's path may be ({longest} bytes); set a shorter runtime_directory"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(control))
        except FileNotFoundError:
            return
        except OSError:
            control.unlink(missing_ok=True)
            return
    raise FusionError(f"another daemon listens on {control}; stop it, or set runtime_directory to another place")


def _forget(state: Path) -> None:
    """What a killed daemon left: candidates, and tails of programs that are no more."""
    for left in (*state.glob("candidate-*.json"), *(state / "tail").glob("*.log")):
        left.unlink(missing_ok=True)
