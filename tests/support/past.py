"""Whether the history of a job and its counters say the same."""

from fusiond.job import JobStatus

#: entries that a history has at most
MOST = 20


def contradictions(record):
    """What the history says otherwise than the counters of a JobRecord; nothing if it is full, or the job is new."""
    if len(record.history) >= MOST:
        return
    requeues = [at for at, past in enumerate(record.history) if past.outcome == "requeued"]
    past = record.history[requeues[-1] + 1 :] if requeues else record.history
    runs = record.status in (JobStatus.STARTED, JobStatus.FINISHED)
    said = {
        "attempts": sum(each.counted for each in past) + runs,
        "crashes": sum(each.crash for each in past),
        "rescues": sum(each.outcome in ("rescued", "lease_lost") for each in past),
        "interrupted": sum(each.interrupted for each in past),
    }
    for name, number in said.items():
        if number != getattr(record, name):
            counted, outcomes = getattr(record, name), [each.outcome for each in past]
            yield f"the history of job {record.id} tells of {number} {name}, and it counts {counted}: {outcomes}"
