"""`fusiond unique`: see and lift the locks of unique jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED
from fusiond.cli.find import broker
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.broker.records import Lock


def register(subparsers: Any) -> None:
    """Add `unique list` and `unique release`."""
    commands = arguments.commands_below(subparsers, "unique", "[broker] List and lift the locks of unique jobs.")
    listing = arguments.command(commands, "list", _list)
    listing.add_argument("--queue", metavar="Q", action="append", help="may be repeated; default: all")
    release = arguments.command(commands, "release", _release)
    release.add_argument("jobs", nargs="+", metavar="JOB", help="queue/id, or the id alone")
    for each in (listing, release):
        arguments.add_broker(each)


def _list(options: arguments.Options) -> None:
    """[broker] List the locks of unique jobs, and the job that holds each."""
    from fusiond.masking import masked_lock

    with broker.session(options) as session:
        locks, secret = sorted(_locks(session, session.queues(*options.queue or ()))), session.secret()
    found = [(queue, lock._replace(name=masked_lock(lock.name, secret))) for queue, lock in locks]
    document = [{"queue": queue, **lock._asdict()} for queue, lock in found]
    rows = ((queue, lock.name, f"{queue}/{lock.id}", _end(lock)) for queue, lock in found)
    arguments.answer(options, document, lambda: table(("QUEUE", "LOCK", "JOB", "EXPIRES"), rows))


def _release(options: arguments.Options) -> int:
    """
    [broker] Free the locks that jobs hold, so that new jobs can be enqueued beside them.

    The jobs themselves go on. A job that is not kept any more may still hold a lock that is for a time.
    """
    document, lines = [], []
    with broker.session(options) as session:
        for name in options.jobs:
            queue, _, id_ = name.rpartition("/")
            held: dict[str, list[str]] = {}
            for each, lock in _locks(session, session.queues(*[queue] if queue else [])):
                if lock.id == id_:
                    held.setdefault(each, []).append(lock.name)
            unlock = [session.verbs.unlock(each, id_, locks, who=session.who) for each, locks in held.items()]
            freed = sum(map(session.run, unlock))
            document.append({"job": name, "freed": freed})
            lines.append(f"{name}: {count(freed, 'lock') + ' freed' if freed else 'holds no lock'}")
    arguments.answer(options, document, lambda: "\n".join(lines))
    return OK if all(each["freed"] for each in document) else REFUSED


def _locks(session: broker.Session, queues: list[str]) -> Iterator[tuple[str, Lock]]:
    """The locks of these queues, none twice."""
    for queue in queues:
        seen: set[str] = set()
        cursor = None
        while cursor != 0:
            cursor, locks = session.run(session.verbs.locks(queue, cursor or 0))
            yield from ((queue, lock) for lock in locks if lock.name not in seen)
            seen |= {lock.name for lock in locks}


def _end(lock: Lock) -> str:
    return "" if lock.expires_ms is None else f"in {span(lock.expires_ms / 1000)}"
