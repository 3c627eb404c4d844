"""Who answers for what: the owners and runbooks that a file names, of tasks, queues, cron entries and flows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias


class Owner(NamedTuple):
    """Who answers for something, and the page that says what to do if it fails; empty: nobody says it."""

    owner: str = ""
    runbook_url: str = ""


#: `task send`, `queue mail`, `cron nightly`, `flow etl` → what the file says of it
Owners: TypeAlias = Mapping[str, Owner]


def owner_of(owners: Owners, queue: str, task: str = "", job: str = "") -> Owner:
    """Of a job, or of the jobs of a task or a queue: both are the cron entry's, else the task's, else the queue's."""
    # of a tick `cron:<entry>:<tick>`; if that was backfilled, `cron:backfill:<entry>:<tick>`
    tick_of = job.removeprefix("cron:").rpartition(":")[0] if job.startswith("cron:") else ""
    entry = tick_of.removeprefix("backfill:")
    found = [owners[name] for name in (f"cron {entry}", f"task {task}", f"queue {queue}") if name in owners]
    return Owner(*(next(filter(None, each), "") for each in zip(*found, strict=True)))


def with_owner(event: Mapping[str, Any], owners: Owners) -> dict[str, Any]:
    """The document of an event, with the owner of its job or its queue, or of the cron entry that it is about."""
    of_entry = owners.get(f"cron {event.get('about')}") if str(event.get("event")).startswith("cron.") else None
    found = of_entry or owner_of(owners, *(str(event.get(name, "")) for name in ("queue", "task", "job_id")))
    return {**event, **{name: value for name, value in found._asdict().items() if value}}
