"""
`fusiond plan`: what a reload would do.

1. compare   the file with what the daemon runs. The daemon reads its own file, with its own environment; another file
             is read here, and so are both files with --against
2. look      at the jobs that are there, if the broker is in reach (circumstances.py)
3. simulate  both, with --load
4. print     the changes, the ticks that move, the warnings
"""

from __future__ import annotations

import copy
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fusiond.cli import arguments, simulate
from fusiond.cli.exits import CHANGES, OK, REFUSED
from fusiond.cli.find import daemon, file
from fusiond.cli.plan.circumstances import Circumstances, look
from fusiond.cli.terminal.colours import paint
from fusiond.cli.terminal.text import legible, when
from fusiond.errors import ControlError, FusionError

if TYPE_CHECKING:
    from fusiond.config.accepted.plan import Effects, Plan
    from fusiond.locate.find_daemons import Located
    from fusiond.status_document import ReloadOutcome, StatusDocument

#: seconds for one import
_IMPORT_TIMEOUT: Final = 30.0


class Comparison(NamedTuple):
    """A file and what it would replace."""

    #: as the user named it
    file: str
    #: what it is compared with, for people
    against: str
    #: None: the file cannot be used
    effects: Effects | None
    #: the file's problems as plain data
    problems: list[dict[str, Any]]
    #: why the file cannot be used; may have many lines
    reason: str = ""
    #: outcome of the daemon's last reload that changed something; None: there was none, or it is another file
    taken: ReloadOutcome | None = None
    #: outcome of the daemon's last reload; None: there was none, or it is another file
    last: ReloadOutcome | None = None


def register(subparsers: Any) -> None:
    """Add `plan`."""
    parser = arguments.command(subparsers, "plan", _plan)
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="default: the file of the daemon")
    add("--against", metavar="OTHER", help="compare with another file; needs neither daemon nor broker")
    add("--imports", action="store_true", help="also load each task of the file as you, as `validate --imports` does")
    simulate.add_load(parser, required=False)
    add("--exit-code", action="store_true", help="status 0: nothing changes, 4: something does")
    arguments.add_broker(parser)


def _plan(options: arguments.Options) -> int:
    """
    [daemon, broker] Show what a reload would do; with --exit-code, status 4 if it would change something.

    Without FILE the daemon reads its own file; another FILE is read as you, with your environment. Changes nothing. If
    the broker cannot be reached, the plan leaves out what waits and runs. With --load, both are simulated under a load.
    """
    from dataclasses import asdict

    found = _against_file(options) if options.against else _against_daemon(options)
    if options.imports and found.effects is not None:
        found = _with_imports(found)
    document: dict[str, Any] = {"file": found.file, "against": found.against, "problems": found.problems}
    if found.effects is None:
        text = f"{found.file}: a reload would be refused\n{legible(found.reason)}"
        arguments.answer(options, {**document, "refused": True}, lambda: text)
        return REFUSED
    plan = found.effects.plan
    now = look(found.effects, None if options.against else options)
    lines = [paint(f"{found.file} against {found.against}", "dim"), plan_text(plan, now)]
    if found.taken and plan.is_empty:
        lines.append(_said_of_taken(found.taken))
    if found.last and found.last["result"] == "refused" and not plan.is_empty:
        lines.append(f"the last reload was refused {_ago(found.last)}; fusiond status shows why")
    document |= {
        "changes": not plan.is_empty,
        "refused": bool(plan.refused),
        "summary": str(plan),
        "plan": asdict(plan),
        "cron": now.cron,
        "warnings": now.warnings,
        "not_looked_at": now.away or None,
        "taken": found.taken,
        "last_reload": found.last,
    }
    if options.load and not plan.refused:
        document["simulation"], text = simulate.simulated(options, found.file)
        lines.append(f"\n{text}")
    arguments.answer(options, document, lambda: "\n".join(lines))
    if plan.refused:
        return REFUSED
    return CHANGES if options.exit_code and not plan.is_empty else OK


def _said_of_taken(taken: ReloadOutcome) -> str:
    """`generation 7 was accepted 12s ago (the file's change): 1 group replaced (main, because …)`."""
    from fusiond.config.accepted.plan import Plan
    from fusiond.config.model import rebuild

    what = rebuild(Plan, taken["plan"]) if taken["plan"] else "nothing changed"
    return f"generation {taken['generation']} was accepted {_ago(taken)}: {what}"


