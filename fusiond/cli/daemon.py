"""`fusiond run`, `dev` and `reload`."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from fusiond import paths
from fusiond.cli import numbers, source
from fusiond.cli.exits import OK, REFUSED
from fusiond.cli.table import legible
from fusiond.errors import ConfigError, ControlError, ForeignDaemon

if TYPE_CHECKING:
    import argparse

    from fusiond.cli import Subparsers

_FILE_HELP = "the file; default: $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml"


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    run = subparsers.add_parser("run", help="run the daemon in the foreground")
    run.add_argument("-c", "--config", metavar="FILE", help=_FILE_HELP)
    run.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="run only this group, or `scheduler`; may be repeated",
    )
    run.add_argument(
        "--last-good",
        action="store_true",
        help="start from the configuration that was accepted last instead of the file",
    )
    run.set_defaults(handler=_run)

    dev = subparsers.add_parser(
        "dev",
        help="run the daemon for task development: it loads code as you save it",
        description="Each group has one child, the daemon runs a Redis of its own whatever the file says, "
        "it logs as text, and a group is replaced when its code is saved.",
    )
    dev.add_argument("-c", "--config", metavar="FILE", help=_FILE_HELP)
    dev.set_defaults(handler=_dev)

    reload = subparsers.add_parser(
        "reload", help="[daemon] apply the changed file and print what was done; status 1 if it was refused"
    )
    source.add_daemon_options(reload)
    reload.add_argument(
        "--code",
        nargs="?",
        const="*",
        action="append",
        default=[],
        metavar="GROUP",
        help="also replace this group, or all, to load new code; may be repeated",
    )
    reload.add_argument("--json", action="store_true", help="print the outcome as JSON")
    reload.add_argument("--timeout", type=numbers.patience, default=120.0, metavar="SECONDS", help="default: 120")
    reload.set_defaults(handler=_reload)


def _run(options: argparse.Namespace) -> int:
    return _start(options, only=options.only, last_good=options.last_good)


def _dev(options: argparse.Namespace) -> int:
    return _start(options, development=True)


def _start(options: argparse.Namespace, **how: Any) -> int:
    from fusiond.program import EX_CONFIG
    from fusiond.supervise import start

    try:
        path = paths.find_config(options.config)
    except ConfigError as error:
        print(f"fusiond: {error}", file=sys.stderr)
        return EX_CONFIG
    return start.run(path, **how)


def _reload(options: argparse.Namespace) -> int:
    from fusiond.config.lint.reports import as_text
    from fusiond.config.load import load

    who = source.asker(" ".join(["fusiond reload", *(f"--code {group}".removesuffix(" *") for group in options.code)]))
    try:
        outcome = source.daemon(options).ask("reload", who, " ".join(options.code), timeout=options.timeout)
    except ForeignDaemon:
        raise
    except ControlError:
        loaded = load(source.path(options), environ=os.environ)
        if loaded.config is not None:
            raise
        # Nobody is there to refuse it; why it would be refused is known all the same.
        print(as_text(loaded.problems), file=sys.stderr)
        return REFUSED
    print(json.dumps(outcome, indent=2) if options.json else legible(outcome["summary"]))
    return REFUSED if outcome["result"] == "refused" else OK
