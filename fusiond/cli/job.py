"""`fusiond job` and `fusiond requeue`: look at jobs, and steer them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import numbers, source
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.progress import Progress
from fusiond.cli.table import count, print_json, table
from fusiond.errors import FusionError, JobNotFound

if TYPE_CHECKING:
    import argparse

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
    """Add `job list`, `job show`, `job cancel` and `requeue`."""
    parser = subparsers.add_parser("job", help="[broker] look at jobs and steer them: list, show, cancel")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    listing = commands.add_parser("list", help="[broker] jobs by queue and status")
    listing.add_argument("--queue", metavar="Q", action="append", help="may be given more than once; default: all")
    listing.add_argument("--status", choices=_STATUSES, action="append", help="the same")
    listing.add_argument(
        "--limit", type=numbers.many, default=20, metavar="N", help="of each queue and status; default: 20"
    )
    listing.set_defaults(handler=_list)
    show = commands.add_parser("show", help="[broker] everything about a job")
    show.set_defaults(handler=_show)
    cancel = commands.add_parser("cancel", help="[broker] take jobs out of their queue; kill them where they run")
    cancel.set_defaults(handler=_cancel)
    for each in (show, cancel):
        each.add_argument("jobs", nargs="+", metavar="JOB", help="queue/id, or the id alone")

    requeue = subparsers.add_parser("requeue", help="[broker] failed and canceled jobs back to their queue")
    requeue.add_argument("jobs", nargs="*", metavar="JOB", help="queue/id, or the id alone")
    requeue.add_argument("--all", action="store_true", help="all failed jobs")
    requeue.add_argument("--queue", metavar="Q", help="with --all: of this queue only")
    requeue.set_defaults(handler=_requeue)
    for each in (listing, show, cancel, requeue):
        source.add_broker_options(each)
        source.add_json_option(each)


def _list(options: argparse.Namespace) -> int:
    from fusiond.broker.complaints import Spoilt
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
    if options.json:
        print_json([record.document(job) for job in found])
    else:
        now = time.time() * 1000
        headings = ("JOB", "TASK", "STATUS", "ATTEMPTS", "WHEN", "CALL")
        print(table(headings, (record.row(job, now) for job in found), right="attempts"))
    return complain(page for page in read if isinstance(page, Spoilt))


def _show(options: argparse.Namespace) -> int:
    from fusiond.cli import record

    with source.broker(options) as desk:
        jobs = [_find(desk, name) for name in options.jobs]
    if options.json:
        print_json([record.document(job) for job in jobs])
    else:
        now = time.time() * 1000
        print("\n\n".join(record.page(job, now) for job in jobs))
    return OK


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
    if options.all == bool(options.jobs) or (options.queue and not options.all):
        raise UsageError("name jobs, or give --all and perhaps --queue")
    with source.broker(options) as desk:
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
