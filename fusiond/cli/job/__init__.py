"""`fusiond job`, `requeue` and `discard`: look at jobs, and change what becomes of them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.find import broker
from fusiond.cli.find.job import find_job
from fusiond.cli.job import acts, logs
from fusiond.cli.job.filters import add_filters, job_filter, of_owners
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import span, tell

if TYPE_CHECKING:
    from fusiond.broker.hosts.host_records import Catalogue
    from fusiond.job import JobRecord


#: in the order of `job list`
_STATUSES: Final = ("started", "queued", "held", "scheduled", "deferred", "failed", "canceled", "finished")


def register(subparsers: Any) -> None:
    """Add `job list`, `show`, `logs`, `cancel` and `delete`, `requeue` and `discard`."""
    commands = arguments.commands_below(
        subparsers, "job", "[broker] List, show, cancel and delete jobs; see what they print."
    )
    listing = arguments.command(commands, "list", _list)
    add_filters(listing, _STATUSES)
    limit = "how many jobs, newest first; default: 20"
    listing.add_argument("--limit", "-n", type=arguments.positive_number, default=20, metavar="N", help=limit)
    depth = "look at so many jobs, newest first; default: 10,000"
    listing.add_argument("--depth", type=arguments.positive_number, default=10_000, metavar="N", help=depth)
    show = arguments.command(commands, "show", _show)
    show.add_argument("jobs", nargs="+", metavar="JOB", help="queue/id, or the id alone")
    for each in (listing, show):
        arguments.add_broker(each)
    logs.register(commands)
    acts.register(subparsers, commands)


def _list(options: arguments.Options) -> int:
    """[broker] List jobs, newest first, of all queues unless some are named."""
    from fusiond.cli.job import record
    from fusiond.cli.queue import complain

    wanted = job_filter(options)
    with broker.session(options) as session:
        queues, statuses = session.queues(*options.queue or ()), options.status or _STATUSES
        catalogue = session.run(session.verbs.catalogue())
        wanted = of_owners(wanted, options, catalogue)
        found = record.search(
            session, queues, statuses, wanted, most=options.limit, depth=options.depth, catalogue=catalogue
        )
    now = time.time() * 1000
    rows = (record.row(job, now) for job in found.jobs)
    document = [record.document(job) for job in found.jobs]
    arguments.answer(options, document, lambda: table(record.HEADINGS, rows, right="attempts"))
    if len(found.jobs) == options.limit:
        tell(f"note: these are the newest {options.limit:,}; --limit shows more")
    elif found.more:
        tell(f"note: looked at {found.looked_at:,} jobs of more; --depth {10 * options.depth} looks at more")
    return complain(found.unreadable)


def _show(options: arguments.Options) -> None:
    """[broker] Show everything about a job."""
    from fusiond.cli.job import record
    from fusiond.inspecting.one_job import with_hosts
    from fusiond.job import JobStatus
    from fusiond.masking import masked_job
    from fusiond.owners import owner_of

    with broker.session(options) as session:
        catalogue = session.run(session.verbs.catalogue())
        jobs = [_tagged(find_job(session, name), catalogue) for name in options.jobs]
        holders = session.run_all([session.verbs.lock_holder(job.queue, job.lock) for job in jobs if job.lock])
        jobs = session.run(with_hosts(session.verbs, jobs))
        deferred = [job for job in jobs if job.status is JobStatus.DEFERRED]
        parents = session.run_all([session.verbs.parents(job.queue, job.id) for job in deferred])
        reasons = {job.name: _why_waiting(session, job) for job in jobs}
        jobs = [masked_job(job, catalogue.secret()) for job in jobs]
    held = dict(zip([job.name for job in jobs if job.lock], holders, strict=True))
    waits = dict(zip([job.name for job in deferred], parents, strict=True))
    now = time.time() * 1000
    owners = {job.name: owner_of(catalogue.owners, job.queue, job.task, job.id) for job in jobs}
    pages = (
        record.page(job, now, held.get(job.name), waits.get(job.name), why=reasons[job.name], owner=owners[job.name])
        for job in jobs
    )
    documents = [
        record.document(job)
        | ({"lock_holder": held[job.name]} if job.lock else {})
        | ({"waits_for": waits[job.name][1]} if job.name in waits else {})
        | {name: value or None for name, value in owners[job.name]._asdict().items()}
        | ({"why_waiting": reasons[job.name]} if reasons[job.name] else {})
        for job in jobs
    ]
    arguments.answer(options, documents, lambda: "\n\n".join(pages))


def _why_waiting(session: broker.Session, job: JobRecord) -> str:
    """Why a job has not begun, as a sentence; "" if it has, or if its status says it."""
    from fusiond.cli.status.workers import asking
    from fusiond.inspecting.why_waiting import why_not_begun

    return session.run(why_not_begun(session.verbs, job, asking(session), span))


def _tagged(job: JobRecord, catalogue: Catalogue) -> JobRecord:
    """The job, with the log tag of its task if the producer gave none."""
    return replace(job, log_tag=job.log_tag or catalogue.log_tags.get(job.task, ""))
