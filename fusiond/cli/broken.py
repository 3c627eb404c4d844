"""`fusiond broken`: bodies that could not be read, and were put aside."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.find import broker
from fusiond.cli.terminal.confirm import confirm
from fusiond.cli.terminal.table import fields, table
from fusiond.cli.terminal.text import count, one_line, when
from fusiond.errors import FusionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fusiond.broker.queries import BrokenBody
    from fusiond.masking import Secret

    #: does something to a body of a queue; returns whether it was done
    Act = Callable[[broker.Session, str, BrokenBody], bool]

#: characters of a body in the table, where it is not cut anyway
_SHOWN: Final = 200


def register(subparsers: Any) -> None:
    """Add `broken list`, `show`, `requeue` and `drop`."""
    commands = arguments.commands_below(subparsers, "broken", "[broker] Look at bodies that could not be read.")
    listing = arguments.command(commands, "list", _list)
    listing.add_argument("--queue", metavar="Q", action="append", help="may be repeated; default: all")
    limit = "how many bodies, newest first; default: 20"
    listing.add_argument("--limit", type=arguments.positive_number, default=20, metavar="N", help=limit)
    show = arguments.command(commands, "show", _show)
    requeue = arguments.command(commands, "requeue", _requeue)
    drop = arguments.command(commands, "drop", _drop)
    for each, number in ((show, "+"), (requeue, "*"), (drop, "*")):
        each.add_argument("bodies", nargs=number, metavar="BODY", help="queue/name as `list` shows it, or the name")
    for each in (requeue, drop):
        each.add_argument("--all", action="store_true", help="all bodies")
        each.add_argument(
            "--queue", metavar="Q", action="append", help="with --all: only of this queue; may be repeated"
        )
    arguments.add_yes(drop)
    for each in (listing, show, requeue, drop):
        arguments.add_broker(each)


def _list(options: arguments.Options) -> None:
    """[broker] List bodies that could not be read, newest first."""
    from fusiond.inspecting.queues import newest_bodies

    with broker.session(options) as session:
        found: list[tuple[str, BrokenBody]] = []
        for queue in session.queues(*options.queue or ()):
            bodies = session.run(newest_bodies(session.verbs, queue, most=options.limit))
            found += [(queue, body) for body in bodies]
        secret = session.secret()
    found.sort(key=lambda each: -each[1].at)
    del found[options.limit :]
    now = time.time() * 1000
    rows = (
        (
            f"{queue}/{body.digest}",
            when(body.at, now),
            len(body.raw),
            body.reason,
            one_line(_text(body, secret), _SHOWN),
        )
        for queue, body in found
    )
    document = [_document(queue, body, secret) for queue, body in found]
    arguments.answer(options, document, lambda: table(("BODY", "WHEN", "BYTES", "REASON", "TEXT"), rows, right="bytes"))


def _show(options: arguments.Options) -> None:
    """[broker] Show bodies that could not be read, and why."""
    with broker.session(options) as session:
        found, secret = _named(session, options.bodies), session.secret()
    now = time.time() * 1000
    pages = (
        fields(
            [
                ("body", f"{queue}/{body.digest}"),
                ("put aside", when(body.at, now)),
                ("reason", body.reason),
                ("bytes", len(body.raw)),
                ("text", _text(body, secret)),
            ]
        )
        for queue, body in found
    )
    arguments.answer(options, [_document(queue, body, secret) for queue, body in found], lambda: "\n\n".join(pages))


def _requeue(options: arguments.Options) -> int:
    """
    [broker] Put bodies back into the inbox of their queue, for example once the file has their task.

    What is left of a stored job that was damaged stays: it is not a body that anybody pushed.
    """

    def requeue(session: broker.Session, queue: str, body: BrokenBody) -> bool:
        return body.was_pushed and session.run(session.verbs.requeue_broken(queue, [body.entry], who=session.who)) == 1

    words = {True: "requeued", False: "stays: it is no longer there, or no body that was pushed"}
    return _each(options, requeue, "requeued", words)


def _drop(options: arguments.Options) -> int:
    """[broker] Delete bodies that could not be read."""

    def drop(session: broker.Session, queue: str, body: BrokenBody) -> bool:
        return session.run(session.verbs.drop_broken(queue, body.entry, who=session.who)) == 1

    if options.all:
        confirm(f"delete the broken bodies of {', '.join(options.queue or ['all queues'])}", options)
    return _each(options, drop, "dropped", {True: "dropped", False: "is no longer there"})


def _each(options: arguments.Options, act: Act, key: str, words: dict[bool, str]) -> int:
    """Act on the bodies that are named, or on all, page after page; returns the exit status."""
    if options.all == bool(options.bodies) or (options.queue and not options.all):
        raise UsageError("name bodies, or give --all and perhaps --queue")
    with broker.session(options) as session:
        if options.all:
            acted = [each for queue in session.queues(*options.queue or ()) for each in _all_of(session, queue, act)]
        else:
            named = _named(session, options.bodies)
            acted = [(f"{queue}/{body.digest}", act(session, queue, body)) for queue, body in named]
    lines = [f"{name}: {words[done]}" for name, done in acted if not (done and options.all)]
    if options.all:
        lines.append(f"{count(sum(done for _, done in acted), 'body', 'bodies')} {key}")
    document = [{"body": name, key: done} for name, done in acted]
    arguments.answer(options, document, lambda: "\n".join(lines))
    return OK if all(done for _, done in acted) else REFUSED


def _all_of(session: broker.Session, queue: str, act: Act) -> Iterator[tuple[str, bool]]:
    """Act on all bodies of a queue; each with whether that was done. What is put aside meanwhile may stay."""
    from fusiond.inspecting.queues import BODIES

    stay = 0
    while page := session.run(session.verbs.broken(queue, stay, count=BODIES)):
        for body in page:
            done = act(session, queue, body)
            stay += not done
            yield f"{queue}/{body.digest}", done


def _named(session: broker.Session, names: list[str]) -> list[tuple[str, BrokenBody]]:
    """Raises FusionError for a name that no body has."""
    from fusiond.inspecting.queues import newest_bodies

    found: dict[str, list[tuple[str, BrokenBody]]] = {name: [] for name in names}
    queues = {name.rpartition("/")[0] for name in names}
    digests = {name.rpartition("/")[2] for name in names}
    for queue in session.queues(*sorted(queues) if "" not in queues else ()):
        for body in session.run(newest_bodies(session.verbs, queue, lambda body: body.digest in digests)):
            for name in {body.digest, f"{queue}/{body.digest}"} & found.keys():
                found[name].append((queue, body))
    if missing := [name for name, bodies in found.items() if not bodies]:
        raise FusionError(f"no broken body {missing[0]!r}; see fusiond broken list")
    return [body for bodies in found.values() for body in bodies]


def _document(queue: str, body: BrokenBody, secret: Secret) -> dict[str, Any]:
    name = f"{queue}/{body.digest}"
    return {"body": name, "queue": queue, "at": body.at, "reason": body.reason, "text": _text(body, secret)}


def _text(body: BrokenBody, secret: Secret) -> str:
    from fusiond.masking import masked_body

    return masked_body(body.raw, secret).decode(errors="backslashreplace")
