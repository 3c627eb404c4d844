"""`fusiond queue list` and `purge`, `suspend` and `resume`."""

from __future__ import annotations

import time
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.find import broker
from fusiond.cli.terminal.confirm import confirm
from fusiond.cli.terminal.progress import Progress
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import clock, count, span, tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fusiond.broker.counters import Rate
    from fusiond.broker.records import Counts
    from fusiond.errors import BrokerError
    from fusiond.inspecting.audit import Act

#: of the table of queues
HEADINGS: Final = ("QUEUE", "QUEUED", "OLDEST", "SCHEDULED", "STARTED", "FAILED", "NOTES")
#: counts that are among the notes if they are not 0
_NOTED: Final = ("broken", "skipped", "deferred")


def register(subparsers: Any) -> None:
    """Add `queue list`, `queue purge`, `suspend` and `resume`."""
    commands = arguments.commands_below(subparsers, "queue", "[broker] List and purge queues.")
    listing = arguments.command(commands, "list", _list)
    purge = arguments.command(commands, "purge", _purge)
    purge.add_argument("queues", nargs="+", metavar="QUEUE")
    arguments.add_yes(purge)
    suspend = arguments.command(subparsers, "suspend", _suspend)
    resume = arguments.command(subparsers, "resume", _resume)
    for each in (suspend, resume):
        each.add_argument("queues", nargs="*", metavar="QUEUE")
        each.add_argument("--all", action="store_true", help="every queue, and those that are added later")
    for each in (listing, purge, suspend, resume):
        arguments.add_broker(each)


def _list(options: arguments.Options) -> int:
    """
    [broker] List each queue with its jobs by status, how fast jobs come and go, and when it is empty if it goes on so.

    IN/S and OUT/S are jobs per second over the last 3 minutes, retries included; Redis knows them if `metrics: true` or
    `web` is in the file.
    """
    from fusiond.inspecting.audit import who_suspended
    from fusiond.inspecting.queues import count_each

    with broker.session(options) as session:
        counted, unreadable = session.run(count_each(session.verbs))
        rates = session.run(session.verbs.rates([*counted], time.time()))
        suspended = [name for name, counts in counted.items() if counts.suspended_by_operator]
        found = [(name, session.run(who_suspended(session.verbs, name))) for name in suspended]
    acts = {name: act for name, act in found if act}
    said = [
        {**document, **_rates(rates[document["name"]], counted[document["name"]])} for document in documents(counted)
    ]
    arguments.answer(options, said, lambda: listed(counted, rates, acts))
    return complain(unreadable)


def _rates(rate: Rate, counts: Counts) -> dict[str, float | None]:
    empty = rate.seconds_until_empty(counts)
    return {"in_per_s": rate.arrives, "out_per_s": rate.leaves, "empty_in_s": empty}


def _purge(options: arguments.Options) -> None:
    """
    [broker] Cancel all jobs of queues that wait.

    Running jobs go on. `fusiond requeue` runs a canceled job again, as long as it is kept.
    """
    with broker.session(options) as session:
        names = session.queues(*options.queues)
        counts = session.run_all([session.verbs.counts(name) for name in names])
        waiting = sum(each.waiting - each.lost for each in counts)
        if waiting:
            confirm(f"cancel {count(waiting, 'waiting job')} of {', '.join(names)}", options)
        canceled = {}
        with Progress("jobs canceled") as progress:
            for name in names:
                before = progress.done
                canceled[name] = session.run(
                    session.verbs.purge(name, partial(progress.advance, before), who=session.who)
                )
                progress.to(before + canceled[name])
        left = session.run_all([session.verbs.counts(name) for name in names])
    running = {name: each.started for name, each in zip(names, left, strict=True)}
    document = [{"queue": name, "canceled": number, "running": running[name]} for name, number in canceled.items()]
    lines = [f"{name}: {count(number, 'job')} canceled{_go_on(running[name])}" for name, number in canceled.items()]
    arguments.answer(options, document, lambda: "\n".join(lines))


def _go_on(running: int) -> str:
    return f"; {count(running, 'running job')} {'goes' if running == 1 else 'go'} on" if running else ""


def _suspend(options: arguments.Options) -> None:
    """[broker] Let queues accept jobs but start none, until they are resumed."""
    _set_suspended(options, on=True)


