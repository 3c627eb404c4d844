"""`fusiond queue`, `suspend` and `resume`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import source
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.table import legible, print_json, span, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from fusiond.broker.records import Counts
    from fusiond.broker.redis.redis_errors import Spoilt

_HEADINGS: Final = ("QUEUE", "QUEUED", "OLDEST", "SCHEDULED", "STARTED", "FINISHED", "FAILED", "CANCELED", "NOTES")


def register(subparsers: Any) -> None:
    """Add `queue list`, `suspend` and `resume`."""
    parser = subparsers.add_parser("queue", help="[broker] the queues: list")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="[broker] list each queue with its jobs by status")
    listing.set_defaults(handler=_list)

    suspend = subparsers.add_parser("suspend", help="[broker] let queues accept jobs but start none, until resumed")
    resume = subparsers.add_parser("resume", help="[broker] undo suspend")
    suspend.set_defaults(handler=_suspend, on=True)
    resume.set_defaults(handler=_suspend, on=False)
    for each in (suspend, resume):
        each.add_argument("queues", nargs="*", metavar="QUEUE")
        each.add_argument("--all", action="store_true", help="every queue, and those that are added later")
    for each in (listing, suspend, resume):
        source.add_broker_options(each)
        source.add_json_option(each)


def _list(options: argparse.Namespace) -> int:
    with source.broker(options) as desk:
        counted, spoilt = count_each(desk)
    if options.json:
        print_json(documents(counted))
    else:
        print(listed(counted))
    return complain(spoilt)


def complain(spoilt: Iterable[object]) -> int:
    """Name the queues that could not be read, each once, beside what was printed of the others; the exit status."""
    sentences = dict.fromkeys(map(str, spoilt))
    for sentence in sentences:
        print(f"fusiond: {legible(sentence)}", file=sys.stderr)
    return REFUSED if sentences else OK


def _suspend(options: argparse.Namespace) -> int:
    if options.all == bool(options.queues):
        raise UsageError("name queues, or give --all")
    with source.broker(options) as desk:
        if options.all:
            now = desk.run(desk.verbs.suspend_all(on=options.on))
        else:
            names = desk.queues(*options.queues)
            calls = [desk.verbs.suspend(name, by="operator", on=options.on) for name in names]
            now = dict(zip(names, desk.run_all(calls), strict=True))
    if options.json:
        print_json([{"queue": name, "suspended": suspended} for name, suspended in now.items()])
        return OK
    for name, suspended in now.items():
        print(f"{name}: {outcome(on=options.on, suspended=suspended)}")
    if options.all:
        print(f"queues still to come: {outcome(on=options.on, suspended=options.on)}")
    return OK


def outcome(*, on: bool, suspended: bool) -> str:
    """What became of a suspend or resume."""
    if suspended and not on:
        return "stays suspended, the file says so"
    return "suspended" if suspended else "resumed"


def count_all(desk: source.Desk) -> dict[str, Counts]:
    """Each queue's counts, in one round trip."""
    names = desk.queues()
    return dict(zip(names, desk.run_all([desk.verbs.counts(name) for name in names]), strict=True))


def count_each(desk: source.Desk) -> tuple[dict[str, Counts], list[Spoilt]]:
    """The same of those that can be read, and what is wrong with the others."""
    from fusiond.broker.redis.redis_errors import Spoilt

    names = desk.queues()
    read = desk.run_each([desk.verbs.counts(name) for name in names])
    found = dict(zip(names, read, strict=True))
    spoilt = [each for each in found.values() if isinstance(each, Spoilt)]
    return {name: each for name, each in found.items() if not isinstance(each, Spoilt)}, spoilt


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
            counts.scheduled,
            counts.started,
            counts.finished,
            counts.failed,
            counts.canceled,
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
