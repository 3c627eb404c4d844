"""`fusiond audit`: who did what."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fusiond.cli import arguments
from fusiond.cli.find import broker
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count, tell, when

if TYPE_CHECKING:
    from fusiond.inspecting.audit import Act


def register(subparsers: Any) -> None:
    """Add `audit`."""
    audit = arguments.command(subparsers, "audit", _audit)
    since = "since then: 2h, or a time in ISO 8601; default: 7d"
    audit.add_argument("--since", type=arguments.since, metavar="TIME", help=since)
    audit.add_argument("--queue", metavar="Q", action="append", help="may be repeated; default: all, and the daemons")
    audit.add_argument("--by", metavar="TEXT", default="", help="whose name has it, such as ada or web1")
    audit.add_argument("--limit", "-n", type=arguments.positive_number, default=50, metavar="N", help="default: 50")
    arguments.add_broker(audit)


def _audit(options: arguments.Options) -> None:
    """
    [broker] Show who suspended, requeued, canceled, deleted or reloaded what, the newest first.

    A command that changes many jobs is one line. Redis knows it if `events` is in the file.
    """
    from fusiond.broker.event_records import DAEMONS
    from fusiond.inspecting.audit import acts

    since = time.time() - 7 * 86_400 if options.since is None else options.since
    with broker.session(options) as session:
        streams, by = (*session.queues(*options.queue or ()), DAEMONS), options.by.lower()
        plan = acts(
            session.verbs,
            streams,
            since * 1000,
            session.secret(),
            owners=session.run(session.verbs.catalogue()).owners,
            most=options.limit,
            fits=lambda act: by in act.who.lower(),
        )
        shown = session.run(plan)
        is_kept = bool(shown) or session.run(session.verbs.keeps_events())
    now = time.time() * 1000
    rows = ((when(act.at, now), act.who, act.what, act.queue, act.owner, _about(act)) for act in shown)
    document = [asdict(act) for act in shown]
    arguments.answer(options, document, lambda: table(("WHEN", "WHO", "WHAT", "QUEUE", "OWNER", "ABOUT"), rows))
    if not is_kept:
        tell("Redis keeps no events: write `events: {}` into the file")


def _about(act: Act) -> str:
    if act.number > 1:
        return count(act.number, "job")
    return " ".join(filter(None, (act.job, act.task if act.task != "-" else "", act.about, act.message)))
