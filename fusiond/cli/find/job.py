"""Which job a command means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiond.errors import FusionError, JobNotFound

if TYPE_CHECKING:
    from fusiond.cli.find import broker
    from fusiond.job import JobRecord


def find_job(session: broker.Session, name: str) -> JobRecord:
    """The job of that name, or, if the name is only an id, the job of any queue with that id."""
    queue, _, id_ = name.rpartition("/")
    queues = session.queues(*[queue] if queue else [])
    found = [job for job in session.run_all([session.verbs.job(each, id_) for each in queues]) if job]
    if not found and name in session.run(session.verbs.catalogue()).tasks:
        raise JobNotFound(f"{name!r} is a task; fusiond ps --task {name} shows its jobs that run, job list the others")
    if not found:
        raise JobNotFound(f"no job {name!r}: it never existed or was deleted after its ttl; see fusiond job list")
    if len(found) > 1:
        raise FusionError(f"{name!r} is in more than one queue; write {' or '.join(job.name for job in found)}")
    return found[0]
