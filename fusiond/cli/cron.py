"""`fusiond cron`: what runs on a schedule, when, and now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fusiond.cli import numbers, source
from fusiond.cli.exits import OK
from fusiond.cli.table import paint, print_json, table, when

if TYPE_CHECKING:
    import argparse

    from fusiond.broker.ticks import CronState
    from fusiond.config.model import Config, CronEntry


def register(subparsers: Any) -> None:
    """Add `cron list`, `explain`, `run`, `suspend` and `resume`."""
    parser = subparsers.add_parser("cron", help="[broker] schedules: list, explain, run, suspend, resume")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    listing = commands.add_parser("list", help="[broker] list the file's entries with their last and next ticks")
    listing.set_defaults(handler=_list)
    explain = commands.add_parser(
        "explain", help="show the next ticks of an entry, and what daylight saving does to them"
    )
    explain.add_argument("name", metavar="NAME")
    explain.add_argument("--next", type=numbers.many, default=10, metavar="N", help="how many ticks; default: 10")
    source.add_file_option(explain)
    explain.set_defaults(handler=_explain)
    run = commands.add_parser("run", help="[broker] enqueue an entry's task now, beside its schedule")
    run.set_defaults(handler=_run)
    suspend = commands.add_parser(
        "suspend", help="[broker] skip an entry's ticks until it is resumed, over restarts too"
    )
    resume = commands.add_parser("resume", help="[broker] undo suspend; the skipped ticks are not made up for")
    suspend.set_defaults(handler=_suspend, on=True)
    resume.set_defaults(handler=_suspend, on=False)
    for each in (run, suspend, resume):
        each.add_argument("name", metavar="NAME")
    for each in (listing, run, suspend, resume):
        source.add_broker_options(each)
    for each in (listing, explain, run):
        source.add_json_option(each)


def _entry(config: Config, name: str) -> CronEntry:
    if name not in config.cron:
        raise source.unknown("cron entry", name, config.cron)
    return config.cron[name]


def _explain(options: argparse.Namespace) -> int:
    from fusiond.schedule.cron import explain

    now = time.time() * 1000
    ticks = explain(_entry(source.config(options), options.name), int(now), options.next)
    if options.json:
        print_json([{"at": tick.at, "local": tick.local.isoformat(), "note": tick.note} for tick in ticks])
        return OK
    for tick in ticks:
        note = f"  {paint(tick.note, 'yellow')}" if tick.note else ""
        print(f"{tick.local:%a %Y-%m-%d %H:%M:%S %Z}  {paint(f'{when(tick.at, now):>8}', 'dim')}{note}")
    return OK


def _list(options: argparse.Namespace) -> int:
    from fusiond.config.units import written
    from fusiond.schedule.cron import next_tick

    config = source.accepted(options)
    with source.broker(options) as desk:
        states = desk.run_all([desk.verbs.cron_state(name) for name in config.cron])
        outcomes = [_outcome(desk, state) for state in states]
    now = time.time() * 1000
    rows: list[dict[str, Any]] = [
        {
            "name": entry.name,
            "task": entry.task,
            "schedule": entry.schedule or f"every {written(entry.every or 0)}",
            "timezone": entry.timezone,
            "last": state.last_enqueued_ms,
            "last_job": state.last_job and f"{state.last_queue}/{state.last_job}",
            "outcome": outcome,
            "next": None if entry.suspended or state.suspended else next_tick(entry, int(now)),
            "suspended": entry.suspended or state.suspended,
        }
        for entry, state, outcome in zip(config.cron.values(), states, outcomes, strict=True)
    ]
    if options.json:
        print_json(rows)
        return OK
    lines = (
        (
            *(row[name] for name in ("name", "task", "schedule", "timezone")),
            when(row["last"], now),
            row["outcome"] or "",
            _next(row, now),
        )
        for row in rows
    )
    print(table(("ENTRY", "TASK", "SCHEDULE", "TIMEZONE", "LAST", "OUTCOME", "NEXT"), lines, states="outcome next"))
    return OK


def _outcome(desk: source.Desk, state: CronState) -> str | None:
    """The status of the last tick's job; kept by the scheduler once the job itself was dropped."""
    if state.last_queue is None or state.last_job is None:
        return None
    status = desk.run(desk.verbs.status(state.last_queue, state.last_job))
    return status or state.last_status or "gone"


def _next(row: dict[str, Any], now: float) -> str:
    return "suspended" if row["suspended"] else when(row["next"], now) or "never"


def _run(options: argparse.Namespace) -> int:
    from fusiond.cli.enqueue import announce
    from fusiond.enqueue_options import NO_OPTIONS
    from fusiond.producer import Producer

    entry = _entry(source.accepted(options), options.name)
    with source.broker(options) as desk:
        producer = Producer(desk.verbs, "memory")
        announce(desk.run(producer.enqueue(NO_OPTIONS, entry.task, entry.args, dict(entry.kwargs))), options)
    return OK


def _suspend(options: argparse.Namespace) -> int:
    from fusiond.cli.queue import outcome

    entry = _entry(source.accepted(options), options.name)
    with source.broker(options) as desk:
        desk.run(desk.verbs.suspend_cron(entry.name, on=options.on))
    print(f"{entry.name}: {outcome(on=options.on, suspended=options.on or entry.suspended)}")
    return OK
