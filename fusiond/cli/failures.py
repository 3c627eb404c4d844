"""`fusiond failures`: failed jobs by task and error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.find import broker
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import tell, when

if TYPE_CHECKING:
    from fusiond.inspecting.failure_groups import FailureRow
    from fusiond.masking import Secret

_HEADINGS: Final = ("JOBS", "TASK", "OWNER", "LAST", "FIRST", "QUEUES", "ERROR")
#: releases that the table names
_MOST_RELEASES: Final = 3


def register(subparsers: Any) -> None:
    """Add `failures`."""
    failures = arguments.command(subparsers, "failures", _failures)
    failures.add_argument("--queue", metavar="Q", action="append", help="may be repeated; default: all")
    failures.add_argument("--task", metavar="TASK", action="append", default=[], help="may be repeated; default: all")
    failures.add_argument("--owner", metavar="NAME", action="append", default=[], help="of whose tasks")
    depth = "failed jobs to look at, in all; default: 10000"
    failures.add_argument("--depth", type=arguments.positive_number, default=10_000, metavar="N", help=depth)
    arguments.add_broker(failures)


def _failures(options: arguments.Options) -> None:
    """
    [broker] Show failed jobs by task and error, the newest error first, and with which releases they ran.

    `fusiond requeue --task TASK --error TEXT` runs those of one row again.
    """
    import dataclasses

    from fusiond.inspecting.failure_groups import look_at_failures
    from fusiond.inspecting.queues import count_each

    with broker.session(options) as session:
        names, catalogue = session.queues(*options.queue or ()), session.run(session.verbs.catalogue())
        counted, _ = session.run(count_each(session.verbs))
        meant = {name: counts for name, counts in counted.items() if name in names}
        seen = session.run(look_at_failures(session.verbs, meant, options.depth))
        rows = [row for row in seen.rows(catalogue.owners) if row.task in (options.task or [row.task])]
        rows = [row for row in rows if row.owner in (options.owner or [row.owner])]
        rows = [_masked(row, session, catalogue.secret()) for row in rows]
    document, now = [dataclasses.asdict(row) for row in rows], time.time() * 1000
    arguments.answer(options, document, lambda: table(_HEADINGS, [_cells(row, now) for row in rows], right="jobs"))
    if seen.looked_at < seen.among:
        tell(f"note: looked at {seen.looked_at:,} failed jobs of {seen.among:,}; --depth looks at more")


def _masked(row: FailureRow, session: broker.Session, secret: Secret) -> FailureRow:
    """Without the secret arguments of its last job; without a message if that job has just gone."""
    from dataclasses import replace

    from fusiond.inspecting.job_display import parsed
    from fusiond.masking import masked_job

    if row.task not in secret:
        return row
    queue, _, id_ = row.job.partition("/")
    job = session.run(session.verbs.job(queue, id_))
    error = parsed(masked_job(job, secret).error) if job and job.error else None
    return replace(row, message=str(error.get("message", "")) if isinstance(error, dict) else "")


def _cells(row: FailureRow, now: float) -> tuple[object, ...]:
    known = [str(each) for each in row.releases if each.generation]
    releases = f" ({'; '.join(known[:_MOST_RELEASES])})" if known else ""
    queues = ", ".join(row.queues)
    return row.count, row.task, row.owner, when(row.last, now), when(row.first, now), queues, row.error + releases
