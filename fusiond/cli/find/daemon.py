"""
The daemon that runs the file on this host.

1. locate   every daemon of the file, once in each command
2. choose   systemd's own, with --dev that of `fusiond dev`, otherwise the production daemon, or `fusiond dev` alone
3. note     on standard error, if the choice may surprise
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond import paths
from fusiond.cli.exits import UsageError
from fusiond.cli.find import file
from fusiond.cli.terminal.text import tell
from fusiond.errors import ConfigError, ControlError, ForeignDaemon, FusionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from fusiond.config import model
    from fusiond.locate.find_daemons import Daemons, Located


def find(options: argparse.Namespace) -> Located:
    """
    The daemon that the command means, even if the file has problems.

    Raises:
        UsageError: there is no file, or the one that is named does not exist and no daemon runs it.
        ForeignDaemon: a daemon of another file is in its place.
        ControlError: no daemon runs the file on this host.
    """
    chosen, found = choose(options), daemons(options)
    if chosen is not None:
        return chosen
    if not os.path.lexists(found.file):
        raise UsageError(f"{found.file} does not exist")
    if found.refused:
        raise found.refused[0]
    how = "fusiond dev" if options.dev else "fusiond run"
    raise ControlError(f"no daemon listens for {found.file}; start one with {how} -c {found.file}")


def daemons(options: argparse.Namespace) -> Daemons:
    """All daemons of the file; they are located once for each `options`."""
    from fusiond.locate.find_daemons import locate

    if getattr(options, "daemons", None) is None:
        path = file.path(options.config)
        options.daemons = locate(path, lambda: file.directory(path, "runtime_directory"))
    found: Daemons = options.daemons
    return found


def choose(options: argparse.Namespace) -> Located | None:
    """
    The daemon that the command means; None if no daemon of the file runs.

    systemd starts ExecReload with the process id of the unit's daemon in $MAINPID: then only that daemon is meant,
    never a `fusiond dev` beside it.
    """
    found, main = daemons(options), os.environ.get("MAINPID", "")
    if own := next((located for located in found.located if str(located.pid) == main), None):
        return own
    only_development = not (found.production or main)
    if found.development and not options.dev and not main:
        what = "only fusiond dev" if only_development else "fusiond dev also"
        which = "it" if only_development else "the production daemon, --dev the other"
        note(options, f"{what} runs {found.file} on this host; this command uses {which}")
    return _first(options, found.development if options.dev or only_development else found.production)


def _first(options: argparse.Namespace, located: Sequence[Located]) -> Located | None:
    """The first of these daemons. Raises ForeignDaemon if they were started with several other names of the file."""
    path = daemons(options).file
    names = {each.source for each in located}
    if len(names) > 1:
        named = " and ".join(sorted(names))
        raise ForeignDaemon(f"daemons run {path} by other names, {named}; name one of them with -c")
    if name := next(iter(names - {str(path)}), None):
        note(options, f"the daemon runs {path} by another name, {name}; this command uses it")
    return next(iter(located), None)


def running_config(options: argparse.Namespace) -> model.Config | None:
    """The configuration that the file's daemon accepted last, if this user may read it; it need not run now."""
    from fusiond.config.accepted.snapshot import read_snapshot
    from fusiond.locate.pointers import same_file

    path, chosen = daemons(options).file, choose(options)
    try:
        if chosen is not None and chosen.identity is not None:
            kept = Path(chosen.identity["snapshot"])
        else:
            key = file.directory(path, "state_directory")
            kept = paths.current_snapshot(paths.state_directory(path, key, development=options.dev))
        snapshot = read_snapshot(kept)
    except ConfigError:
        return None
    return snapshot.config if same_file(snapshot.source, path) else None


def accepted_config(options: argparse.Namespace) -> model.Config:
    """The file's configuration; if the file has problems, the one that was accepted last. Raises FusionError."""
    try:
        return file.config(options.config)
    except FusionError:
        if (running := running_config(options)) is None:
            raise
        return running


def note(options: argparse.Namespace, sentence: str) -> None:
    """Print a note on standard error, once for each `options`."""
    noted = options.__dict__.setdefault("noted", set())
    if sentence not in noted:
        noted.add(sentence)
        tell(f"note: {sentence}")


def asker(command: str) -> str:
    """Who asks the daemon, for its log and history: the command and the user; with sudo, the user who called it."""
    from fusiond.identity import user_name

    uid = os.geteuid()
    sudo = os.environ.get("SUDO_USER") if uid == 0 else None
    return f"{command} by {sudo or user_name(uid)}"