def _ago(outcome: ReloadOutcome) -> str:
    return f"{when(outcome['ended_at'] * 1000, time.time() * 1000)} ({', '.join(outcome['asked_by'])})"


def _with_imports(found: Comparison) -> Comparison:
    """The comparison with the problems of loading the file's tasks; an error means that a reload would be refused."""
    from fusiond.cli.validate import with_imports
    from fusiond.config.lint.reports import as_text
    from fusiond.config.load import load

    loaded = with_imports(load(found.file, environ=os.environ), _IMPORT_TIMEOUT)
    problems = [problem.to_dict() for problem in loaded.problems]
    if loaded.config is None:
        return found._replace(effects=None, problems=problems, reason=as_text(loaded.problems))
    return found._replace(problems=problems)


def _against_file(options: arguments.Options) -> Comparison:
    from fusiond.config.accepted.plan import effects

    name = options.file or file.short_path(options.config)
    _, new = file.read(name)
    _, old = file.read(options.against)
    return Comparison(str(name), options.against, effects(old, new), [])


def _against_daemon(options: arguments.Options) -> Comparison:
    from fusiond.locate.pointers import same_file
    from fusiond.paths import as_named

    located = _daemon(options)
    if options.file is not None:
        running = located.status()
        if not same_file(as_named(options.file), running["source"]):
            return _of_another(options.file, running)
    return _by_daemon(located.ask("plan"))


def _daemon(options: arguments.Options) -> Located:
    """The daemon of -c; without -c, the daemon of FILE if one runs it, otherwise that of the file that is found."""
    if options.file is not None and options.config is None:
        of_file = copy.copy(options)
        of_file.config = options.file
        try:
            return daemon.find(of_file)
        except FusionError:
            try:
                file.path(None)
            except FusionError:
                options.config = options.file
    return daemon.find(options)


def _by_daemon(said: dict[str, Any]) -> Comparison:
    """The comparison that the daemon made of its own file. Raises ControlError."""
    from fusiond.config.accepted.plan import Effects
    from fusiond.config.model import rebuild

    try:
        found = said["effects"] and rebuild(Effects, said["effects"])
    except (TypeError, KeyError, AttributeError) as error:
        raise ControlError("the daemon is of another version than this command; restart it") from error
    against = _accepted(said["generation"])
    return Comparison(said["source"], against, found, said["problems"], said["reason"], said["taken"], said["last"])


def _of_another(name: str, running: StatusDocument) -> Comparison:
    """A file that is not the daemon's: it is read as this user, as the daemon might read what this user may not."""
    from fusiond.config.accepted.plan import effects
    from fusiond.config.accepted.snapshot import read_snapshot

    snapshot = Path(running["snapshot"])
    if not os.access(snapshot, os.R_OK):
        raise FusionError(
            f"{snapshot}: only the daemon's user may read what runs; run this as that user, or give --against OTHER"
        )
    _, new = file.read(name)
    return Comparison(name, _accepted(running["generation"]), effects(read_snapshot(snapshot).config, new), [])


def _accepted(generation: int) -> str:
    return f"generation {generation}, which runs"


def plan_text(plan: Plan, found: Circumstances) -> str:
    """The plan and the circumstances, for people."""
    lines = [str(plan)] if plan.refused or plan.is_empty else list(plan.phrases())
    for entry in found.cron:
        lines.append(f"cron {entry['name']} ticks {paint(_moments(entry['before'], 'not at all'), 'dim')}")
        lines.append(f"{'then':>{len(entry['name']) + 10}} {_moments(entry['after'], 'no more')}")
    lines += [f"{paint('warning', 'yellow')}: {warning['message']}" for warning in found.warnings]
    if found.away and not plan.is_empty:
        lines.append(f"{paint('note', 'yellow')}: jobs were not counted: {found.away}")
    return "\n".join(lines)


def _moments(side: dict[str, Any] | None, absent: str) -> str:
    if side is None:
        return absent
    if side["suspended"]:
        return "suspended"
    return ", ".join(tick.replace("T", " ") for tick in side["ticks"]) or "never"
