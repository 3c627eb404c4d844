"""
Seeded bugs: what the code would be without one of its rules. Each must be found by the verdict.

A harness that cannot fail proves nothing. A bug comes with what brings it out: the load and the faults under which the
right code is faultless and the wrong one is not, in seconds.
"""

from typing import NamedTuple

from tests.chaos.faults import AMBUSH, AT_TICK, CUT, SNARE, TERM, WHOLE_GROUP
from tests.chaos.load import Mix
from tests.chaos.package import Edit
from tests.chaos.plant import CHILD, DISPATCHER, REDIS, SERVER, SUPERVISOR
from tests.chaos.trial import Plan

#: s; jobs of which none ends within it never will
_PEACE = 9.0
_MIX = Mix(short=0.3, long=0.015, delayed=0.1, flawed=0.04, canceled=0.05, inbox=0.2, uneven=0.03, bunch=20)
_LASTING = _MIX._replace(short=0.1, long=0.05)
#: more than three children a group can do at once
_BUSY = _MIX._replace(short=0.9, long=0.0, flawed=0.0)
#: six jobs, all longer than what befalls them
_FEW = Mix(short=0.0, long=1.0, long_seconds=9.0, delayed=0.0, bunch=6)


def _plan(faults, weights=None, *, jobs=360, seconds=6.0, stops=0.0, **more):
    usual = {"weights": weights, "mix": _MIX, "processes": 5, "every": False, "peace": _PEACE}
    return Plan(jobs, seconds, faults, stops, **(usual | more))


#: name → what is done; the right code stands all of them
PLANS = {
    "no faults": _plan(0),
    "no faults, jobs that wait": _plan(0, jobs=240, mix=_BUSY._replace(canceled=0.3), processes=2),
    "children killed": _plan(60, {CHILD: 1, SNARE: 1}),
    "fork servers killed": _plan(6, {SERVER: 1}, mix=_LASTING, jobs=200),
    "dispatchers told to end": _plan(6, {TERM: 1}, mix=_LASTING, jobs=200),
    "dispatchers killed": _plan(10, {DISPATCHER: 1}, mix=_LASTING, jobs=200),
    "dispatchers killed as they claim": _plan(
        8, {AMBUSH: 1}, jobs=480, mix=_BUSY._replace(flood=60), processes=3, every=True
    ),
    "a dispatcher stopped": _plan(2, {DISPATCHER: 1}, stops=1.0, pauses=(4.0,), seconds=10.0, jobs=400, every=True),
    "a dispatcher of long jobs stopped": _plan(
        1, {DISPATCHER: 1}, stops=1.0, pauses=(3.4,), seconds=2.0, jobs=6, mix=_FEW, processes=4, peace=15.0, every=True
    ),
    "a group stopped": _plan(2, {WHOLE_GROUP: 1}, jobs=60, seconds=6.0, mix=_MIX._replace(flood=400, bunch=10)),
    "connections cut": _plan(24, {CUT: 1}, mix=_MIX._replace(bunch=30, inbox=0.7, short=0.2)),
    "connections of busy lanes cut": _plan(30, {CUT: 1}, jobs=90, mix=_MIX._replace(flood=400, bunch=3), every=True),
    "a producer's connection cut": _plan(
        1000, {CUT: 1}, seconds=20.0, jobs=3000, mix=Mix(short=0.0, long=0.0, delayed=0.0, bunch=1)
    ),
    "children of many jobs killed": _plan(60, {CHILD: 1, SNARE: 1}, many=True),
    "dispatchers of many jobs killed": _plan(10, {DISPATCHER: 1}, mix=_LASTING, jobs=200, many=True),
    "Redis killed": _plan(4, {REDIS: 1}, seconds=8.0),
    "the supervisor killed": _plan(2, {SUPERVISOR: 1}, seconds=8.0, jobs=160, mix=_LASTING),
    "the scheduler killed as it ticks": _plan(6, {AT_TICK: 1}, seconds=8.0, jobs=80, entries=40, every=True),
}


