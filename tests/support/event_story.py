"""What the events of a queue say of its jobs: whether they are in order, and the state in which each job should be."""

WAITING, STARTED, ENDED = "waiting", "started", "ended"
#: event → the state before it, and behind it; None: the job is not known
STEPS = {
    "enqueued": (None, WAITING),
    "claimed": (WAITING, STARTED),
    **dict.fromkeys(("held", "queued", "scheduled"), (WAITING, WAITING)),
    "moved": (None, WAITING),
    "requeued": (ENDED, WAITING),
    "finished": (STARTED, ENDED),
    **dict.fromkeys(("retry", "snoozed", "released", "rescued"), (STARTED, WAITING)),
}
#: status of a job → state
STATES = dict.fromkeys(("queued", "scheduled", "deferred", "held"), WAITING) | {
    "started": STARTED,
    **dict.fromkeys(("finished", "failed", "canceled"), ENDED),
}
#: an end that comes while it waits, too
EARLY = {"failed", "canceled"}


def judge(events):
    """What is wrong in the events of a queue, in their order; and the event that each job had last."""
    states, last, wrong = {}, {}, []
    for event in events:
        if event.name in STEPS or event.name in EARLY:
            state = states.get(event.job)
            before, after = STEPS.get(event.name, (STARTED, ENDED))
            if state != before and not (event.name in EARLY and state == WAITING):
                wrong.append(f"{event.id}: {event.name} of {event.job}, which was {state}")
            states[event.job], last[event.job] = after, event.name
    return wrong, last


def disagreements(events, statuses):
    """The same, and the jobs whose status in Redis, by id, is not what their last event says."""
    wrong, last = judge(events)
    for job, status in statuses.items():
        name = last.get(job)
        behind = STEPS.get(name, (None, ENDED))[1] if name else None
        if STATES[status] != behind or (behind == ENDED and status != name):
            wrong.append(f"{job} is {status}, and its last event is {name}")
    return wrong
