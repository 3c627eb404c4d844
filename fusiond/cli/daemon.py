"""`fusiond run`, `dev`, `reload`, `history` and `rollback`: the daemon and its configurations."""

import os
import sys
from typing import Any, Final

from fusiond import paths
from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED
from fusiond.cli.find import daemon, file
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import clock, legible, tell
from fusiond.errors import ConfigError, ControlError, ForeignDaemon
from fusiond.status_document import ReloadOutcome

#: characters of a hash in the table; --json has all of them
_HASH: Final = 12
_STANDARD_ERROR: Final = 2
#: seconds that the daemon may take to list its generations
_TIMEOUT: Final = 10.0


def register(subparsers: Any) -> None:
    """Add the commands."""
    run = arguments.command(subparsers, "run", _run)
    run.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="only this group, `scheduler`, `web`, `sink:…` or `outbox:…`; may be repeated",
    )
    run.add_argument(
        "--last-good", action="store_true", help="start with the configuration that was accepted last, not the file"
    )
    dev = arguments.command(subparsers, "dev", _dev)
    for each in (run, dev):
        arguments.add_file(each)

    reload = arguments.command(subparsers, "reload", _reload)
    code = "also replace this group, or all, to load new code; may be repeated"
    reload.add_argument("--code", nargs="?", const="*", action="append", default=[], metavar="GROUP", help=code)
    history = arguments.command(subparsers, "history", _history)
    rollback = arguments.command(subparsers, "rollback", _rollback)
    number = arguments.positive_number
    rollback.add_argument("generation", nargs="?", type=number, metavar="GENERATION", help="default: the one before")
    for each in (reload, rollback):
        arguments.add_timeout(each)
    for each in (reload, history, rollback):
        arguments.add_daemon(each)


def _run(options: arguments.Options) -> int:
    """Run the daemon in the foreground."""
    return _start(options, only=options.only or [], last_good=options.last_good)


def _dev(options: arguments.Options) -> int:
    """
    Run the daemon for task development: it loads code as you save it.

    Each group has one child, the daemon runs a Redis of its own whatever the file says, it logs as text, and a group is
    replaced when its code is saved.
    """
    return _start(options, development=True)


def _start(options: arguments.Options, *, development: bool = False, **how: Any) -> int:
    _prepare_process()
    from fusiond.program import EX_CONFIG
    from fusiond.supervise.reload.helper import Helper

    try:
        # Also ended here: by Ctrl-C while the daemon is imported.
        with Helper.at_start(paths.find_config(options.config).absolute(), development=development) as helper:
            from fusiond.supervise import start  # here: the helper reads the file meanwhile, which takes as long

            return start.run(helper, **how)
    except ConfigError as error:
        tell(str(error))
        return EX_CONFIG


def _prepare_process() -> None:
    """Have nothing loaded from a user's directory, and no file be taken for a standard stream."""
    if not sys.flags.safe_path:
        del sys.path[0]  # the directory of the script, or the working directory
    # If a standard stream is closed, the next file that is opened gets its number, and programs would keep that file.
    while (opened := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(opened)


def _reload(options: arguments.Options) -> int:
    """[daemon] Apply the changed file and print what was done; status 1 if it was refused."""
    who = daemon.asker(" ".join(["fusiond reload", *(f"--code {name}".removesuffix(" *") for name in options.code)]))
    try:
        outcome = daemon.find(options).ask("reload", who, " ".join(options.code), timeout=options.timeout)
    except ForeignDaemon:
        raise
    except ControlError:
        file.config(options.config)  # the problems of the file, if it has any, say more than "no daemon listens"
        raise
    return _answer(options, outcome)


def _answer(options: arguments.Options, outcome: ReloadOutcome) -> int:
    """Print how a reload or rollback ended; returns the exit status."""
    arguments.answer(options, outcome, lambda: legible(outcome["summary"]))
    return REFUSED if outcome["result"] == "refused" else OK


def _history(options: arguments.Options) -> None:
    """
    [daemon] List the accepted generations: when, who asked, what changed.

    If the daemon does not run, its state directory is read, if this user may.
    """
    entries = _entries(options)
    rows = (
        (
            entry["generation"],
            clock(entry["accepted_at"] * 1000),
            entry["hash"][:_HASH],
            ", ".join(entry["asked_by"]),
            (f"back to {entry['restores']}: " if entry["restores"] else "") + entry["changes"],
        )
        for entry in reversed(entries)
    )
    headings = ("GENERATION", "ACCEPTED", "HASH", "ASKED BY", "CHANGES")
    arguments.answer(options, entries, lambda: table(headings, rows, right="generation"))


def _entries(options: arguments.Options) -> list[dict[str, Any]]:
    """Oldest first: from the daemon; if it does not run, from its state directory."""
    from dataclasses import asdict

    from fusiond.config.accepted.history import entries

    try:
        found: list[dict[str, Any]] = daemon.find(options).ask("history", timeout=_TIMEOUT)["entries"]
    except ControlError:
        path = file.path(options.config)
        state = paths.state_directory(path, file.directory(path, "state_directory"), development=options.dev)
        found = [asdict(entry) for entry in entries(paths.history(state), of=str(path))]
        if not found:
            raise
    return found


def _rollback(options: arguments.Options) -> int:
    """
    [daemon] Run an earlier generation; the file is not changed.

    The earlier configuration is tried and applied as by a reload, under a new number. The file counts again when it
    changes, or after fusiond reload.
    """
    generation = "" if options.generation is None else str(options.generation)
    who = daemon.asker("fusiond rollback")
    return _answer(options, daemon.find(options).ask("rollback", generation, who, timeout=options.timeout))
