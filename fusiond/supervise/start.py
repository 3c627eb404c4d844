"""
From the path of a file to a running daemon.

1. read       and validate the file in a helper process; problems are printed, and errors end the start with status 78
2. directories that only this user can write, for state and for sockets
3. lock       the state directory, one daemon each; if it was another file's, take it over or refuse
4. accept     the configuration, as a reload would: with a new number if its content is new. A rollback stands for as
              long as the file says what was rolled back
5. run        the loop; a pointer leads commands to the daemon meanwhile
"""

from __future__ import annotations

import contextlib
import dataclasses
import grp
import logging
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond import hook, logs, paths, pointers
from fusiond.config.accepted import history
from fusiond.config.accepted import snapshot as snapshots
from fusiond.config.accepted.plan import compare
from fusiond.config.accepted.snapshot import Snapshot, read_snapshot
from fusiond.config.endpoints import with_namespace
from fusiond.config.lint.reports import as_text
from fusiond.errors import ConfigError, FusionError
from fusiond.identity import daemon_id
from fusiond.program import EX_CONFIG
from fusiond.supervise import directories
from fusiond.supervise.daemon import Daemon
from fusiond.supervise.notify import Notify
from fusiond.supervise.reload.reading import LastRead, Result, read_now, watched_files
from fusiond.supervise.server import NoServer, choose_server
from fusiond.supervise.supervisord.daemon_options import DaemonOptions
from fusiond.supervise.wanted_programs import SCHEDULER, RunOptions
from fusiond.supervise.watch import fingerprint_as_read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusiond.config.model import Config

log = logging.getLogger(__name__)


def run(config_path: Path, *, only: Sequence[str] = (), last_good: bool = False, development: bool = False) -> int:
    """
    Run the daemon in the foreground until it is told to end.

    Args:
        config_path: the YAML file.
        only: names of groups, or `scheduler`; empty: all.
        last_good: start from the configuration that was accepted last, whatever the file says now.
        development: whether it is `fusiond dev`: small, with a broker of its own, and it loads code as it is saved.

    Returns:
        the exit status: 0, or 78 if the file cannot be used.

    Raises:
        FusionError: the daemon cannot start here; says what to do.
    """
    try:
        hook.run("supervisor")
    except (OSError, ValueError) as error:
        raise FusionError(str(error)) from None
    notify = Notify()
    source = config_path.absolute()
    config, read = _read(source, development=development)
    if read.problems and (config or not last_good):
        print(as_text(read.problems), file=sys.stderr)
    if not (config or last_good):
        return EX_CONFIG
    key = config.state_directory if config else read.state_directory
    state = paths.state_directory(source, key, development=development)
    directories.make_private(state)
    with directories.locked(state), contextlib.ExitStack() as during:
        directories.take_over(state, source, given=paths.is_given_state(source, key))
        daemon_id(state)
        if last_good or config is None:
            accepted = _last_good(state, source, read.hash)
        else:
            accepted = _accept(state, source, config, read.hash)
        try:
            daemon = _daemon(accepted, state, frozenset(only), notify, development=development)
        except NoServer as error:
            print(f"fusiond: {error}", file=sys.stderr)
            return EX_CONFIG
        _record(state, accepted, "fusiond run --last-good" if last_good else "fusiond run")
        files = watched_files(source, read.files)
        daemon.reloads.last_read = LastRead(files, fingerprint_as_read(files, read.stats), read.hash)
        pointer = pointers.Pointer(str(source), str(daemon.processes.run.runtime), str(state), development)
        try:
            during.enter_context(pointers.left(pointer))
        except OSError as error:
            # They look where the file and its path say.
            log.warning("commands may not find this daemon while its file is wrong: no pointer can be left: %s", error)
        daemon.main()
    logs.stop()
    return 0


def _read(source: Path, *, development: bool) -> tuple[Config | None, Result]:
    """The file's configuration, None if it cannot be used, and what the helper found. Raises FusionError."""
    with tempfile.TemporaryDirectory(prefix="fusiond-") as directory:
        out = Path(directory) / "candidate.json"
        try:
            result = read_now(source, ["--out", str(out), "--generation", "1"], development=development)
        except subprocess.TimeoutExpired as error:
            sentence = (
                f"{source} was not read within {error.timeout:.0f} s; the machine is too busy, start the daemon again"
            )
            raise FusionError(sentence) from None
        except OSError as error:
            raise FusionError(f"{source} could not be validated: {error}") from error
        return read_snapshot(out).config if result.hash else None, result


