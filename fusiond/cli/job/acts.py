"""
`fusiond requeue`, `discard`, `job cancel`, `job delete` and `job priority`: change what becomes of jobs.

1. named      jobs that the command names, each on its own: one that is not there does not hold up the others
2. filtered   all jobs that fit the filters: their number is said and asked for first, and --dry-run changes nothing
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.find import broker
from fusiond.cli.find.job import find_job
from fusiond.cli.job.filters import add_filters, in_words, is_filtered, job_filter, of_owners
from fusiond.cli.terminal.confirm import confirm
from fusiond.cli.terminal.progress import Progress
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count, tell
from fusiond.errors import FusionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusiond.broker.call import Call
    from fusiond.broker.verbs import Verbs
    from fusiond.inspecting.job_changes import JobChange
    from fusiond.job import JobRecord

_WAITING: Final = ("queued", "held", "scheduled", "deferred", "started")
_ENDED: Final = ("finished", "failed", "canceled")
#: names that --dry-run prints
_SHOWN = 20


def _prioritizing(priority: int) -> JobChange:
    from fusiond.inspecting.job_changes import JobChange
    from fusiond.inspecting.one_job import prioritized

    def calls(verbs: Verbs, queue: str, ids: list[str], who: str) -> list[Call[Any]]:
        return [verbs.prioritize(queue, ids, priority, who=who)]

    return JobChange("prioritize", "prioritized", (), (), calls, lambda code, _: prioritized(code, priority))


def register(subparsers: Any, commands: Any) -> None:
    """Add `requeue` and `discard`, and, below `job`, `cancel`, `delete` and `priority`."""
    for where, name, handler, statuses, default in (
        (commands, "cancel", _cancel, _WAITING, "all that have not ended"),
        (commands, "delete", _delete, _ENDED, "all that have ended"),
        (subparsers, "requeue", _requeue, ("failed", "canceled"), "failed"),
        (subparsers, "discard", _discard, ("failed", "canceled"), "failed"),
    ):
        parser = arguments.command(where, name, handler)
        parser.add_argument("jobs", nargs="*", metavar="JOB", help="queue/id, or the id alone")
        if name in ("requeue", "discard"):
            parser.add_argument("--all", action="store_true", help="all failed jobs")
        if name == "requeue":
            moving = "move all waiting jobs of this queue to that of --queue"
            parser.add_argument("--from-queue", metavar="Q", help=moving)
        add_filters(parser, statuses, default)
        parser.add_argument("--dry-run", action="store_true", help="say which jobs it would be, and change nothing")
        arguments.add_yes(parser)
        arguments.add_broker(parser)
    parser = arguments.command(commands, "priority", _prioritize)
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="queue/id, or the id alone")
    parser.add_argument("priority", metavar="PRIORITY", help="a name of the file's priorities, or 0 to 255")
    arguments.add_broker(parser)


def _cancel(options: arguments.Options) -> int:
    """
    [broker] Remove waiting jobs from their queue, kill running ones.

    Filters mean all jobs that fit them: it says their number and asks.
    """
    return _act(options, "cancel")


def _delete(options: arguments.Options) -> int:
    """
    [broker] Delete jobs that have ended, with their results and errors.

    `discard` does the same for failed and canceled jobs alone, so that no result is lost by mistake. Filters mean all
    jobs that fit them: it says their number and asks.
    """
    return _act(options, "delete")


def _prioritize(options: arguments.Options) -> int:
    """[broker] Change the priority of jobs that wait; a higher one goes first."""
    from fusiond.enqueue_options import priority_number

    said = options.priority
    with broker.session(options) as session:
        named = session.run(session.verbs.catalogue()).priorities
        number = priority_number(int(said) if said.isdecimal() else said, named)
        return _of_named(session, options, _prioritizing(number))


def _requeue(options: arguments.Options) -> int:
    """
    [broker] Put failed and canceled jobs back into their queue, or move waiting jobs to another.

    Filters mean all jobs that fit them: it says their number and asks.
    """
    if options.from_queue:
        from fusiond.cli.job.move import move

        if options.jobs or options.all or len(options.queue or ()) != 1:
            raise UsageError("give --from-queue with one --queue, and nothing else")
        options.queue = options.queue[0]
        with broker.session(options) as session:
            return move(session, options)
    return _act(options, "requeue")


def _discard(options: arguments.Options) -> int:
    """
    [broker] Delete failed and canceled jobs before their time is over.

    Filters mean all jobs that fit them: it says their number and asks.
    """
    return _act(options, "discard")


def _act(options: arguments.Options, verb: str) -> int:
    from fusiond.inspecting.job_changes import CHANGES

    act, is_all = CHANGES[verb], getattr(options, "all", False)
    if bool(options.jobs) == (is_all or is_filtered(options)):
        everything = ", or give --all" if hasattr(options, "all") else ""
        raise UsageError(f"name jobs, or give filters such as --task and --since{everything}")
    with broker.session(options) as session:
        return _of_named(session, options, act) if options.jobs else _of_filtered(session, options, act)


# -- jobs that are named


def _of_named(session: broker.Session, options: arguments.Options, act: JobChange) -> int:
    from fusiond.inspecting.job_changes import replies_of

    jobs, is_missing = [], False
    for name in options.jobs:
        try:
            jobs.append(find_job(session, name))
        except FusionError as error:
            tell(str(error))
            is_missing = True
    if getattr(options, "dry_run", False):
        return _tell_dry(session, options, act, [job.name for job in jobs])
    calls = ((act.calls(session.verbs, job.queue, [job.id], session.who)) for job in jobs)
    replies = [session.run(replies_of(each))[0] for each in calls]
    judged = [act.judge(reply, job.status) for job, reply in zip(jobs, replies, strict=True)]
    document = [_document(act, *each) for each in zip(jobs, replies, strict=True)]
    lines = (f"{job.name}: {became.text}" for job, became in zip(jobs, judged, strict=True))
    arguments.answer(options, document, lambda: "\n".join(lines))
    return OK if all(each.done for each in judged) and not is_missing else REFUSED


def _document(act: JobChange, job: JobRecord, reply: Any) -> dict[str, Any]:
    from fusiond.broker.maintenance.operator import LOCKED

    if act.verb == "cancel":
        return {"job": job.name, "outcome": reply}
    if act.verb == "requeue":
        return {"job": job.name, "requeued": reply == 1} | ({"conflict": True} if reply == LOCKED else {})
    return {"job": job.name, act.done: reply in (1, 2) if act.verb == "prioritize" else bool(reply)}


# -- all that fit


def _of_filtered(session: broker.Session, options: arguments.Options, act: JobChange) -> int:
    from fusiond.inspecting.job_changes import change_jobs, done_with, others

    statuses = act.meant(options.status or ())
    names = _matching(session, options, statuses)
    if options.dry_run:
        return _tell_dry(session, options, act, [f"{queue}/{id_}" for queue, id_ in names])
    noun = f"{' or '.join(statuses)} job" if options.status or len(statuses) == 1 else "job"
    if names:
        confirm(f"{act.verb} {count(len(names), noun)}{in_words(options)}", options)
    with Progress(f"jobs {act.done}") as progress:
        became = session.run(change_jobs(session.verbs, act, names, session.who, progress.to))
    document = {queue: done_with(found) for queue, found in became.items()}
    lines = [f"{queue}: {count(document[queue], 'job')} {act.done}{others(act, became[queue])}" for queue in became]
    arguments.answer(options, document, lambda: "\n".join(lines) or f"no {noun}{in_words(options)}")
    return OK if all(each.done for found in became.values() for each in found) else REFUSED


def _matching(session: broker.Session, options: arguments.Options, statuses: Sequence[str]) -> list[tuple[str, str]]:
    """(queue, id) of each job that fits. Raises BrokerError."""
    from fusiond.inspecting.search import matching

    catalogue = session.run(session.verbs.catalogue())
    wanted, queues = of_owners(job_filter(options), options, catalogue), session.queues(*options.queue or ())
    with Progress("jobs looked at") as progress:
        found = matching(
            session.verbs, queues, statuses, wanted,
            secret=catalogue.secret(), tags=catalogue.log_tags, looked_at=progress.to,
        )  # fmt: skip
        return session.run(found)


def _tell_dry(session: broker.Session, options: arguments.Options, act: JobChange, names: list[str]) -> int:
    from fusiond.cli.job.record import HEADINGS, row
    from fusiond.masking import masked_job

    shown = [name.partition("/") for name in names[:_SHOWN]]
    found = session.run_all([session.verbs.job(queue, id_) for queue, _, id_ in shown])
    secret, now = session.secret(), time.time() * 1000
    rows = [row(masked_job(job, secret), now) for job in found if job]
    more = f"\n… and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    listed = f"\n{table(HEADINGS, rows, right='attempts')}" if rows else ""
    arguments.answer(options, names, lambda: f"would {act.verb} {count(len(names), 'job')}{listed}{more}")
    return OK
