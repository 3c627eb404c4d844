"""`fusiond queue`, `suspend` and `resume`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.find import broker
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import legible, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fusiond.broker.records import Counts
    from fusiond.errors import BrokerError

_HEADINGS: Final = ("QUEUE", "QUEUED", "OLDEST", "SCHEDULED", "STARTED", "FINISHED", "FAILED", "CANCELED", "NOTES")


def register(subparsers: Any) -> None:
    """Add `queue list`, `suspend` and `resume`."""
    commands = arguments.commands_below(subparsers, "queue", "[broker] The queues: list.")
    listing = arguments.command(commands, "list", _list)
    suspend = arguments.command(subparsers, "suspend", _suspend)
    resume = arguments.command(subparsers, "resume", _resume)
    for each in (suspend, resume):
        each.add_argument("queues", nargs="*", metavar="QUEUE")
        each.add_argument("--all", action="store_true", help="every queue, and those that are added later")
    for each in (listing, suspend, resume):
        arguments.add_broker(each)
        arguments.add_json(each)


def _list(options: arguments.Options) -> int:
    """[broker] List each queue with its jobs by status."""
    with broker.session(options) as session:
        counted, unreadable = count_each(session)
    arguments.answer(options, documents(counted), lambda: listed(counted))
    return complain(unreadable)


def _suspend(options: arguments.Options) -> int:
    """[broker] Let queues accept jobs but start none, until they are resumed."""
    return _set_suspended(options, on=True)


def _resume(options: arguments.Options) -> int:
    """[broker] Undo suspend."""
    return _set_suspended(options, on=False)


def _set_suspended(options: arguments.Options, *, on: bool) -> int:
    if options.all == bool(options.queues):
        raise UsageError("name queues, or give --all")
    with broker.session(options) as session:
        if options.all:
            now = session.run(session.verbs.suspend_all(on=on))
        else:
            names = session.queues(*options.queues)
            calls = [session.verbs.suspend(name, by="operator", on=on) for name in names]
            now = dict(zip(names, session.run_all(calls), strict=True))
    lines = [f"{name}: {outcome(on=on, suspended=suspended)}" for name, suspended in now.items()]
    if options.all:
        lines.append(f"queues that are added later: {outcome(on=on, suspended=on)}")
    document = [{"queue": name, "suspended": suspended} for name, suspended in now.items()]
    arguments.answer(options, document, lambda: "\n".join(lines))
    return OK


def outcome(*, on: bool, suspended: bool) -> str:
    """How a suspend (`on`) or resume ended."""
    if suspended and not on:
        return "stays suspended, by the file"
    return "suspended" if suspended else "resumed"


def count_each(session: broker.Session) -> tuple[dict[str, Counts], list[BrokerError]]:
    """The counts of each queue that can be read, in one round trip, and the errors of the others."""
    return session.run_each({name: session.verbs.counts(name) for name in session.queues()})


def complain(unreadable: Iterable[BrokerError]) -> int:
    """Print each error once, about queues that are missing in the answer; returns the exit status."""
    sentences = dict.fromkeys(map(str, unreadable))
    for sentence in sentences:
        print(f"fusiond: {legible(sentence)}", file=sys.stderr)
    return REFUSED if sentences else OK


def documents(counted: Mapping[str, Counts]) -> list[dict[str, Any]]:
    """The counts as JSON."""
    import dataclasses

    return [{"name": name, **dataclasses.asdict(counts)} for name, counts in counted.items()]


def listed(counted: Mapping[str, Counts]) -> str:
    """The counts as a table."""
    rows = (
        (
            name,
            counts.queued + counts.inbox,
            "" if counts.oldest_wait_ms is None else span(counts.oldest_wait_ms / 1000),
            *(getattr(counts, heading.lower()) for heading in _HEADINGS[3:-1]),
            ", ".join(_notes(counts)),
        )
        for name, counts in counted.items()
    )
    return table(_HEADINGS, rows, right="queued oldest scheduled started finished failed canceled")


def _notes(counts: Counts) -> Iterable[str]:
    if counts.suspended_by_operator or counts.suspended_by_file:
        yield f"suspended by {'the operator' if counts.suspended_by_operator else 'the file'}"
    if counts.max_length is not None:
        yield f"at most {counts.max_length:,}"
    if counts.broken:
        yield f"{counts.broken:,} broken"
    if counts.deferred:
        yield f"{counts.deferred:,} deferred"
