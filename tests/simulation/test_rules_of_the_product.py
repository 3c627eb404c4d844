"""
A simulation has no rules of its own: one that is broken in the product, in a script or in a function of the dispatcher
or the scheduler, is broken in the simulation.
"""

import hashlib
import json

import pytest

from fusiond.broker import script
from fusiond.schedule import decision
from fusiond.worker.dispatcher import scaling
from fusiond.worker.dispatcher.claims import queue_order
from fusiond.worker.dispatcher.ends import verdicts

FILE = """

queues: {fast: {}, slow: {rate_limit: 1/10s}, fair: {fair_by: [kwargs.tenant]}, short: {max_length: 5}}
retry_policies: {few: {max_attempts: 2, delay: 1m, jitter: 0%}}
tasks:
  quick: {run: a.b, queue: fast, priority: high, retry: few}
  other: {run: a.b, queue: fast, priority: low, expires: 6s}
  rated: {run: a.b, queue: slow}
  tenants: {run: a.b, queue: fair}
  alone: {run: a.b, queue: fair, limit: {by: [kwargs.account], max_running: 1}}
  once: {run: a.b, queue: fast, unique: {by: [kwargs.user], for: 2m}}
  full: {run: a.b, queue: short}
cron: {tick: {task: quick, schedule: "*/2 * * * *"}}
workers:
  main: {queues: [fast, slow, short], order: strict, processes: {min: 1, max: 3}}
  side: {queues: [fair], processes: 3}
"""
LOAD = [
    {"task": "quick", "rate": "12/1m", "takes": {"p50": "3s", "p99": "20s"}, "fails": 0.3},
    {"task": "other", "rate": "12/1m", "takes": "5s"},
    {"task": "rated", "rate": "10/1m", "takes": "1s"},
    {"task": "tenants", "rate": "30/1m", "takes": "3s", "keys": 3},
    {"task": "alone", "rate": "20/1m", "takes": "4s", "keys": 2},
    {"task": "once", "rate": "20/1m", "takes": "1s", "keys": 5},
    {"task": "full", "rate": "20/1m", "takes": "3s"},
]
FULL = ("tasks", "full")
#: a rule of a script → words in it, what they become, and what the simulation then has otherwise
SCRIPTS = {
    "priorities": ("(255 - ", "(0 + ", ("tasks", "quick")),
    "the rate of a queue": ("math.floor(burst - ", "math.floor(1000 - ", ("tasks", "rated")),
    "locks of unique jobs": ("if not other or other == id then", "if true then", ("tasks", "once")),
    "the length of a queue": ("return most - ", "return 1000 + most - ", FULL),
    "limits of tasks": ("return room.places < 1 or room.tokens < 1", "return false", ("tasks", "alone")),
    "turns of tenants": ("math.max(first, known[priority], last + 1)", "first", ("tasks", "tenants")),
    "expiry": ("created + expires > now", "created + expires > 0", ("tasks", "other")),
}
#: a function of the dispatcher or the scheduler → what it becomes
FUNCTIONS = {
    "the order of queues": (queue_order.Queues, "divide", lambda self, want, _=(): last_first(self, want), FULL),
    "the delay of a retry": (verdicts, "backoff", lambda *_: 0.0, ("tasks", "quick")),
    "the number of children": (scaling, "next_size", lambda *_, **__: None, ("groups", "main")),
    "which ticks are due": (decision, "due", lambda *_, **__: ((), None), ("cron", "tick")),
}  # fmt: skip


#: the result of the product as it is
RESULT = {}


def last_first(queues, want):
    """The last queue of the group that may have jobs, in place of the first."""
    may_have_jobs = [name for name in queues.names if name in queues._open]
    return dict.fromkeys(may_have_jobs[-1:], want) if want else {}


@pytest.fixture
def figures(simulated):
    """The figures of that part, without the change and with it."""

    def both(part, change):
        if not RESULT:
            RESULT.update(simulated(FILE, LOAD, 240.0))
        change()
        return [each[part[0]].get(part[1]) for each in (RESULT, simulated(FILE, LOAD, 240.0))]

    return both


@pytest.mark.parametrize("rule", SCRIPTS)
def test_a_rule_of_a_script_decides(figures, monkeypatch, rule):
    """Priorities, rates, locks, lengths, limits, turns and expiry are those of Redis' scripts."""
    old, new, part = SCRIPTS[rule]
    read, found = script._read.__wrapped__, []

    def broken(path):
        text = read(path)
        found.extend([path] * text.count(old))
        return text.replace(old, new)

    before, after = figures(part, lambda: monkeypatch.setattr(script, "_read", broken))
    assert found
    assert before != after


@pytest.mark.parametrize("rule", FUNCTIONS)
def test_a_rule_of_the_dispatcher_or_the_scheduler_decides(figures, monkeypatch, rule):
    """The order of queues, verdicts on attempts, the number of children and ticks are those of the product."""
    module, name, broken, part = FUNCTIONS[rule]
    before, after = figures(part, lambda: monkeypatch.setattr(module, name, broken))
    assert before != after


def test_the_same_seed_gives_the_same_bytes(simulated):
    """The same in each Python that is tested, so the digest stands here; another one with another seed."""
    digests = []
    for seed in (1, 1, 2):
        result = simulated(FILE, LOAD, 120.0, seed=seed)
        result.pop("memory")
        digests.append(hashlib.sha256(json.dumps(result).encode()).hexdigest()[:16])
    assert digests[0] == digests[1] != digests[2]
    assert digests[0] == "fdf9b61621321ff2"
