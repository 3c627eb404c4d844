"""`fusiond job`, `requeue` and `discard`: look at jobs, and change what becomes of them."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.find import broker
from fusiond.cli.terminal.progress import Progress
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count, legible
from fusiond.errors import FusionError, JobNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fusiond.broker.call import Call
    from fusiond.broker.moving import Leaving
    from fusiond.job import JobRecord

    #: what JSON has of a job's outcome, the same for people, whether it is what was asked for
    Judgement = tuple[dict[str, Any], str, bool]

#: in the order of `job list`
_STATUSES: Final = ("started", "queued", "scheduled", "deferred", "failed", "canceled", "finished")
_CANCELED: Final = {
    "canceled": "canceled",
    "asked": "is running and will be killed",
    "ended": "has already ended",
    "missing": "is no longer there",
}
_REQUEUED: Final = {1: "requeued", 2: "is queued already"}
_LATER: Final = "deleted when a minute has passed since they ended"
_DISCARDED: Final = {1: "discarded", 2: "discarded; deleted when a minute has passed since it ended"}


def register(subparsers: Any) -> None:
    """Add `job list`, `job show`, `job cancel`, `requeue` and `discard`."""
    commands = arguments.commands_below(subparsers, "job", "[broker] List, show and cancel jobs.")
    listing = arguments.command(commands, "list", _list)
    listing.add_argument("--queue", metavar="Q", action="append", help="may be repeated; default: all")
    listing.add_argument("--status", choices=_STATUSES, action="append", help="may be repeated; default: all")
    limit = "how many jobs, newest first; default: 20"
    listing.add_argument("--limit", type=arguments.positive_number, default=20, metavar="N", help=limit)
    show = arguments.command(commands, "show", _show)
    cancel = arguments.command(commands, "cancel", _cancel)
    requeue = arguments.command(subparsers, "requeue", _requeue)
    discard = arguments.command(subparsers, "discard", _discard)
    for each, number in ((show, "+"), (cancel, "+"), (requeue, "*"), (discard, "*")):
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
    for each in (listing, show, cancel, requeue, discard):
        arguments.add_broker(each)
        arguments.add_json(each)


def _list(options: arguments.Options) -> int:
    """[broker] List jobs, by queue and status."""
    from fusiond.cli.job import record
    from fusiond.cli.queue import complain
    from fusiond.job import JobStatus

    with broker.session(options) as session:
        calls = {
            (queue, status): session.verbs.jobs(queue, JobStatus(status), count=options.limit)
            for queue in session.queues(*options.queue or ())
            for status in options.status or _STATUSES
        }
        pages, unreadable = session.run_each(calls)
    found = [job for page in pages.values() for job in page]
    if len(calls) > 1:
        found.sort(key=record.last_moment, reverse=True)
    del found[options.limit :]
    now, headings = time.time() * 1000, ("JOB", "TASK", "STATUS", "ATTEMPTS", "WHEN", "CALL OR ERROR")
    rows = (record.row(job, now) for job in found)
    arguments.answer(options, [record.document(job) for job in found], lambda: table(headings, rows, right="attempts"))
    return complain(unreadable)


def _show(options: arguments.Options) -> int:
    """[broker] Show everything about a job."""
    from fusiond.cli.job import record

    with broker.session(options) as session:
        jobs = _tagged(session, [_find(session, name) for name in options.jobs])
    pages = (record.page(job, time.time() * 1000) for job in jobs)
    arguments.answer(options, [record.document(job) for job in jobs], lambda: "\n\n".join(pages))
    return OK


def _tagged(session: broker.Session, jobs: list[JobRecord]) -> list[JobRecord]:
    """The jobs, with the log tag of their task if the producer gave none."""
    if all(job.log_tag for job in jobs):
        return jobs
    tasks = session.run(session.verbs.catalogue()).tasks
    tags = {name: said.get("log_tag") for name, said in tasks.items()}
    return [replace(job, log_tag=job.log_tag or str(tags.get(job.task) or "")) for job in jobs]


def _cancel(options: arguments.Options) -> int:
    """[broker] Remove waiting jobs from their queue, kill running ones."""
    with broker.session(options) as session:
        return _each_named(session, options, lambda job: session.verbs.cancel(job.queue, job.id), _canceled)


def _canceled(_: JobRecord, word: str) -> Judgement:
    return {"outcome": word}, _CANCELED[word], word in ("canceled", "asked")


def _requeue(options: arguments.Options) -> int:
    """[broker] Put failed and canceled jobs back into their queue, or move waiting jobs to another."""
    ways = [bool(options.jobs), options.all, bool(options.from_queue)]
    if ways.count(True) != 1 or (options.queue and options.jobs) or (options.from_queue and not options.queue):
        raise UsageError("name jobs, or give --all and perhaps --queue, or --from-queue and --queue")
    with broker.session(options) as session:
        if options.from_queue:
            return _move(session, options)
        if options.all:
            return _requeue_all(session, options)
        return _each_named(session, options, lambda job: session.verbs.requeue(job.queue, [job.id]), _requeued)


def _requeued(job: JobRecord, reply: list[int]) -> Judgement:
    [code] = reply
    return {"requeued": code == 1}, _REQUEUED.get(code) or _refusal(job), bool(code)


def _requeue_all(session: broker.Session, options: arguments.Options) -> int:
    counts: dict[str, int] = {}
    with Progress("jobs requeued") as progress:
        for queue in session.queues(*[options.queue] if options.queue else []):
            counts[queue], more = 0, True
            while more:
                moved, left = session.run(session.verbs.requeue_all(queue))
                counts[queue] += moved
                progress.to(sum(counts.values()))
                more = moved > 0 and left > 0  # jobs that cannot be requeued stay; asking for them again would not end
    lines = [f"{queue}: {count(number, 'job')} requeued" for queue, number in counts.items()]
    arguments.answer(options, counts, lambda: "\n".join(lines))
    return OK


def _discard(options: arguments.Options) -> int:
    """[broker] Delete failed and canceled jobs before their time is over."""
    if options.all == bool(options.jobs) or (options.queue and not options.all):
        raise UsageError("name jobs, or give --all and perhaps --queue")
    with broker.session(options) as session:
        if not options.all:
            return _each_named(session, options, lambda job: session.verbs.discard(job.queue, [job.id]), _discarded)
        queues = session.queues(*[options.queue] if options.queue else [])
        counts = {queue: session.run(session.verbs.discard_all(queue)) for queue in queues}
    lines = [
        f"{queue}: {count(dropped + later, 'job')} discarded" + (f", {later:,} of them {_LATER}" if later else "")
        for queue, (dropped, later) in counts.items()
    ]
    document = {queue: dropped + later for queue, (dropped, later) in counts.items()}
    arguments.answer(options, document, lambda: "\n".join(lines))
    return OK


def _discarded(job: JobRecord, reply: list[int]) -> Judgement:
    [code] = reply
    return {"discarded": bool(code)}, _DISCARDED.get(code) or _refusal(job), bool(code)


def _refusal(job: JobRecord) -> str:
    return f"{job.status}, neither failed nor canceled"


def _each_named(
    session: broker.Session,
    options: arguments.Options,
    call: Callable[[JobRecord], Call[Any]],
    judge: Callable[[JobRecord, Any], Judgement],
) -> int:
    """Run a verb on each job that is named, print what `judge` makes of the replies; returns the exit status."""
    jobs = [_find(session, name) for name in options.jobs]
    replies = session.run_all([call(job) for job in jobs])
    judged = [(job, *judge(job, reply)) for job, reply in zip(jobs, replies, strict=True)]
    document = [{"job": job.name, **said} for job, said, _, _ in judged]
    arguments.answer(options, document, lambda: "\n".join(f"{job.name}: {text}" for job, _, text, _ in judged))
    return OK if all(done for *_, done in judged) else REFUSED


def _move(session: broker.Session, options: arguments.Options) -> int:
    """Move all waiting jobs to another queue; if this is interrupted, the same command or a sweep completes it."""
    origin, target = session.queues(options.from_queue, options.queue)
    if origin == target:
        raise UsageError(f"--from-queue and --queue are both {origin!r}")
    moved, done = 0, None
    stay: list[Leaving] = []
    with Progress("jobs moved") as progress:
        while done is None or done.jobs or done.taken:
            kinds = [job.kind for job in stay]
            skip = kinds.count(b"queued"), kinds.count(b"scheduled")
            done = session.run(session.verbs.move(origin, target, skip=skip))
            stay += done.taken
            moved += done.jobs
            progress.to(moved)
    names = [f"{origin}/{job.id.decode(errors='replace')}" for job in stay]
    served = target in session.run(session.verbs.catalogue()).serving
    found = {"moved": moved, "running": done.running, "taken": names, "served": served}
    text = f"{count(moved, 'job')} moved from {origin} to {target}"
    arguments.answer(options, {"from": origin, "to": target, **found}, lambda: text)
    for sentence in _left(target, names, running=done.running, served=served):
        print(f"fusiond: {legible(sentence)}", file=sys.stderr)
    return REFUSED if stay else OK


def _left(target: str, stay: list[str], *, running: int, served: bool) -> Iterator[str]:
    """What the operator must know of jobs that were not moved, or that nothing runs after the move."""
    if running:
        yield (
            f"{count(running, 'job')} of that queue still {'runs' if running == 1 else 'run'};"
            " one whose dispatcher is dead can be moved once its lease has expired"
        )
    if stay:
        names = ", ".join(stay[:5]) + (", …" if len(stay) > 5 else "")
        yield f"{count(len(stay), 'job')} not moved, as queue '{target}' has another job of the same id: {names}"
    if not served:
        yield f"warning: no living worker group serves queue '{target}' either"


def _find(session: broker.Session, name: str) -> JobRecord:
    """The job of that name, or, if the name is only an id, the job of any queue with that id."""
    queue, _, id_ = name.rpartition("/")
    queues = session.queues(*[queue] if queue else [])
    found = [job for job in session.run_all([session.verbs.job(each, id_) for each in queues]) if job]
    if not found:
        raise JobNotFound(f"no job {name!r}: it never existed or was deleted after its ttl; see fusiond job list")
    if len(found) > 1:
        raise FusionError(f"{name!r} is in more than one queue; write {' or '.join(job.name for job in found)}")
    return found[0]