class Bug(NamedTuple):
    """One mistake."""

    #: whose code it is in
    where: str
    #: what the code does then, in a sentence
    what: str
    #: the name in PLANS, or in situations.SITUATIONS
    plan: str
    edits: list


_CLAIM, _SETTLE, _RENEW = "broker/lua/claim.lua", "broker/lua/settle.lua", "broker/lua/renew.lua"
_RESCUE, _TALLY = "broker/lua/shared/rescue.lua", "broker/lua/shared/tally.lua"
_LOCKS, _TURNS = "broker/lua/shared/locks.lua", "broker/lua/shared/turns.lua"
_HELD, _PLACES = "broker/lua/shared/limiter.lua", "broker/lua/shared/places.lua"
_WAITING, _EXCHANGE, _CAPACITY = (
    "worker/dispatcher/waiting.py",
    "worker/dispatcher/claims/lane.py",
    "worker/pool/capacity.py",
)
_LANES = "worker/dispatcher/claims/lanes.py"
_CHILDREN, _WATCH = "worker/pool/children.py", "worker/pool/watchdog.py"
_LEASES, _SLOTS, _FORKSERVER = (
    "worker/dispatcher/claims/leases.py",
    "worker/pool/slots.py",
    "worker/runtime/forkserver.py",
)
_TICKING, _TICK = "schedule/ticking.py", "broker/lua/tick.lua"
_TAKE = "                line.append(attempt)\n"
#: what a sweep mends is not lost
_NO_SWEEP = Edit("schedule/sweeping.py", "PERIOD = 60.0", "PERIOD = 1e6")
#: without it the kernel ends the children with their server, whatever else is forgotten
_ALONE = Edit(_FORKSERVER, "            self._prctl(PR_SET_PDEATHSIG, 9)\n", "")
_RUN = "        kind, retry, payload = run.run(self, self._tasks, job)\n"
_REQUEST = "        request = self._again(self._unanswered) if self._unanswered else self._request(shares, once)\n"
_BATCHES = "        for batch in self._batches("
_NOTED = "        self._cursors.read.update(ahead.read)\n        await self._hold(LEASE_MS)\n"

