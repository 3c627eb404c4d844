"""
The invariants, judged from the ledger alone.

I1  every acknowledged enqueue reaches exactly one terminal state; so does the job of each tick, and no tick is left out
I2  finished means at least one completed run, under the winning token
I3  every extra run maps to a fault, as does every lease that runs out; a claim has one run at most
I4  fsck is clean
I5  the settling token is the last claim's in the order of Redis; no token is given twice; attempts are counted, and
    the history that a job keeps tells of each
I6  no fault, no extra run
I7  afterwards no stray process and no stray key
I8  no job is begun, and none goes on, under a claim that is not the last one, or under a chain that is dead
I9  what was canceled while it waited does not run
I25 Redis has counted each outcome that it has settled, and each lease that ran out, once
"""

import itertools
from collections import Counter, defaultdict

from tests.chaos.blame import DYING, SKEW, Blame
from tests.chaos.package import LEASE, MARGIN, RENEW
from tests.chaos.plant import EVERY
from tests.support.past import contradictions

TERMINAL = {"finished", "failed", "canceled"}
INVARIANTS = (*(f"I{number}" for number in range(1, 10)), "I25")
#: s; in which a run ends whose lease was lost or whose chain is dead
GONE = 2.0


def judge(ledger, *, lease=LEASE, margin=MARGIN, renew=RENEW):
    """All violations, a sentence each."""
    blame = Blame(ledger, lease=lease, margin=margin, renew=renew)
    found = [f"I4 {sentence}" for sentence in ledger.broken]
    found += [f"I7 process {pid} was left" for pid in ledger.strays]
    found += [f"I7 key {key.decode()} was left" for key in ledger.keys]
    found += _ticked(ledger.ticks)
    if ledger.steps and ledger.counted:
        found += _counted(ledger.steps, ledger.counted)
    found += _given_twice(ledger.steps)
    began = defaultdict(list)
    for run in itertools.chain(*ledger.runs.values()):
        began[run.child].append(run.began)
    for job in ledger.jobs:
        record, runs = ledger.records[job.id], ledger.runs.get(job.id, [])
        steps = [step for step in ledger.steps.get(job.id, ()) if step.verb != "tick"]
        cancel = ledger.cancels.get(job.id)
        found += _ended(job, record, runs, steps, cancel)
        found += _canceled(job, runs, cancel) if cancel else ()
        found += _explained(job, runs, steps, blame)
        if not ledger.faults:
            found += _once(job, runs, steps)
        found += _fenced(job, steps)
        found += [f"I5 {sentence}" for sentence in contradictions(record)] if record else ()
        found += _late(job, runs, steps, began, blame)
    return found


def by_invariant(violations):
    """How many, of each invariant."""
    counts = Counter(violation.split()[0] for violation in violations)
    return {name: counts[name] for name in INVARIANTS}


def _ticked(ticks):
    """I1 for cron: one second after another, each once."""
    for entry, steps in ticks.items():
        for one, two in itertools.pairwise(step.attempt for step in steps):
            if two - one != EVERY * 1000:
                yield f"I1 cron entry {entry} ticked at {one} and then at {two}"


def _counted(steps, counted):
    """I25. A step without a token is not an outcome of an attempt: the job waited, or its lease had run out."""
    every = [step for each in steps.values() for step in each]
    done, settled = Counter(step.verb for step in every), Counter(step.verb for step in every if step.token)
    # A lease that ran out ends its job, by a failure or where a cancel is due, or has it rescued.
    rescued = done["rescue"] - (done["failed"] - settled["failed"])
    rescued -= sum(step.verb == "rescue" and step.cancels for step in every)
    expected = {
        "finished": (done["finished"], counted.finished),
        "failed": (done["failed"], counted.failed),
        "retry": (done["retry"], counted.retry),
        "released": (done["released"], counted.released + counted.snoozed),
        "canceled": (done["canceled"], counted.canceled),
        "rescued": (rescued, counted.rescued),
    }
    for what, (right, found) in expected.items():
        if found != right:
            yield f"I25 {right} {what}, and Redis has counted {found}"


def _ended(job, record, runs, steps, cancel):
    """I1, I2."""
    if record is None:
        yield f"I1 job {job.id} is lost"
        return
    ends = []
    for life in _lives(steps):
        ends = [step for step in life if step.verb in TERMINAL]
        if len(ends) != 1:
            yield f"I1 job {job.id} has ended {len(ends)} times: {[step.verb for step in ends]}"
    allowed = (
        {"finished"} if cancel is None else {"canceled"} if cancel.answer == "canceled" else {"finished", "canceled"}
    )
    if record.status not in allowed:
        yield f"I1 job {job.id} is {record.status}: {(record.error or b'').decode()}"
    completed = [run for run in runs if run.ended and not run.failed]
    if record.status == "finished" and not completed:
        yield f"I2 job {job.id} is finished, and no run of it was completed"
    if ends and ends[-1].verb == "finished":
        claim = next((step for step in steps if step.verb == "claim" and step.token == ends[-1].token), None)
        if claim is None or not any(_under(run, claim) for run in completed):
            yield f"I2 job {job.id} is finished, and no run under the winning token was completed"


