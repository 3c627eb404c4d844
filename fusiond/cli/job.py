"""`fusiond job`, `fusiond requeue` and `fusiond discard`: look at jobs, and steer them."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import numbers, source
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.progress import Progress
from fusiond.cli.table import count, legible, print_json, table
from fusiond.errors import FusionError, JobNotFound

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from fusiond.broker.moving import Leaving
    from fusiond.cli.source import Desk
    from fusiond.job import JobRecord

#: what is of most interest first
_STATUSES: Final = ("started", "queued", "scheduled", "deferred", "failed", "canceled", "finished")
_CANCELED: Final = {
    "canceled": "canceled",
    "asked": "runs; its end is asked for",
    "ended": "has ended already",
    "missing": "is gone",
}
_REQUEUED: Final = {0: "", 1: "requeued", 2: "is queued already"}


def register(subparsers: Any) -> None:
    """Add `job list`, `job show`, `job cancel`, `requeue` and `discard`."""
    parser = subparsers.add_parser("job", help="[broker] list, show and cancel jobs")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    listing = commands.add_parser("list", help="[broker] list jobs, by queue and status")
    listing.add_argument("--queue", metavar="Q", action="append", help="may be given more than once; default: all")
    listing.add_argument(
        "--status", choices=_STATUSES, action="append", help="may be given more than once; default: all"
    )
    listing.add_argument(
        "--limit", type=numbers.many, default=20, metavar="N", help="how many jobs, newest first; default: 20"
    )
    listing.set_defaults(handler=_list)
    show = commands.add_parser("show", help="[broker] show everything about a job")
    show.set_defaults(handler=_show)
    cancel = commands.add_parser("cancel", help="[broker] remove waiting jobs from their queue, kill running ones")
    cancel.set_defaults(handler=_cancel)
    for each in (show, cancel):
        each.add_argument("jobs", nargs="+", metavar="JOB", help="queue/id, or the id alone")

    requeue = subparsers.add_parser(
        "requeue", help="[broker] put failed and canceled jobs back into their queue, or move waiting jobs to another"
    )
    requeue.add_argument("jobs", nargs="*", metavar="JOB", help="queue/id, or the id alone")
    requeue.add_argument("--all", action="store_true", help="all failed jobs")
    requeue.add_argument(
        "--from-queue",
        metavar="Q",
        help="move all waiting jobs of this queue, such as one that nothing serves any more",
    )
    requeue.add_argument(
        "--queue", metavar="Q", help="with --all: only of this queue; with --from-queue: the queue to move them to"
    )
    requeue.set_defaults(handler=_requeue)

    discard = subparsers.add_parser(
        "discard", help="[broker] delete failed and canceled jobs before their time is over"
    )
    discard.add_argument("jobs", nargs="*", metavar="JOB", help="queue/id, or the id alone")
    discard.add_argument("--all", action="store_true", help="all failed jobs")
    discard.add_argument("--queue", metavar="Q", help="with --all: only of this queue")
    discard.set_defaults(handler=_discard)
    for each in (listing, show, cancel, requeue, discard):
        source.add_broker_options(each)
        source.add_json_option(each)


def _list(options: argparse.Namespace) -> int:
    from fusiond.broker.redis.redis_errors import Spoilt
    from fusiond.cli import record
    from fusiond.cli.queue import complain
    from fusiond.job import JobStatus

    with source.broker(options) as desk:
        pages = [
            desk.verbs.jobs(queue, JobStatus(status), count=options.limit)
            for queue in desk.queues(*options.queue or ())
            for status in options.status or _STATUSES
        ]
        read = desk.run_each(pages)
    found = [job for page in read if not isinstance(page, Spoilt) for job in page]
    if len(pages) > 1:
        found.sort(key=record.last_moment, reverse=True)
    del found[options.limit :]
    if options.json:
        print_json([record.document(job) for job in found])
    else:
        now = time.time() * 1000
        headings = ("JOB", "TASK", "STATUS", "ATTEMPTS", "WHEN", "CALL OR ERROR")
        print(table(headings, (record.row(job, now) for job in found), right="attempts"))
    return complain(page for page in read if isinstance(page, Spoilt))


def _show(options: argparse.Namespace) -> int:
    from fusiond.cli import record

    with source.broker(options) as desk:
        jobs = _tagged(desk, [_find(desk, name) for name in options.jobs])
    if options.json:
        print_json([record.document(job) for job in jobs])
    else:
        now = time.time() * 1000
        print("\n\n".join(record.page(job, now) for job in jobs))
    return OK


def _tagged(desk: Desk, jobs: list[JobRecord]) -> list[JobRecord]:
    """The jobs with the log tag of their task where the producer gave none."""
    if all(job.log_tag for job in jobs):
        return jobs
    tasks = desk.run(desk.verbs.catalogue()).tasks
    tags = {name: said.get("log_tag") for name, said in tasks.items()}
    return [replace(job, log_tag=job.log_tag or str(tags.get(job.task) or "")) for job in jobs]


def _cancel(options: argparse.Namespace) -> int:
    with source.broker(options) as desk:
        jobs = [_find(desk, name) for name in options.jobs]
        words = desk.run_all([desk.verbs.cancel(job.queue, job.id) for job in jobs])
    if options.json:
        print_json([{"job": job.name, "outcome": word} for job, word in zip(jobs, words, strict=True)])
    else:
        for job, word in zip(jobs, words, strict=True):
            print(f"{job.name}: {_CANCELED[word]}")
    return OK if {*words} <= {"canceled", "asked"} else REFUSED


def _requeue(options: argparse.Namespace) -> int:
    ways = [bool(options.jobs), options.all, bool(options.from_queue)]
    if ways.count(True) != 1 or (options.queue and options.jobs) or (options.from_queue and not options.queue):
        raise UsageError("name jobs, or give --all and perhaps --queue, or --from-queue and --queue")
    with source.broker(options) as desk:
        if options.from_queue:
            return _move(desk, options)
        return (_requeue_all if options.all else _requeue_some)(desk, options)


def _requeue_some(desk: Desk, options: argparse.Namespace) -> int:
    jobs = [_find(desk, name) for name in options.jobs]
    moved = [reply for (reply,) in desk.run_all([desk.verbs.requeue(job.queue, [job.id]) for job in jobs])]
    if options.json:
        print_json([{"job": job.name, "requeued": code == 1} for job, code in zip(jobs, moved, strict=True)])
    else:
        for job, code in zip(jobs, moved, strict=True):
            print(f"{job.name}: {_REQUEUED[code] or f'{job.status}, neither failed nor canceled'}")
    return OK if all(moved) else REFUSED


def _requeue_all(desk: Desk, options: argparse.Namespace) -> int:
    counts: dict[str, int] = {}
    with Progress("jobs requeued") as progress:
        for queue in desk.queues(*[options.queue] if options.queue else []):
            counts[queue], more = 0, True
            while more:
                moved, left = desk.run(desk.verbs.requeue_all(queue))
                counts[queue] += moved
                progress.to(sum(counts.values()))
                more = moved > 0 and left > 0  # what cannot be moved stays, and must not be asked for for ever
    if options.json:
        print_json(counts)
    else:
        for queue, number in counts.items():
            print(f"{queue}: {count(number, 'job')} requeued")
    return OK


def _discard(options: argparse.Namespace) -> int:
    if options.all == bool(options.jobs) or (options.queue and not options.all):
        raise UsageError("name jobs, or give --all and perhaps --queue")
    with source.broker(options) as desk:
        return (_discard_all if options.all else _discard_some)(desk, options)


def _discard_some(desk: Desk, options: argparse.Namespace) -> int:
    jobs = [_find(desk, name) for name in options.jobs]
    dropped = [bool(reply) for (reply,) in desk.run_all([desk.verbs.discard(job.queue, [job.id]) for job in jobs])]
    if options.json:
        print_json([{"job": job.name, "discarded": done} for job, done in zip(jobs, dropped, strict=True)])
    else:
        for job, done in zip(jobs, dropped, strict=True):
            print(f"{job.name}: {'discarded' if done else f'{job.status}, neither failed nor canceled'}")
    return OK if all(dropped) else REFUSED


def _discard_all(desk: Desk, options: argparse.Namespace) -> int:
    queues = desk.queues(*[options.queue] if options.queue else [])
    counts = {queue: desk.run(desk.verbs.discard_all(queue)) for queue in queues}
    if options.json:
        print_json(counts)
    else:
        for queue, number in counts.items():
            print(f"{queue}: {count(number, 'job')} discarded")
    return OK


def _move(desk: Desk, options: argparse.Namespace) -> int:
    """All that waits in one queue to another; what is broken off is gone on with by the same command, or by a sweep."""
    origin, target = desk.queues(options.from_queue, options.queue)
    if origin == target:
        raise UsageError(f"--from-queue and --queue are both {origin!r}")
    moved, done = 0, None
    stay: list[Leaving] = []
    with Progress("jobs moved") as progress:
        while done is None or done.jobs or done.taken:
            kinds = [job.kind for job in stay]
            skip = kinds.count(b"queued"), kinds.count(b"scheduled")
            done = desk.run(desk.verbs.move(origin, target, skip=skip))
            stay += done.taken
            moved += done.jobs
            progress.to(moved)
    names = [f"{origin}/{job.id.decode(errors='replace')}" for job in stay]
    served = target in desk.run(desk.verbs.catalogue()).serving
    if options.json:
        found = {"moved": moved, "running": done.running, "taken": names, "served": served}
        print_json({"from": origin, "to": target, **found})
    else:
        print(f"{count(moved, 'job')} moved from {origin} to {target}")
    for sentence in _hitches(target, names, running=done.running, served=served):
        print(f"fusiond: {legible(sentence)}", file=sys.stderr)
    return REFUSED if stay else OK


def _hitches(target: str, stay: list[str], *, running: int, served: bool) -> Iterator[str]:
    """What an operator must know of jobs that were not moved, or not to where they run."""
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


def _find(desk: Desk, name: str) -> JobRecord:
    """The job of that name; of an id alone, in whichever queue holds it."""
    queue, _, id_ = name.rpartition("/")
    queues = desk.queues(*[queue] if queue else [])
    found = [job for job in desk.run_all([desk.verbs.job(each, id_) for each in queues]) if job]
    if not found:
        raise JobNotFound(f"no job {name!r}: it never was, or was dropped after its ttl; fusiond job list shows them")
    if len(found) > 1:
        raise FusionError(f"{name!r} is in more than one queue; write {' or '.join(job.name for job in found)}")
    return found[0]
