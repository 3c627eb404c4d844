"""
The invariants, judged from the ledger alone.

I1  every acknowledged enqueue reaches exactly one terminal state
I2  finished means at least one completed run, under the winning token
I3  every extra run maps to a fault
I4  fsck is clean
I5  the settling token is the last claim in the order of Redis
I6  no fault, no extra run          (I3 without faults)
I7  afterwards no stray process and no stray key
I8  no job is begun under a claim that is not the last one
"""

import itertools

from tests.chaos.package import LEASE, MARGIN, RENEW
from tests.chaos.plant import REDIS, WRAPPER

TERMINAL = {"finished", "failed", "canceled"}
#: s; a chain that is dying may still begin a job
DYING = 1.0
#: s; between two clocks' readings
SKEW = 0.05


def judge(ledger, *, lease=LEASE, margin=MARGIN, renew=RENEW):
    """All violations, a sentence each."""
    found = [f"I4 {sentence}" for sentence in ledger.broken]
    found += [f"I7 process {pid} was left" for pid in ledger.strays]
    found += [f"I7 key {key.decode()} was left" for key in ledger.keys]
    for ack in ledger.acks:
        record, runs, steps = ledger.records[ack.id], ledger.runs.get(ack.id, []), ledger.steps.get(ack.id, [])
        found += _ended(ack, record, runs, steps)
        found += _explained(ack, runs, ledger.faults, lease, lease - margin - renew)
        found += _fenced(ack, steps)
        found += _late(ack, runs, steps, ledger.faults)
    return found


def _ended(ack, record, runs, steps):
    """I1, I2."""
    if record is None:
        yield f"I1 job {ack.id} is lost"
        return
    if record.status != "finished":
        yield f"I1 job {ack.id} is {record.status}: {(record.error or b'').decode()}"
    ends = [step for step in steps if step.verb in TERMINAL]
    if steps and len(ends) != 1:
        yield f"I1 job {ack.id} has ended {len(ends)} times: {[step.verb for step in ends]}"
    completed = [run for run in runs if run.ended]
    if record.status == "finished" and not completed:
        yield f"I2 job {ack.id} is finished, and no run of it was completed"
    if ends and ends[-1].verb == "finished":
        claim = next((step for step in steps if step.verb == "claim" and step.token == ends[-1].token), None)
        if claim is None or not any(_under(run, claim) for run in completed):
            yield f"I2 job {ack.id} is finished, and no run under the winning token was completed"


def _under(run, claim):
    same = (run.attempt, run.dispatcher) == (claim.attempt, claim.dispatcher)
    return same and run.began >= claim.at - SKEW


def _explained(ack, runs, faults, lease, patience):
    """I3, I6."""
    for run, after in itertools.pairwise(runs):
        if explanation(run, after, faults, lease, patience) is None:
            yield f"I3 job {ack.id} ran again without a fault: {run} {after}"


def explanation(run, after, faults, lease, patience):
    """The fault because of which a job ran again, or None."""
    for fault in faults:
        if fault.stopped == 0 and fault.pid in run.chain and run.began - DYING <= fault.at <= after.began + SKEW:
            return fault
    # Stopped for so long, a dispatcher, or every one with Redis, has lost its leases. A stopped child costs nobody one.
    frozen = [
        fault
        for fault in faults
        if fault.stopped and (fault.kind == REDIS or fault.pid == run.dispatcher)
        and fault.at <= after.began and fault.until >= run.began - lease
    ]  # fmt: skip
    if sum(fault.stopped for fault in frozen) >= patience:
        return max(frozen, key=lambda fault: fault.stopped)
    # Redis may be away twice in a row, and so for longer than a lease lasts.
    away = sorted(f.at for f in faults if f.kind in (REDIS, WRAPPER) and run.began - lease <= f.at <= after.began)
    twice = [two for one, two in itertools.pairwise(away) if two - one < lease]
    return next((f for f in faults if f.at in twice), None)


def _fenced(ack, steps):
    """I5: a settle is by the last claim; between two claims the first one's attempt was ended, by whatever verb."""
    token = None
    for step in steps:
        if step.verb == "claim":
            if token is not None:
                yield f"I5 job {ack.id} was claimed twice at once"
            token = step.token
        elif step.verb == "rescue":
            token = None
        elif step.token != (token or ""):
            yield f"I5 job {ack.id} was settled as {step.verb} by a token that is not its last claim's"
        else:
            token = None


def _late(ack, runs, steps, faults):
    """I8: whoever lost its lease, stopped or not, does not begin the job."""
    claims = [step for step in steps if step.verb == "claim"]
    for run in runs:
        mine = [claim for claim in claims if _under(run, claim)]
        later = [claim for claim in claims if mine and mine[-1].at < claim.at < run.began - SKEW and claim not in mine]
        # A child that was stopped between its look at the lease and its first line cannot know.
        frozen = any(f.stopped and f.pid == run.child and f.at < run.began for f in faults)
        if later and not frozen:
            yield f"I8 job {ack.id} was begun {run.began - later[0].at:.3f} s after another had claimed it"