def _canceled(job, runs, cancel):
    """I1, I9."""
    if cancel.answer == "missing":
        yield f"I1 job {job.id} was missing when it was canceled"
    late = [run for run in runs if run.began > cancel.at + SKEW]
    if cancel.answer == "canceled" and late:
        yield f"I9 job {job.id} was begun {late[0].began - cancel.at:.3f} s after it was canceled"


def _lives(steps):
    """Steps between two requeues; none where they were not logged."""
    lives = [[]] if steps else []
    for step in steps:
        if step.verb == "requeue":
            lives.append([])
        else:
            lives[-1].append(step)
    return lives


def _under(run, claim):
    same = (run.attempt, run.dispatcher) == (claim.attempt, claim.dispatcher)
    return same and run.began >= claim.at - SKEW


def _explained(job, runs, steps, blame):
    """I3."""
    requeues = [step.at for step in steps if step.verb == "requeue"]
    for run, after in itertools.pairwise(runs):
        asked_for = run.failed and any(run.began < at <= after.began + SKEW for at in requeues)
        fault = blame.rerun(run, after)
        if not asked_for and fault is None:
            yield f"I3 job {job.id} ran again without a fault: {run} {after}"
    claim = None
    for step in steps:
        if step.verb == "claim":
            claim = step
        elif step.verb == "rescue" and claim and blame.lost(claim.dispatcher, claim.at, step.at) is None:
            yield f"I3 the lease of job {job.id} ran out without a fault: {claim}, {step.at - claim.at:.1f} s later"
    if steps:
        claims = Counter((step.attempt, step.dispatcher) for step in steps if step.verb == "claim")
        for under, count in Counter((run.attempt, run.dispatcher) for run in runs).items():
            if count > claims[under]:
                yield f"I3 job {job.id} ran {count} times under {claims[under]} claims, attempt and dispatcher {under}"


def _once(job, runs, steps):
    """I6: without faults a job runs once, once more where it was requeued, maybe not where it was canceled."""
    most = 1 + sum(step.verb == "requeue" for step in steps)
    least = 0 if any(step.verb == "canceled" for step in steps) else most
    if not least <= len(runs) <= most:
        yield f"I6 job {job.id} ran {len(runs)} times"


def _given_twice(steps):
    """I5: a token belongs to the claims of one dispatcher, and never again to the same job."""
    owners = {}
    for id_, each in steps.items():
        tokens = [step.token for step in each if step.verb == "claim"]
        if len(set(tokens)) < len(tokens):
            yield f"I5 a token was given to job {id_} twice"
        for step in each:
            if step.verb == "claim" and owners.setdefault(step.token, step.dispatcher) != step.dispatcher:
                yield f"I5 token {step.token} was given to dispatchers {owners[step.token]} and {step.dispatcher}"


def _fenced(job, steps):
    """I5: a settle is by the last claim; between two claims the first one's attempt was ended, by whatever verb."""
    token, attempts = None, 0
    for step in steps:
        if step.verb == "claim":
            if token is not None:
                yield f"I5 job {job.id} was claimed twice at once"
            token, attempts = step.token, attempts + 1
            if step.attempt != attempts:
                yield f"I5 attempt {attempts} of job {job.id} was counted as {step.attempt}"
                attempts = step.attempt
        elif step.verb == "rescue":
            token = None
        elif step.verb == "requeue":
            attempts = 0
        elif step.token != (token or ""):
            yield f"I5 job {job.id} was settled as {step.verb} by a token that is not its last claim's"
        else:
            token, attempts = None, attempts - (step.verb == "released")


def _late(job, runs, steps, began, blame):
    """I8: whoever lost its lease, stopped or not, does not begin the job, nor go on with it."""
    claims = [step for step in steps if step.verb == "claim"]
    for run in runs:
        mine = [claim for claim in claims if _under(run, claim)]
        if not mine:
            continue
        others = [claim for claim in claims if mine[-1].at < claim.at < run.began - SKEW and claim not in mine]
        if others and not blame.could_not_know(run, began[run.child]):
            yield f"I8 job {job.id} was begun {run.began - others[0].at:.3f} s after another had claimed it"
        yield from _goes_on(job, run, _lost_at(steps, mine[-1]), blame)


def _lost_at(steps, claim):
    """Epoch s when the lease of this claim ran out, or None."""
    mine = False
    for step in steps:
        if mine and step.verb in {"claim", "rescue"}:
            return None if step.verb == "claim" else step.at
        mine = mine or step is claim
    return None


def _goes_on(job, run, lost, blame):
    if run.ended is None:
        return
    over = [at for at in (blame.last_breath(run), lost) if at is not None and at > run.began - DYING]
    if over and run.ended > blame.thaw(run, min(over)) + GONE:
        yield f"I8 job {job.id} went on for {run.ended - min(over):.1f} s after its lease, or its chain, was gone"
