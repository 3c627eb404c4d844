"""`fusiond job`, `requeue` and `discard`: look at jobs, and change what becomes of them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.find import broker
from fusiond.cli.find.job import find_job
from fusiond.cli.job import logs
from fusiond.cli.terminal.confirm import confirm
from fusiond.cli.terminal.progress import Progress
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusiond.broker.call import Call
    from fusiond.inspecting.one_job import Judgement
    from fusiond.job import JobRecord

    #: what JSON has of a job's outcome, and what became of it
    Outcome = tuple[dict[str, Any], Judgement]


#: in the order of `job list`
_STATUSES: Final = ("started", "queued", "held", "scheduled", "deferred", "failed", "canceled", "finished")
_LATER: Final = "to be deleted, a minute after their end at the earliest"
_DONE: Final = {"delete": "deleted", "discard": "discarded"}


def register(subparsers: Any) -> None:
    """Add `job list`, `show`, `logs`, `cancel` and `delete`, `requeue` and `discard`."""
    commands = arguments.commands_below(
        subparsers, "job", "[broker] List, show, cancel and delete jobs; see what they print."
    )
    listing = arguments.command(commands, "list", _list)
    listing.add_argument("--queue", metavar="Q", action="append", help="may be repeated; default: all")
    listing.add_argument("--status", choices=_STATUSES, action="append", help="may be repeated; default: all")
    limit = "how many jobs, newest first; default: 20"
    listing.add_argument("--limit", type=arguments.positive_number, default=20, metavar="N", help=limit)
    listing.add_argument("--task", metavar="TASK", action="append", default=[], help="may be repeated; default: all")
    listing.add_argument("--tag", metavar="TAG", action="append", default=[], help="the log tag; may be repeated")
    since = "that ended, began or were enqueued since: 2h, or a time in ISO 8601"
    listing.add_argument("--since", type=arguments.since, metavar="TIME", help=since)
    listing.add_argument("--text", default="", metavar="TEXT", help="that have it in arguments, error or id")
    depth = "look at so many jobs, newest first; default: 10,000"
    listing.add_argument("--depth", type=arguments.positive_number, default=10_000, metavar="N", help=depth)
    show = arguments.command(commands, "show", _show)
    logs.register(commands)
    cancel = arguments.command(commands, "cancel", _cancel)
    delete = arguments.command(commands, "delete", _delete)
    requeue = arguments.command(subparsers, "requeue", _requeue)
    discard = arguments.command(subparsers, "discard", _discard)
    for each, number in ((show, "+"), (cancel, "+"), (delete, "*"), (requeue, "*"), (discard, "*")):
        each.add_argument("jobs", nargs=number, metavar="JOB", help="queue/id, or the id alone")
    for each in (requeue, discard):
        each.add_argument("--all", action="store_true", help="all failed jobs")
    requeue.add_argument(
        "--from-queue", metavar="Q", help="move all waiting jobs of this queue, for example if nothing serves it"
    )
    requeue.add_argument(
        "--queue", metavar="Q", help="with --all: only of this queue; with --from-queue: the queue to move them to"
    )
    discard.add_argument("--queue", metavar="Q", help="with --all: only of this queue")
    ended = ("finished", "failed", "canceled")
    delete.add_argument("--status", choices=ended, action="append", help="all jobs that ended so; may be repeated")
    delete.add_argument("--queue", metavar="Q", action="append", help="with --status: only of this queue")
    for each in (delete, discard):
        arguments.add_yes(each)
    for each in (listing, show, cancel, delete, requeue, discard):
        arguments.add_broker(each)


def _list(options: arguments.Options) -> int:
    """[broker] List jobs, newest first, of all queues unless some are named."""
    from fusiond.cli.job import record
    from fusiond.cli.queue import complain
    from fusiond.inspecting.search import JobFilter

    since = float("-inf") if options.since is None else options.since * 1000
    wanted = JobFilter(tuple(options.task), tuple(options.tag), options.text, since)
    with broker.session(options) as session:
        queues, statuses = session.queues(*options.queue or ()), options.status or _STATUSES
        found = record.search(session, queues, statuses, wanted, most=options.limit, depth=options.depth)
    now, headings = time.time() * 1000, ("JOB", "TASK", "STATUS", "ATTEMPTS", "WHEN", "CALL OR ERROR")
    rows = (record.row(job, now) for job in found.jobs)
    document = [record.document(job) for job in found.jobs]
    arguments.answer(options, document, lambda: table(headings, rows, right="attempts"))
    if found.more:
        tell(f"note: looked at {found.looked_at:,} jobs of more; --depth {10 * options.depth} looks at more")
    return complain(found.unreadable)


def _show(options: arguments.Options) -> None:
    """[broker] Show everything about a job."""
    from fusiond.cli.job import record
    from fusiond.inspecting.one_job import with_hosts
    from fusiond.job import JobStatus
    from fusiond.masking import masked_job

    with broker.session(options) as session:
        jobs = _tagged(session, [find_job(session, name) for name in options.jobs])
        holders = session.run_all([session.verbs.lock_holder(job.queue, job.lock) for job in jobs if job.lock])
        jobs = session.run(with_hosts(session.verbs, jobs))
        deferred = [job for job in jobs if job.status is JobStatus.DEFERRED]
        parents = session.run_all([session.verbs.parents(job.queue, job.id) for job in deferred])
        secret = session.secret()
        jobs = [masked_job(job, secret) for job in jobs]
    held = dict(zip([job.name for job in jobs if job.lock], holders, strict=True))
    waits = dict(zip([job.name for job in deferred], parents, strict=True))
    pages = (record.page(job, time.time() * 1000, held.get(job.name), waits.get(job.name)) for job in jobs)
    documents = [
        record.document(job)
        | ({"lock_holder": held[job.name]} if job.lock else {})
        | ({"waits_for": waits[job.name][1]} if job.name in waits else {})
        for job in jobs
    ]
    arguments.answer(options, documents, lambda: "\n\n".join(pages))


def _tagged(session: broker.Session, jobs: list[JobRecord]) -> list[JobRecord]:
    """The jobs, with the log tag of their task if the producer gave none."""
    if all(job.log_tag for job in jobs):
        return jobs
    tags = session.run(session.verbs.catalogue()).log_tags
    return [replace(job, log_tag=job.log_tag or tags.get(job.task, "")) for job in jobs]


def _cancel(options: arguments.Options) -> int:
    """[broker] Remove waiting jobs from their queue, kill running ones."""
    with broker.session(options) as session:
        return _each_named(
            session, options, lambda job: session.verbs.cancel(job.queue, job.id, who=session.who), _canceled
        )


def _canceled(_: JobRecord, word: str) -> Outcome:
    from fusiond.inspecting.one_job import canceled

    return {"outcome": word}, canceled(word)


def _requeue(options: arguments.Options) -> int:
    """[broker] Put failed and canceled jobs back into their queue, or move waiting jobs to another."""
    ways = [bool(options.jobs), options.all, bool(options.from_queue)]
    if ways.count(True) != 1 or (options.queue and options.jobs) or (options.from_queue and not options.queue):
        raise UsageError("name jobs, or give --all and perhaps --queue, or --from-queue and --queue")
    with broker.session(options) as session:
        if options.from_queue:
            from fusiond.cli.job.move import move

            return move(session, options)
        if options.all:
            return _requeue_all(session, options)
        return _each_named(
            session, options, lambda job: session.verbs.requeue(job.queue, [job.id], who=session.who), _requeued
        )


def _requeued(job: JobRecord, reply: list[int]) -> Outcome:
    from fusiond.broker.maintenance.operator import LOCKED
    from fusiond.inspecting.one_job import requeued

    [code] = reply
    return {"requeued": code == 1} | ({"conflict": True} if code == LOCKED else {}), requeued(code, job.status)


def _requeue_all(session: broker.Session, options: arguments.Options) -> int:
    from fusiond.inspecting.one_job import HAS_RIVAL

    counts: dict[str, int] = {}
    stay: dict[str, int] = {}
    with Progress("jobs requeued") as progress:
        for queue in session.queues(*[options.queue] if options.queue else []):
            counts[queue], stay[queue], more = 0, 0, True
            while more:
                moved, locked, left = session.run(session.verbs.requeue_all(queue, skip=stay[queue], who=session.who))
                counts[queue] += moved
                stay[queue] += locked
                progress.to(sum(counts.values()))
                # jobs that cannot be requeued stay; asking for them again would not end
                more = moved + locked > 0 and left > 0
    lines = [
        f"{queue}: {count(number, 'job')} requeued" + (f"; {stay[queue]:,} {HAS_RIVAL}" if stay[queue] else "")
        for queue, number in counts.items()
    ]
    arguments.answer(options, counts, lambda: "\n".join(lines))
    return REFUSED if any(stay.values()) else OK


def _discard(options: arguments.Options) -> int:
    """[broker] Delete failed and canceled jobs before their time is over."""
    if options.all == bool(options.jobs) or (options.queue and not options.all):
        raise UsageError("name jobs, or give --all and perhaps --queue")
    with broker.session(options) as session:
        if not options.all:
            return _each_named(
                session, options, lambda job: session.verbs.discard(job.queue, [job.id], who=session.who), _discarded
            )
        queues = session.queues(*[options.queue] if options.queue else [])
        return _discard_all(session, queues, ["failed"], options, "discard")


def _delete(options: arguments.Options) -> int:
    """
    [broker] Delete jobs that have ended, with their results and errors.

    `discard` does the same for failed and canceled jobs alone, so that no result is lost by mistake.
    """
    if bool(options.status) == bool(options.jobs) or (options.queue and not options.status):
        raise UsageError("name jobs, or give --status and perhaps --queue")
    with broker.session(options) as session:
        if options.jobs:
            return _each_named(
                session,
                options,
                lambda job: session.verbs.discard(job.queue, [job.id], finished=True, who=session.who),
                _deleted,
            )
        return _discard_all(session, session.queues(*options.queue or ()), options.status, options, "delete")


def _discard_all(
    session: broker.Session, queues: list[str], statuses: list[str], options: arguments.Options, verb: str
) -> int:
    """Ask, and then delete all jobs of these queues that ended so. `verb`: what the command calls this."""
    from fusiond.job import JobStatus

    counts = session.run_all([session.verbs.counts(queue) for queue in queues])
    kind = f"{' and '.join(statuses)} job"
    if number := sum(getattr(each, status) for each in counts for status in statuses):
        confirm(f"{verb} {count(number, kind)} of {', '.join(queues)}", options)
    document: dict[str, int] = {}
    lines = []
    with Progress(f"jobs {_DONE[verb]}") as progress:
        for queue in queues:
            plans = [session.verbs.discard_all(queue, JobStatus(status), who=session.who) for status in statuses]
            dropped, later, before = map(sum, zip(*map(session.run, plans), strict=True))
            document[queue] = dropped + later
            progress.to(sum(document.values()))
            lines.append(_discarded_line(queue, verb, dropped, later, before))
    arguments.answer(options, document, lambda: "\n".join(lines))
    return OK


def _discarded_line(queue: str, verb: str, dropped: int, later: int, before: int) -> str:
    line = f"{queue}: {count(dropped + later, 'job')} {_DONE[verb]}"
    line += f", {later:,} of them {_LATER}" if later else ""
    return line + (f"; {before:,} before, {_LATER}" if before else "")


def _deleted(job: JobRecord, reply: list[int]) -> Outcome:
    from fusiond.inspecting.one_job import deleted

    return {"deleted": bool(reply[0])}, deleted(reply[0], job.status)


def _discarded(job: JobRecord, reply: list[int]) -> Outcome:
    from fusiond.inspecting.one_job import discarded

    return {"discarded": bool(reply[0])}, discarded(reply[0], job.status)


def _each_named(
    session: broker.Session,
    options: arguments.Options,
    call: Callable[[JobRecord], Call[Any]],
    judge: Callable[[JobRecord, Any], Outcome],
) -> int:
    """Run a verb on each job that is named, print what `judge` makes of the replies; returns the exit status."""
    jobs = [find_job(session, name) for name in options.jobs]
    replies = session.run_all([call(job) for job in jobs])
    judged = [(job, *judge(job, reply)) for job, reply in zip(jobs, replies, strict=True)]
    document = [{"job": job.name, **said} for job, said, _ in judged]
    arguments.answer(options, document, lambda: "\n".join(f"{job.name}: {became.text}" for job, _, became in judged))
    return OK if all(became.done for *_, became in judged) else REFUSED
