"""
`fusiond plan`: what a reload would do, before it is done.

1. compare   the file with what the daemon runs: the daemon reads its own file, with its own environment. Another file
             is read here, and so are both with --against
2. look      at what waits and runs, where the broker is in reach
3. print     groups and sections, the ticks that move, the limits that fall below what is there
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import source
from fusiond.cli.exits import CHANGES, OK, REFUSED
from fusiond.cli.table import legible, paint, print_json, when

if TYPE_CHECKING:
    import argparse

    from fusiond.config.accepted.effects import Effects
    from fusiond.supervise.locate import Located

#: seconds for the daemon's helper, which has 30 itself
_TIMEOUT: Final = 40.0
#: seconds for one import
_IMPORT_TIMEOUT: Final = 30.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """A file beside what it would replace."""

    #: the file, as it is named
    file: str
    #: what it is compared with, for people
    against: str
    #: None: the file cannot be used
    effects: Effects | None
    #: of the file, as plain data
    problems: list[dict[str, Any]] = field(default_factory=list)
    #: why it cannot be used; may have many lines
    reason: str = ""
    #: of the daemon's own file: the outcome of the reload that changed something last; None: none has since its start
    taken: dict[str, Any] | None = None


def register(subparsers: Any) -> None:
    """Add `plan`."""
    parser = subparsers.add_parser(
        "plan",
        help="[daemon, broker] show what a reload would do; with --exit-code, status 4 if it would change something",
        description="Without FILE the daemon reads its own file; another FILE is read as you, with your environment. "
        "Changes nothing. If the broker cannot be reached, the plan leaves out what waits and runs.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="default: the file of the daemon")
    parser.add_argument("--against", metavar="OTHER", help="compare with another file; needs neither daemon nor broker")
    parser.add_argument(
        "--imports", action="store_true", help="also load each task of the file as you, as `validate --imports` does"
    )
    parser.add_argument("--exit-code", action="store_true", help="status 0: nothing changes, 4: something does")
    source.add_broker_options(parser)
    source.add_json_option(parser)
    parser.set_defaults(handler=_plan)


def _plan(options: argparse.Namespace) -> int:
    from fusiond.cli.foresight import look, said

    found = _against_file(options) if options.against else _against_daemon(options)
    if options.imports and found.effects is not None:
        found = _with_imports(found)
    if found.effects is None:
        return _refused(found, options)
    plan = found.effects.plan
    now = look(found.effects, None if options.against else options)
    if options.json:
        print_json(
            {
                "file": found.file,
                "against": found.against,
                "changes": not plan.is_empty,
                "refused": bool(plan.refused),
                "summary": str(plan),
                "plan": plan.to_dict(),
                "cron": now.cron,
                "warnings": now.warnings,
                "not_looked_at": now.away or None,
                "problems": found.problems,
                "taken": found.taken,
            }
        )
    else:
        print(paint(f"{found.file} against {found.against}", "dim"))
        print(said(plan, now))
        if found.taken and plan.is_empty:
            print(_said_of_taken(found.taken))
    if plan.refused:
        return REFUSED
    return CHANGES if options.exit_code and not plan.is_empty else OK


def _refused(found: Comparison, options: argparse.Namespace) -> int:
    if options.json:
        print_json({"file": found.file, "against": found.against, "refused": True, "problems": found.problems})
    else:
        print(f"{found.file}: a reload would be refused\n{legible(found.reason)}")
    return REFUSED


def _said_of_taken(taken: dict[str, Any]) -> str:
    """`generation 7 was taken 12s ago, asked by the file's change: 1 group replaced (main, because code changed)`."""
    from fusiond.config.accepted.diff import Plan
    from fusiond.config.model import rebuild

    ago = when(taken["ended_at"] * 1000, time.time() * 1000)
    what = rebuild(Plan, taken["plan"]) if taken["plan"] else "nothing changed"
    return f"generation {taken['generation']} was taken {ago}, asked by {', '.join(taken['asked_by'])}: {what}"


def _with_imports(found: Comparison) -> Comparison:
    """The same with what loading the file's tasks found: an error there means that a reload would be refused."""
    from fusiond.cli.validate import with_imports
    from fusiond.config.lint.reports import as_text
    from fusiond.config.load import load

    loaded = with_imports(load(found.file, environ=os.environ), _IMPORT_TIMEOUT)
    problems = [problem.to_dict() for problem in loaded.problems]
    if loaded.config is None:
        return replace(found, effects=None, problems=problems, reason=as_text(loaded.problems))
    return replace(found, problems=problems)


def _against_file(options: argparse.Namespace) -> Comparison:
    from fusiond.config.accepted.effects import effects

    name = options.file or source.found(options)
    _, new = source.read(name)
    _, old = source.read(options.against)
    return Comparison(str(name), options.against, effects(old, new))


def _against_daemon(options: argparse.Namespace) -> Comparison:
    from fusiond.paths import as_named
    from fusiond.pointers import same_file

    daemon = _daemon(options)
    if options.file is None:
        return _by_daemon(daemon.ask("plan", timeout=_TIMEOUT))
    running = daemon.ask("status", timeout=_TIMEOUT)
    if same_file(as_named(options.file), running["source"]):
        return _by_daemon(daemon.ask("plan", timeout=_TIMEOUT))
    return _of_another(options.file, running)


def _daemon(options: argparse.Namespace) -> Located:
    """The daemon of -c; without it that of FILE, where one runs FILE, else that of the file that is found."""
    import copy

    from fusiond.errors import FusionError

    if options.file is not None and options.config is None:
        of_file = copy.copy(options)
        of_file.config = options.file
        try:
            return source.daemon(of_file)
        except FusionError:
            try:
                source.path(options)
            except FusionError:
                options.config = options.file
    return source.daemon(options)


def _by_daemon(said: dict[str, Any]) -> Comparison:
    from fusiond.config.accepted.effects import Effects
    from fusiond.errors import ControlError

    try:
        found = said["effects"] and Effects.from_dict(said["effects"])
    except (TypeError, KeyError, AttributeError) as error:
        raise ControlError("the daemon is of another version than this command; restart it") from error
    return Comparison(said["source"], _running(said), found, said["problems"], said["reason"], said.get("taken"))


def _of_another(file: str, running: dict[str, Any]) -> Comparison:
    """A file that is not the daemon's own: it does not read for others what they may not read themselves."""
    from fusiond.config.accepted.effects import effects
    from fusiond.config.accepted.snapshot import read_snapshot
    from fusiond.errors import FusionError

    snapshot = Path(running["snapshot"])
    if not os.access(snapshot, os.R_OK):
        raise FusionError(
            f"{snapshot}: what runs may be read by the daemon's user alone; be that user, or give --against OTHER"
        )
    _, new = source.read(file)
    return Comparison(file, _running(running), effects(read_snapshot(snapshot).config, new))


def _running(said: dict[str, Any]) -> str:
    return f"generation {said['generation']}, which runs"
