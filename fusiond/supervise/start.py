"""
From a file that a helper reads to a running daemon.

1. load     what the programs need, while the helper reads and checks the file
2. take     what the helper has found: problems are printed, and errors end the start with status 78
3. lock     the state directory for this daemon; if another file's daemon used it before, take it over or refuse
4. accept   the configuration, as a reload would: with a new number if its content is new. After a rollback, the file is
            not applied again until it changes
5. prepare  the directory for sockets, and the server of an embedded broker
6. fork     the program server, while this process has one thread; then begin the log, which has a thread of its own
7. run      the loop; meanwhile a pointer leads commands to the daemon
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import grp
import logging
import pkgutil
import resource
import shlex
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from fusiond import hook, logs, paths
from fusiond.config.accepted import history
from fusiond.config.accepted import snapshot as snapshots
from fusiond.config.accepted.plan import compare
from fusiond.config.accepted.snapshot import Snapshot, read_snapshot
from fusiond.config.endpoints import with_namespace
from fusiond.config.lint.reports import as_text
from fusiond.config.model import Config
from fusiond.errors import ConfigError, FusionError
from fusiond.identity import daemon_id
from fusiond.locate import pointers
from fusiond.program import EX_CONFIG
from fusiond.supervise import directories
from fusiond.supervise.daemon import Daemon
from fusiond.supervise.notify import Notify
from fusiond.supervise.program_server import ProgramServer, keep_shared
from fusiond.supervise.reload.helper import Helper
from fusiond.supervise.reload.outcome import Refused
from fusiond.supervise.reload.reading import LastRead, Result, wait_for, watched_files
from fusiond.supervise.server import choose_server
from fusiond.supervise.supervisord.daemon_options import DaemonOptions
from fusiond.supervise.wanted_programs import LOADED, SCHEDULER, WEB, RunOptions, carriers_of, loaded_for
from fusiond.supervise.watch import fingerprint_as_read

#: what this process itself needs later; the helper leaves it the time for that
_LOADED = ("watchfiles",)
#: open files wanted: a link and a few sockets for each program; the programs inherit the limit
OPEN_FILES = 8192
log = logging.getLogger(__name__)


def run(helper: Helper, *, only: Sequence[str] = (), last_good: bool = False) -> int:
    """
    Run the daemon in the foreground until it is told to end.

    Args:
        helper: reads the YAML file. If that is for `fusiond dev`, the daemon is small, has a broker of its own, and
            loads code as it is saved.
        only: names of groups, `scheduler`, `web`, `sink:<name>` or `outbox:<name>`; empty: all.
        last_good: start from the configuration that was accepted last, whatever the file says now.

    Returns:
        the exit status: 0, or 78 if the file cannot be used.

    Raises:
        ConfigError: the file, or the configuration that was accepted last, cannot be used here.
        FusionError: the daemon cannot start here; says what to do.
    """
    _raise_open_files()
    _run_hook()
    config, read = _read(helper)
    # A log of JSON is read by a program: there they are lines of the log, which begins only later.
    logged = read.problems if config and config.logging.format == "json" else ()
    if read.problems and not logged and (config or not last_good):
        print(as_text(read.problems), file=sys.stderr)
    if not (config or last_good):
        _offer_last_good(helper, read)
        return EX_CONFIG
    notify = Notify()
    state = paths.state_directory(helper.source, read.state_directory, development=helper.development)
    directories.make_private(state)
    with directories.locked(state):
        with directories.writing_to(state):
            chosen = _choose(state, helper.source, config, read, last_good=last_good)
        options, run_options = _prepare(chosen, state, frozenset(only), development=helper.development)
        accepted = dataclasses.replace(chosen, path=paths.current_snapshot(state))
        daemon = Daemon(options, accepted, run_options, notify)
        files = watched_files(helper.source, read.files)
        daemon.reloads.last_read = LastRead(files, fingerprint_as_read(files, read.stats), read.hash)
        _load(loaded_for(accepted.config))
        options.program_server = ProgramServer()
        _begin_log(accepted.config, run_options)
        for problem in logged:
            log.warning("%s: %s [%s]", problem.place, problem.sentence, problem.code)
        with directories.writing_to(state):
            _put_in_force(chosen, state)
        if last_good:
            daemon.reloads.leave_out_file(read)
        _record(state, accepted, "fusiond run --last-good" if last_good else "fusiond run")
        _serve(daemon)
        options.program_server.close()
    logs.stop()
    return 0


def _offer_last_good(helper: Helper, read: Result) -> None:
    """Print how to start in spite of the file, if it has been accepted before; `fusiond dev` cannot."""
    if helper.development:
        return
    with contextlib.suppress(ConfigError):
        state = paths.state_directory(helper.source, read.state_directory)
        generation = _of_file(paths.current_snapshot(state), helper.source).generation
        command = shlex.join(["fusiond", "run", "--last-good", "-c", str(helper.source)])
        print(f"fusiond: to start with generation {generation} instead of the file: {command}", file=sys.stderr)


def _serve(daemon: Daemon) -> None:
    """Run the loop; meanwhile a pointer leads commands to the daemon."""
    run = daemon.processes.run
    pointer = pointers.Pointer(daemon.processes.accepted.source, str(run.runtime), str(run.state), run.development)
    with contextlib.ExitStack() as during:
        try:
            during.enter_context(pointers.left(pointer))
        except OSError as error:
            # They look where the file and its path say.
            log.warning("commands may not find this daemon while its file is wrong: no pointer can be left: %s", error)
        daemon.main()


def _read(helper: Helper) -> tuple[Config | None, Result]:
    """Load what the daemon needs while the helper reads the file; returns what `_take` does. Raises FusionError."""
    with helper:
        _load((*LOADED, *_LOADED))
        # Here, too, and not only just before the fork: the memory that this frees is used again until then. Otherwise
        # it would be gaps in shared pages, which are copied once something is put there.
        keep_shared()
        return _take(helper)


def _load(names: Iterable[str]) -> None:
    """Load modules; and call functions, as module:function."""
    for name in names:
        # A program that needs a module which cannot be loaded says so itself; the watch does without.
        with contextlib.suppress(ImportError):
            found = pkgutil.resolve_name(name)
            if callable(found):
                found()


def _take(helper: Helper) -> tuple[Config | None, Result]:
    """The file's configuration, None if it cannot be used, and what the helper found. Raises FusionError."""
    try:
        result = wait_for(helper)
    except Refused as error:
        raise FusionError(str(error)) from None
    return read_snapshot(helper.out).config if result.hash and helper.out else None, result


