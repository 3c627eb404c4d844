"""`fusiond cron backfill`: run the ticks of a time that has passed."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from fusiond.cli import arguments
from fusiond.cli.enqueue import warn_unserved, words
from fusiond.cli.exits import INTERRUPTED, OK, REFUSED, UsageError
from fusiond.cli.find import broker, daemon, entry
from fusiond.cli.terminal.progress import Progress
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count, tell
from fusiond.errors import FusionError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from zoneinfo import ZoneInfo

    from fusiond.config.model import Config, CronEntry
    from fusiond.inspecting.backfill import Backfill


def add_backfill_options(parser: ArgumentParser) -> None:
    """Add those that it has beside the entry's name and the broker."""
    add = parser.add_argument
    add("--since", required=True, metavar="TIME", help="a day or a time in ISO 8601; without an offset in its zone")
    add("--until", metavar="TIME", help="a tick at this time does not count; default: now")
    add("--only", choices=("missed", "failed", "all"), default="missed", help="missed (default): without a job")
    most = "jobs, or runs of the flow, at once; default: 1"
    add("--max-running", type=arguments.positive_number, default=1, metavar="N", help=most)
    add("--priority", type=words.scalar, metavar="P", help="a name from the file, or 0 to 255; default: the task's")
    add("--dry-run", action="store_true", help="only list the ticks")
    add("--force", action="store_true", help="even if the jobs do not learn for which tick they run")


def run_backfill(options: arguments.Options) -> int:
    """
    [broker] Run the ticks of a time that has passed, each with the date and time of then.

    A repeat starts nothing twice, and continues what was interrupted.
    """
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from fusiond.inspecting.backfill import Backfill

    config = daemon.accepted_config(options)
    found = entry_that_ticks(config, options.name)
    if not (found.inputs or options.force):
        remedy = "add inputs: {day: tick.date} to the entry, or use --force"
        raise FusionError(
            f"the jobs of '{found.name}' do not learn for which tick they run, so all do the same; {remedy}"
        )
    if found.flow and options.priority is not None:
        raise UsageError("--priority: the jobs of a flow have the priorities of their tasks")
    zone = ZoneInfo(found.timezone)
    since = _at("--since", options.since, zone)
    until = round(time.time() * 1000) if options.until is None else _at("--until", options.until, zone)
    if since >= until:
        raise UsageError(f"no time lies between {options.since} and {options.until or 'now'}; give an earlier --since")
    with broker.session(options) as session:
        backfill = Backfill(session.verbs, config, found, options.max_running, options.priority)
        known = session.run(backfill.choose(since, until, options.only))
        rows: dict[int, Any] = {tick: {"tick": tick, "outcome": None} for tick in backfill.left}
        interrupted = bool(rows) and not options.dry_run and _follow(session, backfill, rows)
    ticks = [row | {"local": datetime.fromtimestamp(tick / 1000, zone).isoformat()} for tick, row in rows.items()]
    document = {"name": found.name, "known": known, "ticks": ticks}
    arguments.answer(options, document, lambda: _backfilled(document, dry=options.dry_run))
    if interrupted:
        tell(f"interrupted: {count(len(backfill.going), 'tick')} began and go on; the same command does the rest")
        return INTERRUPTED
    return OK if options.dry_run or all(row["outcome"] == "finished" for row in ticks) else REFUSED


def entry_that_ticks(config: Config, name: str) -> CronEntry:
    """The entry of this name, or former name. Raises FusionError, also if this host cannot compute its ticks."""
    from fusiond.schedule.cron import problem_here

    found = entry("cron entry", config.cron_by_name, name)
    if problem := problem_here(found):
        raise FusionError(f"cron entry '{found.name}' does not tick on this host: {problem}")
    return found


def _at(option: str, text: str, zone: ZoneInfo) -> int:
    """Epoch ms of a day or a time. Raises UsageError."""
    from datetime import datetime

    try:
        found = datetime.fromisoformat(text)
        return max(0, round((found if found.tzinfo else found.replace(tzinfo=zone)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise UsageError(f"{option} {text!r} is not a day or a time such as 2026-11-01 or 2026-11-01T02:00") from None


def _follow(session: broker.Session, backfill: Backfill, rows: dict[int, Any]) -> bool:
    """Run the ticks, and note how each ends. Returns whether Ctrl-C came before all have."""
    from fusiond.broker.call import looked_at

    session.run(backfill.announce(session.who))
    warn_unserved(session.run(backfill.unserved()))
    try:
        with Progress(f"of {count(len(rows), 'tick')}") as progress:
            while backfill.left or backfill.going:
                for tick, end in session.run(looked_at(backfill.look, bool, None)):
                    rows[tick]["outcome"] = end
                    progress.to(progress.done + 1)
    except KeyboardInterrupt:
        return True
    return False


def _backfilled(document: dict[str, Any], *, dry: bool) -> str:
    """The ticks that would run, or those that have not finished; then how many there are."""
    ticks, known = document["ticks"], count(document["known"], "tick")
    shown = [tick for tick in ticks if tick["outcome"] != "finished"]
    lines = [table(("TICK", "OUTCOME"), ((tick["local"], tick["outcome"] or "") for tick in shown))] if shown else []
    ends = Counter(tick["outcome"] or "left" for tick in ticks)
    came_to = "" if dry else "".join(f"; {number:,} {word}" for word, number in ends.items())
    return "\n".join([*lines, f"{document['name']}: {len(ticks):,} of {known} to run{came_to}"])
