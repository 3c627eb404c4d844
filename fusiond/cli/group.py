"""`fusiond group` and `drain`: the worker groups of this host."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED, TIMED_OUT
from fusiond.cli.find import daemon, entry
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count, legible, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.locate.find_daemons import Located
    from fusiond.status_document import ProgramStatus, ReloadOutcome, StatusDocument

#: seconds that the daemon may take to answer
_TIMEOUT: Final = 10.0
#: seconds between two questions of `logs --follow`, and of `drain --wait`
_FOLLOW: Final = 0.5
_LOOK: Final = 0.3
#: s; for so long `drain` waits for what a group has not said yet, or Redis not answered: both come within a moment
_PATIENCE: Final = 1.0
_WORKER: Final = "worker:"


def register(subparsers: Any) -> None:
    """Add `group list`, `restart` and `logs`, and `drain`."""
    commands = arguments.commands_below(subparsers, "group", "[daemon] The worker groups of this host.")
    listing = arguments.command(commands, "list", _list)
    restart = arguments.command(commands, "restart", _restart)
    restart.add_argument("groups", nargs="+", metavar="GROUP")
    arguments.add_timeout(restart)
    logs = arguments.command(commands, "logs", _logs)
    logs.add_argument("group", metavar="GROUP")
    logs.add_argument("-f", "--follow", action="store_true", help="go on with what is logged from now on, until Ctrl-C")
    lines = "how many lines, the newest; default: 20"
    logs.add_argument("-n", "--lines", type=arguments.positive_number, default=20, metavar="N", help=lines)
    drain = arguments.command(subparsers, "drain", _drain)
    wait = "wait until no job runs; status 124 if that takes longer than SECONDS"
    either = drain.add_mutually_exclusive_group()
    either.add_argument("--wait", nargs="?", type=arguments.job_timeout, const=math.inf, metavar="SECONDS", help=wait)
    either.add_argument("--undo", action="store_true", help="have the groups claim again")
    for each in (listing, restart, drain):
        arguments.add_daemon(each)
    arguments.add_file(logs)
    logs.add_argument("--dev", action="store_true", help="of the daemon of fusiond dev, if another one runs this file")


def _list(options: arguments.Options) -> None:
    """[daemon] List the worker groups of this host, with the process of each."""
    from fusiond.cli.status.report import program_notes, program_state

    status = daemon.find(options).status(_TIMEOUT)
    programs = list(_programs(status))
    rows: list[tuple[object, ...]] = [
        (_name(program), *program_state(program), program["generation"], ", ".join(program_notes(program)))
        for program in programs
    ]
    rows += [(name, "", "", "", "", "its `hosts` leave this host out") for name in status["of_other_hosts"]]
    headings = ("GROUP", "STATE", "PID", "UP", "GENERATION", "NOTES")
    arguments.answer(options, programs, lambda: table(headings, rows, right="pid up generation"))


def _restart(options: arguments.Options) -> int:
    """
    [daemon] Replace worker groups by new processes, as `reload --code` does.

    The new processes begin to claim once they have loaded their tasks; the old ones end with their last job. If a task
    does not load, the old ones go on, and the status is 1. A file that has changed is applied as well.
    """
    located = daemon.find(options)
    names = _known(located, options.groups)
    who = daemon.asker(f"fusiond group restart {' '.join(names)}")
    outcome: ReloadOutcome = located.ask("reload", who, " ".join(names), timeout=options.timeout)
    arguments.answer(options, outcome, lambda: legible(outcome["summary"]))
    return REFUSED if outcome["result"] == "refused" else OK


def _logs(options: arguments.Options) -> None:
    """
    [daemon] Print the last lines that a worker group has logged, with what its jobs print.

    The daemon keeps the last 256 kB of each process, wherever else the lines go.
    """
    located = daemon.find(options)
    _known(located, [options.group])
    offsets: dict[str, int] = {}
    last: dict[str, str] = {}
    found = _read(located, options.group, offsets, last)
    for line in found[-options.lines :]:
        print(legible(line), flush=True)
    while options.follow:
        time.sleep(_FOLLOW)
        for line in _read(located, options.group, offsets, last):
            print(legible(line), flush=True)


def _read(located: Located, group: str, offsets: dict[str, int], last: dict[str, str]) -> list[str]:
    """The lines since the last call, of all processes of the group; keeps `offsets` and `last` up to date."""
    import json

    lines: list[str] = []
    for name, logged in located.ask("logs", group, json.dumps(offsets), timeout=_TIMEOUT).items():
        new = logged["text"].splitlines()
        if logged["size"] < offsets.get(name, 0) and last.get(name) in new:
            # The file was cut, and begins with lines that were printed before.
            new = new[len(new) - new[::-1].index(last[name]) :]
        offsets[name] = logged["size"]
        last[name] = new[-1] if new else last.get(name, "")
        lines += new
    return lines


def _drain(options: arguments.Options) -> int:
    """
    [daemon] Have the worker groups of this host claim no more jobs; running jobs go on.

    It holds over reloads, until `fusiond drain --undo` or the daemon's next start. Schedules still tick: their jobs run
    on other hosts, or wait.
    """
    located = daemon.find(options)
    if options.undo:
        located.ask("drain", "off", daemon.asker("fusiond drain --undo"), timeout=_TIMEOUT)
        arguments.answer(options, {"drained": False, "running": None}, lambda: "the groups of this host claim again")
        return OK
    located.ask("drain", "on", daemon.asker("fusiond drain"), timeout=_TIMEOUT)
    left = _wait(located, options.wait)
    text = f"the groups of this host claim nothing until fusiond drain --undo; {left}"
    answer = {"drained": True, "running": left.running, "waits_for_redis": list(left.waiting)}
    arguments.answer(options, answer, lambda: text)
    return TIMED_OUT if options.wait is not None and not left.is_nothing else OK


class _Left(NamedTuple):
    """What a host that drains still has to do."""

    #: jobs that run; None: a group has not said it yet
    running: int | None
    #: programs that run none and wait for an answer of Redis
    waiting: tuple[str, ...]

    @property
    def is_nothing(self) -> bool:
        """Whether the host may be taken down."""
        return self.running == 0 and not self.waiting

    @property
    def may_pass(self) -> bool:
        """Whether nothing runs as far as is known, and an answer is missing."""
        return self.running is None or (self.running == 0 and bool(self.waiting))

    def __str__(self) -> str:
        if self.running is None:
            return "a group has not said yet how many jobs it runs"
        if self.running:
            return f"{count(self.running, 'job')} still {'runs' if self.running == 1 else 'run'}"
        if not self.waiting:
            return "no job runs"
        return (
            f"no job runs, but Redis has not answered {', '.join(self.waiting)} yet:"
            " an outcome may not be stored, or a job may still come"
        )


def _wait(located: Located, seconds: float | None) -> _Left:
    """
    What is left at the end.

    `seconds`: for which it waits until nothing was left at two looks, since a job may have been on its way; None: it
    waits for the answers alone that come within a moment.
    """
    deadline, quiet = time.monotonic() + (_PATIENCE if seconds is None else seconds), 0
    while True:
        left = _left(located)
        quiet = quiet + 1 if left.is_nothing else 0
        is_over = quiet == 2 if seconds is not None else not left.may_pass
        if is_over or time.monotonic() > deadline:
            return left
        time.sleep(_LOOK)


def _left(located: Located) -> _Left:
    status = located.status(_TIMEOUT)
    if status["drained"] is None:
        tell("note: somebody has undone the drain")
    programs = [program for program in _programs(status) if program["pid"]]
    busy = [program["busy"] for program in programs if program["busy"] is not None]
    waiting = tuple(program["name"] for program in programs if program["waits_for_redis"])
    return _Left(sum(busy) if len(busy) == len(programs) else None, waiting)


def _known(located: Located, names: list[str]) -> list[str]:
    """The names themselves. Raises FusionError for one that no worker group of this host has."""
    groups = [*map(_name, _programs(located.status(_TIMEOUT)))]
    return [entry("group", dict(zip(groups, groups, strict=True)), name) for name in names]


def _name(program: ProgramStatus) -> str:
    """The group that a program belongs to."""
    return program["part"].removeprefix(_WORKER)


def _programs(status: StatusDocument) -> Iterator[ProgramStatus]:
    """Those of worker groups."""
    return (program for program in status["programs"] if program["part"].startswith(_WORKER))