def _run_hook() -> None:
    """Of proofs. Raises FusionError."""
    try:
        hook.run("supervisor")
    except (OSError, ValueError) as error:
        raise FusionError(str(error)) from None


def _choose(state: Path, source: Path, config: Config | None, read: Result, *, last_good: bool) -> Snapshot:
    """What is to run; the state directory is this file's from now on. Raises ConfigError, FusionError."""
    directories.take_over(state, source, given=paths.is_given_state(source, read.state_directory))
    daemon_id(state)
    if last_good or config is None:
        return _last_good(state, source, read.hash)
    return _accept(state, source, config, read.hash)


def _accept(state: Path, source: Path, config: Config, digest: str) -> Snapshot:
    """The snapshot to run: the current one if the file says what it said before, else a candidate."""
    current = paths.current_snapshot(state)
    try:
        running = read_snapshot(current)
    except ConfigError as error:
        if isinstance(error.__cause__, ValueError):
            print(f"fusiond: warning: {current} is damaged ({error.__cause__}); it is written again", file=sys.stderr)
            current.unlink()  # it must not become the last good one
    else:
        # After a rollback the file still says what was rolled back; a restart does not undo it.
        rolled_back = running.restores and running.instead_of == digest
        if running.source == str(source) and (running.hash == digest or rolled_back):
            return running
    generation = max(snapshots.next_generation(current), history.newest(paths.history(state)) + 1)
    candidate = paths.candidate_snapshot(state, generation)
    return snapshots.write(candidate, config, generation=generation, source=str(source))


def _put_in_force(chosen: Snapshot, state: Path) -> None:
    """Make it the current one. Not before all else is ready: `--last-good` must not lead to what could not start."""
    current = paths.current_snapshot(state)
    if chosen.path != current:
        snapshots.promote(chosen.path, current, paths.last_good_snapshot(state))
    directories.remove_leftovers(state)


def _last_good(state: Path, source: Path, digest: str) -> Snapshot:
    """The configuration of this file that was accepted last and is not what the file says now. Raises ConfigError."""
    path, earlier = paths.current_snapshot(state), paths.last_good_snapshot(state)
    if not path.exists():
        raise ConfigError(
            f"there is no {path}; if the file sets state_directory, set STATE_DIRECTORY to the same directory,"
            " otherwise start without --last-good: this file was never accepted"
        )
    current = _of_file(path, source)
    if current.hash != digest:
        return current
    if not earlier.exists():
        raise ConfigError(
            f"the file says what was accepted last, generation {current.generation}, and nothing was accepted before;"
            " start without --last-good"
        )
    before = _of_file(earlier, source)
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


def _prepare(
    accepted: Snapshot, state: Path, only: frozenset[str], *, development: bool
) -> tuple[DaemonOptions, RunOptions]:
    """Make the directories for sockets, choose the server. Raises FusionError."""
    config, source = accepted.config, Path(accepted.source)
    known = [
        SCHEDULER,
        *([WEB] if config.web else []),
        *carriers_of(config),
        *config.workers,
    ]
    if unknown := sorted(only - {*known}):
        raise FusionError(f"--only {unknown[0]}: no such group; there are {', '.join(known)}")
    runtime = paths.runtime_directory(source, config.runtime_directory, development=development)
    options = DaemonOptions(paths.control_socket(runtime), group_id(config.control.group))
    directories.make_runtime(
        runtime, control_open=options.control_group >= 0, redis_open=bool(config.broker.socket_group)
    )
    server = choose_server(paths.redis_state(state), config.broker.server) if config.broker.url == "embedded" else None
    return options, RunOptions(state, runtime, server, only, development, socket.gethostname())


def _begin_log(config: Config, run: RunOptions) -> None:
    """Begin it with what a person may look for. Raises FusionError."""
    try:
        logs.setup(config.logging, "fusiond")
    except OSError as error:
        reason = "it is a socket, or a pipe that nobody reads" if error.errno == errno.ENXIO else error.strerror
        remedy = "change logging.file, or the permissions of that file"
        raise FusionError(f"{config.logging.file}: {reason}; {remedy}") from error
    if run.server:
        log.info("the embedded server is %s, %s", run.server, run.server.path)
    log.info("state directory %s, sockets in %s", run.state, run.runtime)
    if file := hook.path():
        log.warning("%s is set: %s runs in each process of this daemon", hook.VARIABLE, file)
    if run.development:
        url = with_namespace(f"unix://{paths.redis_socket(run.runtime)}", config.broker.namespace)
        log.info("for producers in other terminals: export FUSION_URL=%s", shlex.quote(url))


def _raise_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def group_id(name: str | None) -> int:
    """The number of the system group that may use the control socket; -1 for None. Raises FusionError."""
    try:
        return grp.getgrnam(name).gr_gid if name else -1
    except KeyError:
        raise FusionError(f"control.group: there is no system group {name!r}; create it, or remove the key") from None