BUGS = {
    "no fence": Bug(
        "settle", "takes an outcome under whatever token", "a dispatcher stopped",
        [Edit(_SETTLE, "text:sub(1, #mark) ~= mark then", "text:sub(1, 1) ~= 't' then")],
    ),
    "a lease that a settle leaves": Bug(
        "settle", "leaves the ended job among the started", "no faults",
        [Edit("broker/lua/shared/endings.lua", "call_in_batches('ZREM', STARTED, left_started)", "")],
    ),
    "a repeat that is counted": Bug(
        "settle", "counts an outcome again when it is settled again", "connections of busy lanes cut",
        [Edit(_TALLY, "if is_stale and is_stale[i] then", "if false then")],
    ),
    "outcomes alike that count once": Bug(
        "settle", "counts one of the outcomes of a batch that are alike", "no faults",
        [Edit(_TALLY, "count_up(task, letter, number)", "count_up(task, letter, 1)")],
    ),
    "a retry that drops": Bug(
        "settle", "puts a crashed job nowhere", "children killed",
        [Edit(_SETTLE, "    add(scheduled, whole(now + delay), id)\n  end", "  end")],
    ),
    "a release that drops": Bug(
        "settle", "puts a released job nowhere", "dispatchers told to end",
        [Edit(_SETTLE, "    return_to_ready(id, whole(finite(h.score) or 254 * BAND))\n", "")],
    ),
    "a release that burns an attempt": Bug(
        "settle", "counts an attempt that never was", "dispatchers told to end",
        [Edit(_SETTLE, "math.max(count(h.attempts), 1) - 1", "count(h.attempts)")],
    ),
    "a rescue that the history leaves out": Bug(
        "claim", "counts the rescue of a job, and its history does not tell of it", "dispatchers killed",
        [Edit(_RESCUE, "  codec.add_to_history(h, h", "  local _ = h.cancel and codec.add_to_history(h, h")],
    ),
    "rescue of the living": Bug(
        "claim", "takes back leases that hold", "no faults",
        [
            Edit(_RESCUE, "if not first or first > now then return false end", "if not first then return false end"),
            Edit(_RESCUE, "STARTED, '-inf', now, 'LIMIT'", "STARTED, '-inf', '+inf', 'LIMIT'"),
        ],
    ),
    "no rescue": Bug(
        "claim", "leaves expired leases alone", "dispatchers killed",
        [Edit(_RESCUE, "if not first or first > now then return false end", "do return false end")],
    ),
    "a rescue that drops": Bug(
        "claim", "puts a rescued job nowhere", "dispatchers killed",
        [_NO_SWEEP, Edit(_RESCUE, "    return_to_ready(id, whole(score))\n", "")],
    ),
    "a promotion that loses": Bug(
        "claim", "puts a job that comes due nowhere", "no faults",
        [
            _NO_SWEEP,
            Edit(
                "broker/lua/shared/due.lua",
                "make_ready(id, whole(with_sequence(finite(h.score), seq + i)), h.args)",
                "",
            )
        ],
    ),
    "a nonce that is ignored": Bug(
        "claim", "gives other jobs to a claim that is repeated", "connections of busy lanes cut",
        [
            Edit(_CLAIM, "before:sub(1, #nonce + 1) == nonce .. ' '", "false"),
            Edit(_CLAIM, "if is_known or IS_REPEAT then", "if is_known then"),
        ],
    ),
    "a claim in two steps": Bug(
        "claim", "takes jobs from the queue, and has their leases written by a second call",
        "dispatchers killed as they claim",
        [
            Edit(_CLAIM, "call_in_batches('ZADD', STARTED, leases)", ""),
            Edit(_RENEW, "call_in_batches('ZADD', STARTED, held, 'XX')", "call_in_batches('ZADD', STARTED, held)"),
            Edit(
                _EXCHANGE, "        self._unanswered = None\n",
                "        self._unanswered = None\n"
                "        for (share, nonce, *_), reply in zip(request.claims, replies[len(request.settles) :]):\n"
                "            held = [(job.id, nonce) for job in getattr(reply, 'jobs', ())]\n"
                "            if held:\n"
                "                await self._connection.run(self._broker.renew(share.queue, held, LEASE_MS))\n",
            ),
        ],
    ),
    "an inbox taken in two steps": Bug(
        "claim", "takes bodies from the inbox, and stores them by a second call", "connections cut",
        [
            Edit(
                _EXCHANGE, _REQUEST,
                "        import asyncio\n"
                "        from fusiond.broker.call import as_is, plain\n"
                "        for share in shares:\n"
                "            inbox = self._broker.keys.of(share.queue, 'inbox')\n"
                "            for raw in await self._connection.run(plain(as_is, 'RPOP', inbox, 100)) or ():\n"
                # long enough to be cut off in between
                "                await asyncio.sleep(0.02)\n"
                "                await self._connection.run(plain(as_is, 'LPUSH', inbox, raw))\n" + _REQUEST,
            ),
        ],
    ),
    "an enqueue that knows no ids": Bug(
        "enqueue", "stores a job again when it is repeated", "a producer's connection cut",
        [Edit("broker/lua/enqueue.lua", "local all_new = not any_exists(keys)", "local all_new = true")],
    ),
    "a cancel that leaves the job": Bug(
        "cancel", "calls a job canceled that stays in the queue", "no faults, jobs that wait",
        [Edit("broker/lua/cancel.lua", "redis.call('ZREM', QUEUE, id) == 1", "redis.call('ZSCORE', QUEUE, id)")],
    ),
    "a requeue that duplicates": Bug(
        "requeue", "leaves the job among the failed too", "no faults",
        [
            Edit(
                "broker/lua/requeue.lua",
                "redis.call('ZREM', ROOT .. ':failed', id) + redis.call('ZREM', ROOT .. ':canceled', id) == 0",
                "not (redis.call('ZSCORE', ROOT .. ':failed', id) or redis.call('ZSCORE', ROOT .. ':canceled', id))",
            )
        ],
    ),
    "no renewal": Bug(
        "dispatcher", "never renews a lease", "no faults",
        [Edit(_LEASES, "            self._renew_due,\n", "            lambda: asyncio.sleep(0),\n")],
    ),
    "no self-fencing": Bug(
        "dispatcher", "lets a job go on whose lease it has lost", "a dispatcher of long jobs stopped",
        [Edit("worker/pool/attempt.py", "if self.lost or self.lease <= now:", "if False:")],
    ),
    "a lease that is trusted for ever": Bug(
        "dispatcher", "lets a job begin after its lease is over", "a group stopped",
        [Edit(_LEASES, "return sent_ns + int((LEASE - MARGIN) * 1e9)", "return sent_ns + int(3600 * 1e9)")],
    ),
    "a token from a counter": Bug(
        "dispatcher", "numbers its claims, as every other dispatcher does", "no faults",
        [
            Edit(_EXCHANGE, "new_token(self._mark), reservation", "next(_TOKENS), reservation"),
            Edit(
                _EXCHANGE, "from fusiond.job import mark_of, new_token\n",
                "import itertools\nfrom fusiond.job import mark_of\n_TOKENS = map(str, itertools.count())\n",
            ),
        ],
    ),
    "settled before it runs": Bug(
        "dispatcher", "settles a job as it claims it", "children killed",
        [
            Edit(
                _WAITING, _TAKE,
                _TAKE + "                from fusiond.broker.records import Outcome\n"
                "                finished = (attempt.id, attempt.token, 'finished', 3600000, 0, b'null')\n"
                "                self._settler._outcomes.add(attempt, Outcome(*finished))\n",
            )
        ],
    ),
    "a job that is handed out twice": Bug(
        "dispatcher", "hands a claimed job to two children", "no faults",
        [Edit(_WAITING, _TAKE, _TAKE.replace("append(attempt)", "extend([attempt] * 2)"))],
    ),
    "hand-outs lost with their child": Bug(
        "dispatcher", "forgets what a dead child had not begun", "children killed",
        [
            Edit(_CHILDREN, "        self._give_back(child, list(child.outstanding))\n", "")
        ],
    ),
    "a crash that is a success": Bug(
        "dispatcher", "takes a killed child's job for finished", "children killed",
        [
            Edit(
                "worker/dispatcher/ends/verdicts.py", "    crashes, wait = ",
                '    return Outcome(attempt.id, attempt.token, "finished", ms(task.result_ttl), 0, b"null")\n'
                "    crashes, wait = ",
            )
        ],
    ),
    "a lost reply that is not asked for": Bug(
        "dispatcher", "drops outcomes and claims whose reply was lost", "connections cut",
        [Edit(_EXCHANGE, _REQUEST, "        request = self._request(shares, once)\n")],
    ),
    "two lanes under one name": Bug(
        "dispatcher", "has its lanes overwrite each other's nonce", "connections of busy lanes cut",
        [Edit(_LANES, 'f"2/{name}"', "name")],
    ),
    "a full group that claims ahead": Bug(
        "dispatcher", "claims for children that are busy with long jobs", "bursts of forked children",
        [
            Edit(
                _CAPACITY,
                "min(ahead, WAITING * self._soon_free()) if quick else 0",
                "WAITING * self._conf.group.processes",
            )
        ],
    ),
    "a child that keeps what it was handed": Bug(
        "dispatcher", "leaves jobs behind one that is not quick after all", "bursts of reused children",
        [Edit(_WATCH, "if stuck or late or attempt.canceled", "if attempt.canceled")],
    ),
    "slots that come free and nobody looks": Bug(
        "dispatcher", "does not claim again when a former generation leaves it more slots",
        "a group replaced under long jobs",
        [
            Edit(
                "worker/dispatcher/loop.py", "        self.pool.capacity.leave(slots)\n        self._wake.set()\n",
                "        self.pool.capacity.leave(slots)\n",
            )
        ],
    ),
    "orphans that live on": Bug(
        "dispatcher", "leaves the children of a dead fork server alone", "fork servers killed",
        [
            _ALONE,
            Edit(
                "worker/pool/fork_server/server_handle.py", "            left, reaped = kill_children()\n",
                "            left, reaped = set[int](), dict[int, int]()\n",
            )
        ],
    ),
    "a job that was taken back and begins": Bug(
        "child", "begins whatever it was handed, whenever", "a group stopped",
        [Edit("worker/runtime/wire.py", "return _clock(_BOOT) < words[_FIRST + serial % self.ring]", "return True")],
    ),
    "a beginning that is not marked": Bug(
        "child", "does not say that it has begun a job", "children killed",
        [Edit("worker/runtime/wire.py", "        words[0] = serial\n", "")],
    ),
    "an outcome before its run": Bug(
        "child", "reports success, then runs the job", "children killed",
        [
            Edit(
                "worker/runtime/child.py", _RUN,
                "        self._keep(wire.OutcomeMessage(job.serial, wire.FINISHED, False, 0.0, b'null'))\n"
                "        self._report()\n" + _RUN,
            ),
            Edit(
                "worker/runtime/one_job_child.py", f"    {_RUN}",
                "            finished = wire.one_outcome_frame(b'null', job[0], wire.FINISHED, 0, 0.0, -1.0, 0)\n"
                f"            run.write_all(fd, finished)\n    {_RUN}",
            ),
        ],
    ),
    "a fork server that is waited for": Bug(
        "dispatcher", "waits for ever for a fork server that hangs", "a fork server frozen for good",
        [Edit("worker/pool/fork_server/answers.py", '(ANSWER, "not answered")', '(1e9, "not answered")')],
    ),
    "jobs beside the last one begun that are lost with their child": Bug(
        "dispatcher", "takes all jobs of a dead child but the one begun last for jobs that have not begun",
        "children of many jobs killed",
        [
            Edit(
                _CHILDREN, "for serial in [serial for serial in child.outstanding if serial <= begun]:",
                "for serial in [serial for serial in child.outstanding if serial == begun]:",
            )
        ],
    ),
    "a death held against all beside": Bug(
        "dispatcher", "charges each job of a child that is killed for one of them",
        "a bunch side by side in which one is meant",
        [Edit(_SLOTS, "            return serial == kill.serial\n", "            return True\n")],
    ),
    "a death held against whoever runs": Bug(
        "dispatcher", "lets a killed child go on, and charges its death to the job begun last",
        "a bunch in which one is meant",
        [
            Edit(
                _SLOTS, "            return serial == kill.serial\n", "            return serial == self.begun()\n",
            ),
            Edit(
                _SLOTS, "            self.forbid(self.waiting())\n", "",
            ),
        ],
    ),
    "a kill that takes siblings along": Bug(
        "fork server", "kills each child where one is to be killed", "a bunch in which one is meant",
        [
            Edit(
                _FORKSERVER, "[pid for pid, slot in self._pids.items() if slot == int(rest)]", "self._pids",
            )
        ],
    ),
    "a death that nobody hears of": Bug(
        "fork server", "does not report a child's death", "children killed",
        [Edit(_FORKSERVER, "reports.append(", "str(")],
    ),
    "children that outlive their dispatcher": Bug(
        "fork server", "ends without its children", "dispatchers killed",
        [
            _ALONE,
            Edit(
                _FORKSERVER,
                "        for pid in self._pids:\n            leftovers.kill(pid)\n        self._leftovers.end()\n",
                "        os._exit(0)\n",
            )
        ],
    ),
    "a decision without its job": Bug(
        "scheduler", "does not store with a decision which job it is to have", "the scheduler killed as it ticks",
        [
            Edit(_TICKING, "decided_ticks(*found).to_text() if decision.ticks else None", "None"),
            # long enough to be killed before they are enqueued
            Edit(_TICKING, "await self._finish(taken)", "await asyncio.sleep(0.05); await self._finish(taken)"),
            Edit(_TICKING, "import logging\n", "import asyncio\nimport logging\n"),
        ],
    ),
    "a queue that forgets its ticks": Bug(
        "tick", "stores the job of a tick again, under another id, when it is asked again",
        "the scheduler killed as it ticks",
        [
            Edit(_TICK, "  if tonumber(tick) <= tonumber(newest) then return '4' end\n", ""),
            Edit(_TICK, "= 'cron:' .. entry .. ':' .. ARGV[at], ", "= 'cron:' .. now .. ':' .. ARGV[at], "),
            # long enough to be killed before it is confirmed
            Edit(_TICKING, "        # If a conf", "        await asyncio.sleep(0.05)\n        # If a conf"),
            Edit(_TICKING, "import logging\n", "import asyncio\nimport logging\n"),
        ],
    ),
    "a scheduler that begins again": Bug(
        "scheduler", "passes over the ticks from before its start", "the scheduler killed as it ticks",
        [Edit(_TICKING, "first_seen=state.first_seen if is_known else state.now", "first_seen=state.now")],
    ),
    "a cron entry for each queue": Bug(
        "scheduler", "keeps what it knows of an entry for each queue of its task apart", "entries on the move",
        [
            Edit(
                _TICKING, "self._broker.cron_state(each.entry.name)",
                "self._broker.cron_state(f'{each.entry.name}@{each.task.queue}')",
            )
        ],
    ),
    "an entry that is new to a daemon": Bug(
        "scheduler", "takes an entry that its file did not have for one that no daemon had", "entries on the move",
        [
            Edit(
                _TICKING, "is_known = state.first_seen is not None",
                "is_known = watched.ahead and state.first_seen is not None",
            )
        ],
    ),
    "a rescue that knows no permit": Bug(
        "claim", "gives a job of `none` back whose attempt may have begun", "jobs that are cut off",
        [Edit(_RESCUE, "local why_lost = h.permit and h.permit == h.token\n", "local why_lost = false\n")],
    ),
    "a begin without a permit": Bug(
        "dispatcher", "hands a job of `none` to a child and stores no permit", "jobs that are cut off",
        [
            Edit(
                _WAITING,
                "return self.for_permit if attempt.once and not attempt.permitted else self.for_child",
                "return self.for_child",
            )
        ],
    ),
    "a policy that forgives crashes": Bug(
        "dispatcher", "has `none` run again after two crashes", "jobs that are cut off",
        [Edit("config/model/tasks.py", "jitter_share=0.0, max_crashes=0)", "jitter_share=0.0, max_crashes=2)")],
    ),
    "a rescue that forgets the expiry": Bug(
        "claim", "has a job that it rescued begin at any time", "jobs that expire",
        [Edit(_RESCUE, "h.token, h.rescues, h.last_outcome,", "h.expires_at, h.token, h.rescues, h.last_outcome,"),
         Edit(_RESCUE, "= nil, rescues, 'rescued', now", "= nil, nil, rescues, 'rescued', now")],
    ),
    "a claim that takes no place": Bug(
        "claim", "has a job with a limit begin, and does not count it", "limits under kills",
        [Edit(_HELD, "then redis.call('HSET', PLACES .. key, id, token) end", "then do end end")],
    ),
    "a place that outlives its attempt": Bug(
        "settle", "frees no place", "limits under kills",
        [Edit(_PLACES, "    redis.call('HDEL', PLACES .. limit, id)\n", "")],
    ),
    "a place that is freed in silence": Bug(
        "settle", "leaves the jobs that wait for the place held", "limits under kills",
        [Edit(_PLACES, "    release_next(limit)\n  end", "  end")],
    ),
    "a rescue that keeps the place": Bug(
        "claim", "frees no place where a lease has expired", "limits under kills",
        [Edit(_RESCUE, "leave_started(id, h and h.limit)", "leave_started(id)")],
    ),
    "a limit that no script counts": Bug(
        "claim", "takes whatever is there, whatever the queue's max_running says", "limits under kills",
        [Edit(_CLAIM, "if max_running then limit_to(max_running - redis.call('ZCARD', STARTED), 'running') end\n", "")],
    ),
    "a job that is handed out before it has its slots": Bug(
        "dispatcher", "asks for slots of a pool once the job is on its way to a child", "pools under kills",
        [
            Edit(_WAITING, "            return self.for_slots\n", "            self.for_slots.append(attempt)\n"),
            Edit(_WAITING, "until)\n            self.add([attempt])\n", "until)\n"),
        ],
    ),
    "slots for a shorter time than the lease": Bug(
        "pools", "has slots of a pool free again while the lease of their job holds", "pools under kills",
        [Edit("broker/lua/pools.lua", "local ENDS = whole(now + KEPT)", "local ENDS = whole(now + KEPT / 80)")],
    ),
    "slots that are left to nobody": Bug(
        "pools", "has jobs that need one slot go before one that needs all, however long that waits",
        "pools under kills",
        [Edit("broker/lua/pools.lua", "is_fresh and now - since >= tonumber(patience)", "false")],
    ),
    "a number that two children share": Bug(
        "dispatcher", "gives a child the number of one that has not ended", "pools under kills",
        [Edit(_SLOTS, "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH | fcntl.LOCK_NB")],
    ),
    "a generation that counts itself alone": Bug(
        "dispatcher", "has as many children as it may beside its former generation", "processes that follow the load",
        [
            Edit(
                _CAPACITY, "self._conf.group.processes - math.ceil(self._left / self.concurrency)",
                "self._conf.group.processes",
            )
        ],
    ),
    "a row that has no turns": Bug(
        "enqueue", "has the jobs of all tenants wait in the order of their arrival", "tenants under kills",
        [Edit(_TURNS, "math.min(math.max(first, known[priority], last + 1), score)", "score")],
    ),
    "a turn that is taken twice": Bug(
        "enqueue", "forgets the last turn of a tenant", "tenants under kills",
        [Edit(_TURNS, "    if turn > last then set(tenant, turn) end\n", "")],
    ),
    "a retry that calls back": Bug(
        "settle", "calls the callback of a job that is to be tried again", "sequels",
        [
            Edit(
                _SETTLE,
                "    add(scheduled, whole(now + delay), id)\n  end\n\n  -- hold",
                "    if h.follow then follow_up(id, 'failed', h) end\n"
                "    add(scheduled, whole(now + delay), id)\n  end\n\n  -- hold",
            )
        ],
    ),
    "effects that are dropped early": Bug(
        "effects", "drops the entries for a queue before that queue has them", "sequels",
        [Edit("broker/lua/effects.lua", "  if #reply > 1 then return reply end\n",
              "  if #reply > 1 then redis.call('DEL', EFFECTS .. ':' .. target) return reply end\n")],
    ),
    "a lock that anyone frees": Bug(
        "settle", "frees the lock of another job", "unique jobs",
        [Edit(_LOCKS, "and holder(key) == id then", "then")],
    ),
    "a lock that outlives its job": Bug(
        "settle", "leaves the lock of a job that has ended", "unique jobs",
        [Edit("broker/lua/shared/endings.lua", "  if h and h.unique then free_lock(id, h) end\n", "")],
    ),
    "a requeue that asks for no lock": Bug(
        "requeue", "runs a job again beside the one that has its lock", "unique jobs",
        [Edit("broker/lua/requeue.lua", "other_holder(key, id) ~= nil end", "false end")],
    ),
    "an end that no run is told": Bug(
        "settle", "does not tell a run that a job of a step has ended", "flows under kills",
        [Edit("broker/lua/shared/endings.lua", "  if h and h.flow then notify_run(status, h) end\n", "")],
    ),
    "a step that waits for one alone": Bug(
        "flows", "begins a step when the first of those before it has finished", "flows under kills",
        [Edit("flows/progress.py", "    if good >= step.need:\n", "    if good:\n")],
    ),
    "a child that knows no expiry": Bug(
        "dispatcher", "lets a job begin for as long as its lease is trusted", "jobs that expire",
        [Edit(_SLOTS, "allow(serial, min(attempt.lease, attempt.expires))", "allow(serial, attempt.lease)")],
    ),
    "a daemon whose programs outlive it": Bug(
        "supervisor", "its programs do not end with it", "the supervisor killed",
        [Edit("worker/dispatcher/group.py", 'log.error("the supervisor is gone; stopping at once")', "return")],
    ),
    "a program that stays dead": Bug(
        "supervisor", "does not start a program again", "dispatchers killed",
        [Edit("supervise/supervisord/process.py",
              "# EXITED -> BACKOFF\n            self.change_state(State.BACKOFF)\n", "\n")],
    ),
    "a passing failure that is final": Bug(
        "supervisor", "gives up for good what ends with status 78, though it was ready before", "failures that pass",
        [Edit("supervise/supervisord/process.py", "== EX_CONFIG and not self.was_ready:", "== EX_CONFIG:")],
    ),
    "a fork server that loads nothing and is left so": Bug(
        "dispatcher", "starts no other fork server after one that loaded no task", "failures that pass",
        [
            Edit(
                "worker/pool/fork_servers.py",
                "        self._timer = self._loop.call_later(doubled(_EMPTY, self._tries, SLOWEST), self.start)\n", "",
            )
        ],
    ),
    "a hung program that is left alone": Bug(
        "supervisor", "waits for ever for a program that gives no sign of life", "failures that pass",
        [Edit("supervise/liveness.py", "elif process.silent_for(now) > _patience(process):", "elif False:")],
    ),
    "a command that trusts whoever answers": Bug(
        "commands", "do not ask the daemon which file it runs", "files in trouble",
        [Edit("locate/find_daemons.py", 'if not pointers.same_file(identity["source"], file):', "if False:")],
    ),
    "a dead daemon that is followed": Bug(
        "catalogue", "follows daemons that have ended before those that live, and calls each task served",
        "roll-outs and roll-backs",
        [
            Edit(
                "broker/hosts/catalogue.py",
                'rank = (tier, tier == _LIVING and task["queue"] in served.get(name, ()), order)',
                "rank = (-tier, False, order)",
            ),
            Edit("broker/hosts/host_records.py", "return queue in self.served.get(task, ())", "return True"),
        ],
    ),
    "a move that loses": Bug(
        "requeue", "puts a moved job nowhere", "roll-outs and roll-backs",
        [Edit("broker/lua/move.lua", "  post(target, 'move', id, kind, place, '', children, unpack(fields))\n", "")],
    ),
    "a rescue that is not told": Bug(
        "rescue", "leaves no event", "events under kills",
        [Edit(_RESCUE, "    if events then events.record_job('rescued', id, h, since_claim(h)) end\n", "")],
    ),
    "a sink that notes what it has not delivered": Bug(
        "sink", "notes how far it has read, and then delivers", "events under kills",
        [Edit("sinks/delivery.py", _BATCHES, _NOTED + _BATCHES)],
    ),
    "no file behind Redis": Bug(
        "Redis", "keeps jobs in memory alone", "Redis killed",
        [Edit("broker/redis/embedded.py", '"--appendonly", "yes"', '"--appendonly", "no"')],
    ),
}  # fmt: skip
