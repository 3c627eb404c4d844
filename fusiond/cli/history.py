"""`fusiond history` and `rollback`: what ran, and back to it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import numbers, source
from fusiond.cli.exits import OK, REFUSED
from fusiond.cli.table import legible, plain, print_json, table, when

if TYPE_CHECKING:
    import argparse

#: characters of a hash that are shown; all of them with --json
_HASH: Final = 12
#: characters of a cell that tells what changed
_WIDEST: Final = 100
#: seconds that the daemon may take to list
_TIMEOUT: Final = 10.0


def register(subparsers: Any) -> None:
    """Add the two commands."""
    history = subparsers.add_parser(
        "history",
        help="[daemon] list the accepted generations: when, who asked, what changed",
        description="If the daemon does not run, its state directory is read, if this user may.",
    )
    source.add_daemon_options(history)
    source.add_json_option(history)
    history.set_defaults(handler=_history)

    rollback = subparsers.add_parser(
        "rollback",
        help="[daemon] run an earlier generation; the file is not changed",
        description="The earlier configuration is tried and applied as by a reload, under a new number. "
        "The file counts again when it changes, or after fusiond reload.",
    )
    rollback.add_argument(
        "generation", nargs="?", type=_generation, metavar="GENERATION", help="default: the one before"
    )
    rollback.add_argument("--timeout", type=numbers.patience, default=120.0, metavar="SECONDS", help="default: 120")
    source.add_daemon_options(rollback)
    source.add_json_option(rollback)
    rollback.set_defaults(handler=_rollback)


def _generation(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


_generation.__name__ = "generation"  # what argparse calls it: `invalid generation value: 'x'`


def _history(options: argparse.Namespace) -> int:
    entries = _entries(options)
    if options.json:
        print_json(entries)
        return OK
    now = time.time() * 1000
    rows = (
        (
            entry["generation"],
            when(entry["accepted_at"] * 1000, now),
            entry["hash"][:_HASH],
            ", ".join(entry["asked_by"]),
            plain(_changes(entry), _WIDEST),
        )
        for entry in reversed(entries)
    )
    print(table(("GENERATION", "ACCEPTED", "HASH", "ASKED BY", "CHANGES"), rows, right="generation"))
    return OK


def _changes(entry: dict[str, Any]) -> str:
    back = f"back to {entry['restores']}: " if entry["restores"] else ""
    return f"{back}{entry['changes']}"


def _entries(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Oldest first, from the daemon, else from its state directory."""
    from fusiond import paths
    from fusiond.config.accepted.history import entries
    from fusiond.errors import ControlError

    try:
        found: list[dict[str, Any]] = source.daemon(options).ask("history", timeout=_TIMEOUT)["entries"]
    except ControlError:
        file = source.path(options)
        state = paths.state_directory(file, source.directories(file).state_directory, development=options.dev)
        found = [entry.to_dict() for entry in entries(paths.history(state), of=str(file))]
        if not found:
            raise
    return found


def _rollback(options: argparse.Namespace) -> int:
    generation = "" if options.generation is None else str(options.generation)
    asker = source.asker("fusiond rollback")
    outcome = source.daemon(options).ask("rollback", generation, asker, timeout=options.timeout)
    if options.json:
        print_json(outcome)
    else:
        print(legible(outcome["summary"]))
    return REFUSED if outcome["result"] == "refused" else OK
