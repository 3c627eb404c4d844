"""`fusiond simulate`: what a file would do with a load."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import INTERRUPTED, OK
from fusiond.cli.find import daemon, file
from fusiond.cli.terminal.progress import Progress
from fusiond.cli.terminal.table import WORSE, table
from fusiond.cli.terminal.text import count, span, tell
from fusiond.config import units
from fusiond.errors import FusionError

if TYPE_CHECKING:
    from fusiond.config.model import Config
    from fusiond.simulation.replay import Conditions
    from fusiond.simulation.result_tables import Cell

#: hosts that a simulation has, of one name; times as many jobs
_MOST_HOSTS: Final = 1000
_HOSTS: Final = re.compile(r"([A-Za-z0-9_.-]{1,253})=([0-9]{1,4})")


def register(subparsers: Any) -> None:
    """Add `simulate`."""
    parser = arguments.command(subparsers, "simulate", _simulate)
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="default: -c, or the file that is found")
    add("--against", metavar="OTHER", help="show another file beside it; default: what the daemon of FILE runs, if any")
    add_load(parser, required=True)
    arguments.add_daemon(parser)


def add_load(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the options of a simulation, which `plan` has, too."""
    group = parser.add_argument_group("simulation")
    add = group.add_argument
    add("--load", metavar="LOAD", required=required, help="a file of jobs that arrive: recorded, or written by hand")
    add("--scale", type=_scale, default=1.0, metavar="N", help="so many times as many jobs")
    add("--for", type=arguments.positive_duration, dest="length", metavar="TIME", help="default: as long as the load")
    add("--hosts", type=_hosts, default={}, metavar="NAME=N,…", help="default: one, on which all groups run")
    add("--clock", type=_clock, metavar="TIME", help="when it begins; default: Monday 2026-01-05 00:00 UTC")
    add("--seed", type=int, default=1, metavar="N", help="another number: other draws; default: 1")


def _simulate(options: arguments.Options) -> int:
    """
    [daemon] Simulate what a file would do with a load: how long jobs wait, what expires, how much is left waiting.

    The scripts that Redis runs and the rules of the daemon decide, under a virtual clock, in a Redis of the
    simulation's own. Nothing is enqueued, and no task runs. Two files are compared with the same jobs.
    """
    found, text = simulated(options, options.file or str(file.short_path(options.config)))
    arguments.answer(options, found, lambda: text)
    return INTERRUPTED if found["after"]["interrupted"] is not None else OK


def simulated(options: arguments.Options, named: str) -> tuple[dict[str, Any], str]:
    """What `simulate` finds for the file of that name beside what it is compared with, and the same for people."""
    _, config = file.read(named)
    against, before = _before(options, named)
    found = simulate(options, config, before)
    return found, as_text(found, named if before is None else f"{named} (after) against {against} (before)")


def _before(options: arguments.Options, named: str) -> tuple[str, Config | None]:
    """What it is compared with: its name, and the configuration; None: nothing."""
    from fusiond.config.accepted.snapshot import read_snapshot

    if options.against:
        return options.against, file.read(options.against)[1]
    options.config = options.config or named
    try:
        running = daemon.find(options).status()
        return f"generation {running['generation']}, which runs", read_snapshot(running["snapshot"]).config
    except FusionError:
        return "", None


def simulate(options: arguments.Options, config: Config, before: Config | None) -> dict[str, Any]:
    """`after` and, if there is another configuration, `before`: the results. Raises FusionError."""
    from fusiond.simulation.load_files import read_load
    from fusiond.simulation.variants import check_tasks
    from fusiond.simulation.variants import simulate as run

    load, notes = read_load(options.load, options.seed)
    check_tasks(load, [each for each in (config, before) if each])
    for note in notes:
        tell(note)
    conditions = _conditions(options, options.length or load.length())
    found: dict[str, Any] = {}
    for name, each in (("after", config), ("before", before)):
        if each and not (found and found["after"]["interrupted"] is not None):
            with Progress("jobs simulated") as progress:
                found[name] = run(each, load, conditions, progress.to)
            tell(f"Redis held {found[name].pop('memory') / 1e6:.1f} MB at the end of {name!r}")
    return found


def _conditions(options: arguments.Options, length: float) -> Conditions:
    from fusiond.simulation.replay import BEGIN, Conditions

    return Conditions(length, options.clock or BEGIN, options.scale, options.hosts, seed=options.seed)


def as_text(found: dict[str, Any], names: str) -> str:
    """The results for people."""
    from fusiond.simulation.result_tables import NOT_SIMULATED, tables

    after = found["after"]
    jobs = count(sum(said["jobs"] for said in after["tasks"].values()), "job")
    hosts = ", ".join(f"{name}={n}" for name, n in after["hosts"].items()) or "one host"
    about = f"{jobs} in {units.written(after['length'])} from {after['begin']}, {hosts}, seed {after['seed']}"
    parts = [f"{NOT_SIMULATED}\n{names}: {about}", "p50, p95, p99 and max: how long jobs waited until they began"]
    for each in tables(after, found.get("before")):
        rows = [[_written(cell) for cell in row] for row in each.rows]
        numbers = " ".join(heading.lower() for heading in each.headings if heading not in ("Why", "File"))
        parts.append(table([heading.upper() for heading in each.headings], rows, right=numbers.partition(" ")[2]))
    parts += [f"note: {note}" for note in after["notes"]]
    if after["interrupted"] is not None:
        parts.append(f"interrupted after {span(after['interrupted'])}: what it had by then is above")
    return "\n\n".join(parts)


def _written(cell: Cell) -> object:
    if cell.value is None:
        return ""
    shown: object = cell.value
    if cell.kind == "seconds":
        shown = f"{cell.value:.1f}s" if 1 <= cell.value < 60 else span(cell.value)
    elif cell.kind == "share":
        shown = f"{cell.value:.0%}"
    return f"{shown:,}{WORSE}" if cell.worse and cell.kind == "count" else f"{shown}{WORSE}" if cell.worse else shown


def _scale(text: str) -> float:
    found = float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else 0.0
    if not 0 < found <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0, up to 1000")
    return found


def _hosts(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in text.split(","):
        match = _HOSTS.fullmatch(part.strip())
        if not match or match[1] in found or not 0 < int(match[2]) <= _MOST_HOSTS:
            what = f"a host and a number such as web=3, up to {_MOST_HOSTS}, each host once"
            raise argparse.ArgumentTypeError(f"{part!r} is not {what}")
        found[match[1]] = int(match[2])
    return found


def _clock(text: str) -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(arguments.moment(text), UTC)
