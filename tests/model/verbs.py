"""
The verbs, as their Lua files have them: (Redis before, request) -> (Redis after, answer).
"""

from __future__ import annotations

from typing import TypeVar

from tests.model import states as s
from tests.model.states import Answer, Claim, Job, Redis, Renew, Request, Rules, Settle

T = TypeVar("T")


def execute(redis: Redis, request: Request, rules: Rules) -> tuple[Redis, Answer]:
    """What Redis does with a request."""
    if isinstance(request, Claim):
        return claim(redis, request, rules)
    if isinstance(request, Renew):
        return renew(redis, request)
    return settle(redis, request, rules)


def claim(redis: Redis, request: Claim, rules: Rules) -> tuple[Redis, Answer]:
    """claim.lua, for one job: the repeat of a nonce; or else rescues, then the first job of the queue."""
    before = redis.claims[request.dispatcher]
    known = before is not None and before[0] == request.nonce
    if rules.nonce and request.again and not known:
        return redis._replace(claims=put(redis.claims, request.dispatcher, (request.nonce, -1, 0))), None
    if rules.nonce and before and known:
        _, at, token = before
        if at < 0:
            return redis, None
        job = redis.jobs[at]
        return (_with(redis, at, job._replace(lease=s.LEASE)), (at, token)) if job.token == token else (redis, None)
    redis = redis._replace(jobs=tuple(_rescued(job, rules) for job in redis.jobs))
    for at, job in enumerate(redis.jobs):
        if job.status == s.QUEUED:
            return _begin(redis, request, at, rules)
    # Where none is to come, it makes no difference who waits.
    awaits = any(job.status == s.NEW for job in redis.jobs)
    return redis._replace(parked=(request.dispatcher, parking(request.nonce)) if awaits else None), None


def parking(nonce: int) -> int:
    """The token that a claim leaves which finds no job. In earnest it is another random one."""
    return nonce + 100


def enqueue(redis: Redis, at: int) -> tuple[Redis, tuple[int, int] | None]:
    """enqueue.lua: NEW -> QUEUED; or STARTED (claim_on_enqueue.lua) for a dispatcher that waits: it and its token."""
    parked = redis.parked
    if parked is None or any(job.status == s.QUEUED for job in redis.jobs):
        return _with(redis, at, Job())._replace(parked=None), None
    given = Job(s.STARTED, parked[1], s.LEASE, attempts=1, holder=parked[0])
    return _with(redis, at, given)._replace(parked=None), parked


def _rescued(job: Job, rules: Rules) -> Job:
    """STARTED -> QUEUED, or FAILED above the limit, if the lease has expired."""
    if job.status != s.STARTED or not rules.rescue or (job.lease and rules.expiry):
        return job
    status = s.QUEUED if job.rescues < s.MAX_RESCUES else s.FAILED
    return Job(status, 0, 0, job.last_token, job.attempts, job.rescues + 1)


def _begin(redis: Redis, request: Claim, at: int, rules: Rules) -> tuple[Redis, Answer]:
    """QUEUED -> STARTED: lease, token, attempt + 1."""
    old = redis.jobs[at]
    count = redis.count if rules.random else redis.count + 1
    token = request.nonce if rules.random else count
    status, lease = (s.STARTED, s.LEASE) if rules.atomic else (s.TAKEN, 0)
    new = Job(status, token, lease, old.last_token, old.attempts + 1, old.rescues, request.dispatcher)
    claims = put(redis.claims, request.dispatcher, (request.nonce, at, token))
    return redis._replace(jobs=put(redis.jobs, at, new), claims=claims, count=count), (at, token)


def renew(redis: Redis, request: Renew) -> tuple[Redis, Answer]:
    """renew.lua."""
    job = redis.jobs[request.job]
    if job.token != request.token:
        return redis, 0
    return _with(redis, request.job, job._replace(status=s.STARTED, lease=s.LEASE)), 1


def settle(redis: Redis, request: Settle, rules: Rules) -> tuple[Redis, Answer]:
    """settle.lua; the last attempt's retry is a failure, which in earnest the dispatcher says."""
    job = redis.jobs[request.job]
    if rules.fence and job.token != request.token:
        return redis, 2 if rules.receipt and job.last_token == request.token else 0
    status, attempts = request.outcome, job.attempts
    if status == "released":
        status, attempts = s.QUEUED, attempts - 1
    elif status == "retry":
        status = s.QUEUED if attempts < s.MAX_ATTEMPTS else s.FAILED
    ended = Job(status, 0, 0, request.token, *((attempts, job.rescues) if status == s.QUEUED else ()))
    return _with(redis, request.job, ended), 1


def put(items: tuple[T, ...], at: int, item: T) -> tuple[T, ...]:
    """The tuple with another item at that place."""
    return (*items[:at], item, *items[at + 1 :])


def _with(redis: Redis, at: int, job: Job) -> Redis:
    return redis._replace(jobs=put(redis.jobs, at, job))
