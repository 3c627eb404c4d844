"""How a job is shown, to people and to programs."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from fusiond.broker.hosts.host_records import Catalogue
from fusiond.cli.find.broker import Session
from fusiond.cli.terminal.table import fields, table
from fusiond.cli.terminal.text import clock, one_line, span, when
from fusiond.inspecting import search as finding
from fusiond.inspecting.job_display import arguments, error_of, moment, parsed, signature
from fusiond.inspecting.one_job import held, waits_for
from fusiond.inspecting.search import FoundJobs, JobFilter
from fusiond.job import JobProgress, JobRecord, JobStatus, RanWith
from fusiond.owners import Owner


def document(record: JobRecord) -> dict[str, Any]:
    """The whole record as JSON; times are epoch ms. `args` is text if it cannot be read as JSON."""
    known = dataclasses.asdict(record)
    args, kwargs = arguments(record.args)
    known |= {"name": record.name, "status": record.status.value, "args": args, "kwargs": kwargs}
    return known | {name: parsed(known[name]) for name in ("result", "error", "meta")}


_NOBODY: Final = Owner()
#: of `row`
HEADINGS: Final = ("JOB", "TASK", "STATUS", "ATTEMPTS", "WHEN", "CALL OR ERROR")
#: fields that are shown under their own names: numbers unless they are 0, and moments
_NUMBERS: Final = ("crashes", "rescues", "interrupted")
_MOMENTS: Final = ("created_at", "due_at", "expires_at", "started_at", "ended_at")


def page(
    record: JobRecord,
    now_ms: float,
    holder: str | None = None,
    parents: tuple[int, list[str]] | None = None,
    *,
    why: str = "",
    owner: Owner = _NOBODY,
) -> str:
    """
    Everything about a job, one line for each field that is set.

    `holder`: the id that its lock has; `parents`: how many jobs it waits for, and of which; `why`: why it has not
    begun; `owner`: who answers for it.
    """
    shown = fields(
        [
            ("job", record.name),
            ("task", record.task),
            ("status", record.status.value),
            ("flow run", record.run and f"{record.run}, step {record.step}"),
            ("held", held(record)),
            ("waits", why),
            ("waits for", waits_for(*parents) if parents else ""),
            ("tenant", record.tenant and record.tenant + ("none" if record.tenant.endswith("=") else "")),
            ("call", signature(record)),
            ("description", record.description),
            ("priority", record.priority),
            ("retry", record.retry),
            ("result_ttl", "" if record.result_ttl is None else span(record.result_ttl)),
            ("failure_ttl", "" if record.failure_ttl is None else span(record.failure_ttl)),
            ("key", record.key),
            ("unique", _lock(record, holder)),
            ("log tag", record.log_tag),
            ("owner", owner.owner),
            ("runbook", owner.runbook_url),
            ("meta", record.meta and record.meta.decode(errors="replace")),
            ("attempts", record.attempts),
            *((name, getattr(record, name) or None) for name in _NUMBERS),
            ("last outcome", record.last_outcome),
            *((name.removesuffix("_at"), _moment(getattr(record, name), now_ms)) for name in _MOMENTS),
            *_ran_with(record.ran_with),
            ("progress", _progress(record.progress, now_ms)),
            ("result", record.result and record.result.decode(errors="replace")),
            ("error" if record.status is JobStatus.FAILED else "last error", _error(record.error)),
        ]
    )
    ends = fields([(f"output of attempt {record.printed_attempt}", record.printed), ("broken", record.broken)])
    return "\n\n".join(filter(None, (shown, _history(record), ends)))


def _moment(at_ms: int | None, now_ms: float) -> str:
    return f"{when(at_ms, now_ms)}, {clock(at_ms)}" if at_ms else ""


def _ran_with(known: RanWith) -> list[tuple[str, object]]:
    memory = _memory(known.peak_memory)
    return [
        ("CPU time", "" if known.cpu_seconds is None else span(known.cpu_seconds)),
        ("peak memory", memory and f"{memory}, including shared pages"),
        ("generation", known.generation),
        ("release", known.release),
    ]


def _memory(number_of_bytes: int | None) -> str:
    return "" if number_of_bytes is None else f"{number_of_bytes >> 20:,} MiB"


def row(record: JobRecord, now_ms: float) -> tuple[object, ...]:
    """The cells of HEADINGS."""
    # The error of an earlier attempt is not shown if the job has finished since, or runs again.
    failed = record.status in (JobStatus.FAILED, JobStatus.SCHEDULED, JobStatus.CANCELED) and record.error
    detail = _error(record.error).partition("\n")[0] if failed else signature(record)
    if record.broken:
        detail = f"broken: {record.broken}"
    return record.name, record.task, record.status.value, record.attempts, when(moment(record), now_ms), detail


def _lock(record: JobRecord, holder: str | None) -> str:
    """`campaign:"u7", until it has ended; it holds the lock`; "" if the job is not unique."""
    if not record.lock:
        return ""
    who = "nobody holds" if holder is None else "it holds" if holder == record.id else f"job {holder} holds"
    until = f"until it has {record.lock_rule}"
    if record.lock_rule.isdigit():
        until = f"for {span(int(record.lock_rule) / 1000)} from the enqueue"
    return f"{record.lock}, {until}; {who} the lock"


def _history(record: JobRecord) -> str:
    """A table of the attempts that did not finish; "" if there are none."""
    if not record.history:
        return ""
    rows = [
        (
            past.attempt or "",
            clock(past.began_at),
            span((past.ended_at - past.began_at) / 1000) if past.began_at and past.ended_at else "",
            "" if past.ran_with.cpu_seconds is None else span(past.ran_with.cpu_seconds),
            _memory(past.ran_with.peak_memory),
            past.ran_with.generation or "",
            past.host,
            past.outcome,
            past.error,
        )
        for past in record.history
    ]
    headings = ("ATTEMPT", "BEGAN", "RAN", "CPU", "MEMORY", "GENERATION", "HOST", "OUTCOME", "ERROR")
    return table(headings, rows, right="attempt", states="")


def _progress(progress: JobProgress | None, now_ms: float) -> str:
    """`40% rows 2 of 5, 3 s ago`; "" if it has said nothing."""
    return f"{share(progress.share, progress.message)}, {when(progress.at, now_ms)}" if progress else ""


def share(done: float, message: str) -> str:
    """`40% rows 2 of 5`."""
    return f"{done:.0%} {one_line(message)}".rstrip()


def _error(raw: bytes | None) -> str:
    """One line with code, type and message, then the traceback; "" if there is no error."""
    return "\n".join(error_of(raw)).rstrip()


def search(
    session: Session, queues: Sequence[str], statuses: Sequence[str], wanted: JobFilter, *,
    most: int, depth: int, catalogue: Catalogue | None = None,
) -> FoundJobs:  # fmt: skip
    """The newest jobs that fit, masked."""
    catalogue = catalogue or session.run(session.verbs.catalogue())
    plan = finding.search(
        session.verbs, queues, statuses, wanted,
        most=most, depth=depth, secret=catalogue.secret(), tags=catalogue.log_tags,
    )  # fmt: skip
    return session.run(plan)
