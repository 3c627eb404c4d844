"""`fusiond events`: what became of jobs, and what operators and daemons did."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fusiond.cli import arguments
from fusiond.cli.find import broker
from fusiond.cli.terminal.colours import paint_state
from fusiond.cli.terminal.text import json_text, one_line, span, tell
from fusiond.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fusiond.broker.event_reading import Wanted
    from fusiond.broker.event_records import Event

#: s; from one look to the next with --follow
_AGAIN = 0.5
#: s; to the next look at a Redis that is away
_AWAY = 2.0


def register(subparsers: Any) -> None:
    """Add `events`."""
    events = arguments.command(subparsers, "events", _events)
    events.add_argument("--follow", "-f", action="store_true", help="go on with those that come, until Ctrl-C")
    events.add_argument("--job", metavar="JOB", default="", help="of this job: queue/id, or the id alone")
    events.add_argument("--task", metavar="TASK", default="", help="of jobs of this task")
    events.add_argument("--queue", metavar="Q", action="append", help="may be repeated; default: all, and the daemons")
    only = "such as failed,reload.*; may be repeated"
    events.add_argument("--only", metavar="EVENTS", action="append", default=[], help=only)
    events.add_argument(
        "-n",
        "--last",
        "--limit",
        type=arguments.positive_number,
        default=50,
        metavar="N",
        help="so many at first; default: 50",
    )
    arguments.add_broker(events)


def _events(options: arguments.Options) -> None:
    """
    [broker] Show the newest events of jobs, queues and daemons, in the order of their times.

    Redis has them if `events` is in the file. With --json each line is one event.
    """
    from fusiond.broker.event_reading import Wanted

    queue, _, job = options.job.rpartition("/")
    wanted = Wanted(tuple(filter(None, ",".join(options.only).split(","))), job, options.task)
    with broker.session(options) as session:
        named = [*(options.queue or ()), *([queue] if queue else ())]
        read = _show_newest(session, _streams(session, named), wanted, options)
        try:
            while options.follow:
                try:
                    _show_next(session, _streams(session, named), read, wanted, options)
                except BrokerUnavailable as error:
                    tell(f"{error}; tried again")
                    time.sleep(_AWAY)
        except KeyboardInterrupt:
            return


def _streams(session: broker.Session, named: list[str]) -> list[str]:
    from fusiond.broker.event_records import DAEMONS

    return session.queues(*named) if named else [*session.queues(), DAEMONS]


def _show_newest(
    session: broker.Session, streams: Iterable[str], wanted: Wanted, options: arguments.Options
) -> dict[str, int]:
    """Show them; returns how far each stream is read."""
    from fusiond.broker.event_reading import newest

    found: list[Event] = []
    read: dict[str, int] = {}
    for stream in streams:
        events, read[stream] = session.run(newest(session.verbs, stream, wanted.accepts, options.last))
        found += events
    found.sort(key=lambda event: event.at_ms)
    if not any(read.values()) and not options.follow:
        tell("there are no events; Redis keeps them if `events: {}` is in the file")
    _show(found[-options.last :], session, options)
    return read


def _show_next(
    session: broker.Session, streams: list[str], read: dict[str, int], wanted: Wanted, options: arguments.Options
) -> None:
    """Show what has come, or wait for a moment."""
    from fusiond.broker.call import read_each
    from fusiond.broker.event_reading import Cursors

    cursors = Cursors(read)
    pages, unreadable = session.run(read_each(cursors.ask(session.verbs, streams)))
    for error in unreadable:
        tell(str(error))
    if found := list(filter(wanted.accepts, cursors.take(pages))):
        _show(found, session, options)
    read.update(cursors.read)
    if not any(page.entries for page in pages.values()):
        time.sleep(_AGAIN)


def _show(events: Iterable[Event], session: broker.Session, options: arguments.Options) -> None:
    from fusiond.masking import masked_event
    from fusiond.owners import with_owner

    catalogue = session.run(session.verbs.catalogue())
    secret = catalogue.secret()

    for event in events:
        said = masked_event(with_owner(event.document(), catalogue.owners), secret)
        print(json_text(said) if options.json else _line(event, said), flush=options.follow)


def _line(event: Event, said: dict[str, Any]) -> str:
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at_ms / 1000))
    subject = "/".join(filter(None, (said.get("queue"), said.get("job_id")))) or said.get("about") or "-"
    head = f"{moment}.{event.at_ms % 1000:03}  {paint_state(event.name)}{' ' * (9 - len(event.name))}  {subject:<30}"
    return " ".join([head, *(one_line(part, 200) for part in _details(said))]).rstrip()


def _details(said: dict[str, Any]) -> Iterator[str]:
    """Behind the name of the job, what matters of an event."""
    yield f" {said.get('task', '')}"
    if said.get("attempt", 1) > 1:
        yield f"attempt {said['attempt']}"
    for name, form in (("duration", "ran {}"), ("wait", "waited {}"), ("delay", "due in {}")):
        if name in said:
            yield form.format(span(said[name]))
    if place := " ".join(filter(None, (said.get("host"), said.get("group")))):
        yield f"on {place}"
    if who := said.get("asked_by"):
        yield f"by {who}"
    error = said.get("error", {})
    what = ": ".join(filter(None, (error.get("type") or error.get("code"), error.get("message"))))
    if text := said.get("message") or what:
        yield f"– {text}"