def _resume(options: arguments.Options) -> None:
    """[broker] Undo suspend."""
    _set_suspended(options, on=False)


def _set_suspended(options: arguments.Options, *, on: bool) -> None:
    if options.all == bool(options.queues):
        raise UsageError("name queues, or give --all")
    with broker.session(options) as session:
        if options.all:
            now = session.run(session.verbs.suspend_all(on=on, who=session.who))
        else:
            names = session.queues(*options.queues)
            calls = [session.verbs.suspend(name, by="operator", on=on, who=session.who) for name in names]
            now = dict(zip(names, session.run_all(calls), strict=True))
    by = "by name or by the file (fusiond resume QUEUE)" if options.all else "by the file"
    lines = [f"{name}: {outcome(on=on, suspended=suspended, by=by)}" for name, suspended in now.items()]
    if options.all:
        lines.append(f"queues that are added later: {outcome(on=on, suspended=on)}")
    document = [{"queue": name, "suspended": suspended} for name, suspended in now.items()]
    arguments.answer(options, document, lambda: "\n".join(lines))


def outcome(*, on: bool, suspended: bool, by: str = "by the file") -> str:
    """How a suspend (`on`) or resume ended. `by`: what a resume does not undo."""
    if suspended and not on:
        return f"stays suspended, {by}"
    return "suspended" if suspended else "resumed"


def complain(unreadable: Iterable[BrokerError]) -> int:
    """Print each error once, about queues that are missing in the answer; returns the exit status."""
    sentences = dict.fromkeys(map(str, unreadable))
    for sentence in sentences:
        tell(sentence)
    return REFUSED if sentences else OK


def documents(counted: Mapping[str, Counts]) -> list[dict[str, Any]]:
    """The counts as JSON."""
    import dataclasses

    return [
        {
            "name": name,
            **dataclasses.asdict(counts),
            "limits": {task: limit.to_dict() for task, limit in counts.limits.items()},
        }
        for name, counts in counted.items()
    ]


def listed(
    counted: Mapping[str, Counts],
    rates: Mapping[str, Rate] | None = None,
    acts: Mapping[str, Act] = MappingProxyType({}),
) -> str:
    """The counts as a table. `rates`: beside them, how fast jobs come and go; `acts`: who has suspended a queue."""
    right = "queued oldest scheduled started failed in/s out/s empty"
    rows = [queue_row(name, counts, acts.get(name)) for name, counts in counted.items()]
    if rates is None:
        return table(HEADINGS, rows, right=right)
    headings = (*HEADINGS[:3], "IN/S", "OUT/S", "EMPTY", *HEADINGS[3:])
    told = (
        (*row[:3], *_rate_cells(rates[name], counts), *row[3:])
        for row, (name, counts) in zip(rows, counted.items(), strict=True)
    )
    return table(headings, told, right=right)


def _rate_cells(rate: Rate, counts: Counts) -> tuple[str, str, str]:
    """Jobs per second that come and go; when it is empty if it goes on so."""
    waiting = counts.queued + counts.inbox
    empty = rate.seconds_until_empty(counts)
    come = "" if rate.arrives is None else f"{rate.arrives:,.1f}"
    return come, f"{rate.leaves:,.1f}", "now" if not waiting else "never" if empty is None else f"in {span(empty)}"


def queue_row(name: str, counts: Counts, act: Act | None = None) -> tuple[object, ...]:
    """The cells of one queue, as of HEADINGS. `act`: by which an operator has suspended it."""
    return (
        name,
        counts.queued + counts.inbox,
        "" if counts.oldest_wait_ms is None else span(counts.oldest_wait_ms / 1000),
        *(getattr(counts, heading.lower()) for heading in HEADINGS[3:-1]),
        ", ".join(_notes(counts, act)),
    )


def _notes(counts: Counts, act: Act | None) -> Iterable[str]:
    from fusiond.inspecting.queues import limits_in_words

    if counts.is_suspended:
        who = f"{act.who}, {clock(act.at)}" if act else "the operator"
        yield f"suspended by {who if counts.suspended_by_operator else 'the file'}"
    yield from limits_in_words(counts)
    yield from (f"{each.jobs:,} held of task {each.task}" for each in counts.held_tasks if each.jobs)
    if counts.limited:
        yield f"{counts.limited:,} held by limits"
    yield from (f"{number:,} {name}" for name in _NOTED if (number := getattr(counts, name)))
