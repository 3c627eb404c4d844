"""`fusiond cron`: the entries, when they tick, and a run outside the schedule."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.backfill import add_backfill_options, entry_that_ticks, run_backfill
from fusiond.cli.find import broker, daemon, entry, file
from fusiond.cli.terminal.colours import paint
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import when

if TYPE_CHECKING:
    from fusiond.config.model import CronEntry

#: ticks of an entry that have a line each
_OFTEN: Final = 12


def register(subparsers: Any) -> None:
    """Add `cron list`, `history`, `explain`, `run`, `backfill`, `suspend` and `resume`."""
    summary = "[broker] Schedules: list, history, explain, run, backfill, suspend, resume."
    commands = arguments.commands_below(subparsers, "cron", summary)
    listing = arguments.command(commands, "list", _list)
    until = "instead: each tick until then: 12h, tomorrow (to its end), or a time in ISO 8601"
    listing.add_argument("--until", type=arguments.ahead, metavar="TIME", help=until)
    history = arguments.command(commands, "history", _history)
    since = "in ISO 8601, or so long ago: 2h; default: all that is kept"
    history.add_argument("--since", type=arguments.since, default=0.0, metavar="TIME", help=since)
    history.add_argument("--limit", type=arguments.positive_number, default=50, metavar="N", help="default: 50")
    explain = arguments.command(commands, "explain", _explain)
    run = arguments.command(commands, "run", _run)
    suspend = arguments.command(commands, "suspend", _suspend)
    resume = arguments.command(commands, "resume", _resume)
    backfill = arguments.command(commands, "backfill", run_backfill)
    add_backfill_options(backfill)
    for each in (history, explain, run, backfill, suspend, resume):
        each.add_argument("name", metavar="NAME")
    explain.add_argument("--next", type=arguments.positive_number, default=10, metavar="N", help="ticks; default: 10")
    arguments.add_file(explain)
    arguments.add_json(explain)
    for each in (listing, history, run, backfill, suspend, resume):
        arguments.add_broker(each)


def _explain(options: arguments.Options) -> None:
    """Show the next ticks of an entry, and what daylight saving and calendars do to them."""
    from fusiond.schedule.cron import explain

    now = time.time() * 1000
    found = entry_that_ticks(file.config(options.config), options.name)
    ticks = explain(found, int(now), options.next)
    document = [{"at": tick.at, "local": tick.local.isoformat(), "note": tick.note} for tick in ticks]
    lines = []
    for tick in ticks:
        note = f"  {paint(tick.note, 'yellow')}" if tick.note else ""
        lines.append(f"{tick.local:%a %Y-%m-%d %H:%M:%S %Z}  {paint(f'{when(tick.at, now):>8}', 'dim')}{note}")
    arguments.answer(options, document, lambda: "\n".join(lines))


def _list(options: arguments.Options) -> None:
    """
    [broker] List the file's entries with their last and next ticks.

    With --until each tick until then, in the order of their times, in your zone and, where its clock differs, in that
    of the entry. An entry that ticks more than 12 times has one line.
    """
    from fusiond.config.units import written
    from fusiond.inspecting.cron_runs import outcomes_of
    from fusiond.schedule.cron import next_tick, problem_here
    from fusiond.schedule.drift import in_force

    config = daemon.accepted_config(options)
    with broker.session(options) as session:
        states = session.run_all([session.verbs.cron_state(name) for name in config.cron])
        outcomes = session.run(outcomes_of(session.verbs, states))
    now, entries = time.time() * 1000, list(map(in_force, config.cron.values(), states))
    if options.until is not None:
        ticking = [
            each
            for each, state in zip(entries, states, strict=True)
            if not (problem_here(each) or each.suspended or state.suspended)
        ]
        _tell_ticks(ticking, now, options)
        return
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "task": each.work,
            "schedule": each.schedule or f"every {written(each.every or 0)}",
            "timezone": each.timezone,
            "last": state.last_enqueued,
            "last_job": state.last_job and f"{state.last_queue}/{state.last_job}",
            "outcome": outcome or None,
            "next": None if problem or each.suspended or state.suspended else next_tick(each, int(now)),
            "suspended": each.suspended or state.suspended,
            "problem": problem,
        }
        for each, state, outcome, problem in zip(entries, states, outcomes, map(problem_here, entries), strict=True)
    ]
    arguments.answer(options, rows, lambda: _listed(rows, now))


def _tell_ticks(entries: list[CronEntry], now: float, options: arguments.Options) -> None:
    """Each tick of these entries until --until; of an entry that ticks often the next one, and how many there are."""
    from datetime import UTC, datetime
    from zoneinfo import ZoneInfo

    from fusiond.config.units import written
    from fusiond.schedule.cron import MOST_COUNTED, count_ticks, ticks

    found: list[tuple[int, CronEntry, int]] = []
    for each in entries:
        span = int(now), round(options.until * 1000)
        first = ticks(each, *span, _OFTEN + 1)
        found += (
            [(first[0], each, count_ticks(each, *span))] if len(first) > _OFTEN else [(at, each, 1) for at in first]
        )
    found.sort(key=lambda tick: (tick[0], tick[1].name))
    document, rows = [], []
    for at, each, times in found:
        clock = "%H:%M:%S" if at // 1000 % 60 else "%H:%M"  # seconds that are 0 would cut the zone off
        here = datetime.fromtimestamp(at / 1000, UTC).astimezone()
        there = here.astimezone(ZoneInfo(each.timezone))
        known = {"at": at, "local": here.isoformat(), "in_its_zone": there.isoformat(), "times": times}
        document.append(known | {"name": each.name, "task": each.work})
        zone = "" if each.every or here.utcoffset() == there.utcoffset() else f"{there:%a {clock}} {each.timezone}"
        how_often = each.schedule or f"every {written(each.every or 0)}"
        least = "" if each.every or times < MOST_COUNTED else " or more"
        often = "" if times == 1 else f"and on, {times:,} times{least}: {how_often}"
        rows.append((f"{here:%a %Y-%m-%d {clock} %Z}", zone, each.name, each.work, often))
    arguments.answer(options, document, lambda: table(("TICK", "IN ITS ZONE", "ENTRY", "TASK", ""), rows))


def _history(options: arguments.Options) -> None:
    """[broker] Show what became of the ticks of an entry, the newest first."""
    from fusiond.cli.terminal.text import span
    from fusiond.inspecting.cron_runs import PASSED_OVER, history

    found = entry("cron entry", daemon.accepted_config(options).cron_by_name, options.name)
    with broker.session(options) as session:
        notes = session.run(history(session.verbs, found, round(options.since * 1000), options.limit))
    rows = (
        (
            time.strftime("%a %Y-%m-%d %H:%M:%S %Z", time.localtime(note.tick / 1000)),
            note.outcome,
            "" if note.ms is None else span(note.ms / 1000),
            note.job or PASSED_OVER.get(note.outcome, ""),
        )
        for note in notes
    )
    document = [note._asdict() for note in notes]
    arguments.answer(
        options, document, lambda: table(("TICK", "OUTCOME", "TOOK", "JOB OR WHY NONE"), rows, states="outcome")
    )


def _listed(rows: list[dict[str, Any]], now: float) -> str:
    """The entries as a table."""
    lines = (
        (
            *(row[name] for name in ("name", "task", "schedule", "timezone")),
            when(row["last"], now),
            row["outcome"] or "",
            row["problem"] or ("suspended" if row["suspended"] else when(row["next"], now) or "never"),
        )
        for row in rows
    )
    return table(("ENTRY", "TASK", "SCHEDULE", "TIMEZONE", "LAST", "OUTCOME", "NEXT"), lines, states="outcome next")


def _run(options: arguments.Options) -> None:
    """[broker] Enqueue an entry's task, or start its flow, now, outside its schedule."""
    from fusiond.cli.enqueue import announce
    from fusiond.flows.run_control import RunRef
    from fusiond.inspecting.cron_runs import run_now

    config = daemon.accepted_config(options)
    found = entry("cron entry", config.cron_by_name, options.name)
    with broker.session(options) as session:
        made = session.run(run_now(session.verbs, config, found, session.who))
        if isinstance(made, RunRef):
            arguments.answer(options, {"run": made.name, "queue": made.queue, "id": made.id}, lambda: made.name)
        else:
            announce(made, options)


def _suspend(options: arguments.Options) -> None:
    """[broker] Skip an entry's ticks until it is resumed, over restarts too."""
    _set_suspended(options, on=True)


def _resume(options: arguments.Options) -> None:
    """[broker] Undo suspend; skipped ticks are not run later."""
    _set_suspended(options, on=False)


def _set_suspended(options: arguments.Options, *, on: bool) -> None:
    from fusiond.cli.queue import outcome

    found = entry("cron entry", daemon.accepted_config(options).cron_by_name, options.name)
    with broker.session(options) as session:
        session.run(session.verbs.suspend_cron(found.name, on=on, who=session.who))
    suspended = on or found.suspended
    document = {"name": found.name, "suspended": suspended}
    arguments.answer(options, document, lambda: f"{found.name}: {outcome(on=on, suspended=suspended)}")