def _accept(state: Path, source: Path, config: Config, digest: str) -> Snapshot:
    """The snapshot to run: the current one if the file says what it said before, else a new one."""
    current = paths.current_snapshot(state)
    try:
        running = read_snapshot(current)
    except ConfigError as error:
        if isinstance(error.__cause__, ValueError):
            print(f"fusiond: warning: {current} is damaged ({error.__cause__}); it is written anew", file=sys.stderr)
            current.unlink()  # it must not become the last good one
    else:
        # After a rollback the file still says what was rolled back; a restart does not undo it.
        rolled_back = running.restores and running.instead_of == digest
        if running.source == str(source) and (running.hash == digest or rolled_back):
            return running
    generation = max(snapshots.next_generation(current), history.newest(paths.history(state)) + 1)
    candidate = paths.candidate_snapshot(state, generation)
    written = snapshots.write(candidate, config, generation=generation, source=str(source))
    snapshots.promote(candidate, current, paths.last_good_snapshot(state))
    return dataclasses.replace(written, path=current)


def _last_good(state: Path, source: Path, digest: str) -> Snapshot:
    """The configuration of this file that was accepted last and is not what the file says now. Raises ConfigError."""
    current = _of_file(paths.current_snapshot(state), source)
    if current.hash != digest:
        return current
    before = _of_file(paths.last_good_snapshot(state), source)
    # Numbers only grow: the older content becomes the current one, under a new number.
    return _accept(state, source, before.config, before.hash)


def _of_file(path: Path, source: Path) -> Snapshot:
    """The snapshot. Raises ConfigError if it cannot be used, or was accepted from another file of this directory."""
    try:
        snapshot = read_snapshot(path)
    except ConfigError as error:
        raise ConfigError(f"{path} cannot be used ({error.__cause__}); start without --last-good") from error
    if snapshot.source != str(source):
        raise ConfigError(f"{path} is of {snapshot.source}, not of {source}; start without --last-good")
    return snapshot


def _record(state: Path, accepted: Snapshot, who: str) -> None:
    """Keep in the history what this start accepted, if it is new there; nothing depends on it."""
    directory = paths.history(state)
    try:
        kept = history.entries(directory, of=accepted.source)
        if kept and kept[-1].generation == accepted.generation:
            return
        plan = compare(history.config_of(directory, kept[-1].generation), accepted.config) if kept else None
        # A restart applies what a reload refuses.
        plan = plan and dataclasses.replace(plan, told=(*plan.told, *plan.refused), refused=())
        history.record(directory, accepted, plan, (who,), accepted_at=time.time())
    except (OSError, ConfigError) as error:
        log.warning("the history could not be written: %s", error)


def _daemon(accepted: Snapshot, state: Path, only: frozenset[str], notify: Notify, *, development: bool) -> Daemon:
    config, source = accepted.config, Path(accepted.source)
    if unknown := sorted(only - {SCHEDULER, *config.workers}):
        raise FusionError(f"--only {unknown[0]}: no such group; there are {', '.join([SCHEDULER, *config.workers])}")
    runtime = paths.runtime_directory(source, config.runtime_directory, development=development)
    control = paths.control_socket(runtime)
    group = group_id(config.control.group)
    redis_open = bool(config.broker.socket_group)
    if runtime.is_relative_to(base := paths.user_runtime()):
        directories.make_private(base, open_to_others=True)
    directories.make_private(runtime, open_to_others=group >= 0 or redis_open)
    directories.make_private(paths.redis_socket(runtime).parent, open_to_others=redis_open)
    directories.remove_old_socket(control)
    try:
        logs.setup(config.logging, "fusiond")
    except OSError as error:
        raise FusionError(
            f"{config.logging.file}: {error.strerror}; change logging.file, or the permissions of that file"
        ) from error
    server = choose_server(paths.redis_state(state), config.broker.server) if config.broker.url == "embedded" else None
    if server:
        log.info("the embedded server is %s, %s", server, server.path)
    directories.remove_leftovers(state)
    log.info("state directory %s, sockets in %s", state, runtime)
    if file := hook.path():
        log.warning("%s is set: %s runs in each process of this daemon", hook.VARIABLE, file)
    if development:
        url = with_namespace(f"unix://{paths.redis_socket(runtime)}", config.broker.namespace)
        log.info("for producers in other terminals: export FUSION_URL=%s", shlex.quote(url))
    run = RunOptions(state, runtime, server.path if server else "", only, development)
    return Daemon(DaemonOptions(control, group), accepted, run, notify)


def group_id(name: str | None) -> int:
    """The number of the system group that may use the control socket; -1 for None. Raises FusionError."""
    try:
        return grp.getgrnam(name).gr_gid if name else -1
    except KeyError:
        raise FusionError(f"control.group: there is no system group {name!r}; create it, or remove the key") from None
