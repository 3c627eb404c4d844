"""Pools as Redis decides: what is taken, refused, left to those that wait, and free again."""

import time

import pytest

from fusiond.broker.pool_verbs import PoolAction
from fusiond.config.model import Config
from fusiond.config.model.limits import RateLimit, SharedPool
from tests.support.running import until

KEPT = 60_000
POOLS = {"a": SharedPool("a", 5), "b": SharedPool("b", 2), "r": SharedPool("r", None, RateLimit("1/1h", 1))}


@pytest.fixture
def ask(run, broker):
    """One request: (what, needs, who) each; the replies."""

    def asked(*actions, pools=POOLS, kept=KEPT):
        made = [PoolAction(what, f"token {who}".encode(), needs) for what, needs, who in actions]
        return run(broker.pools(pools, kept, made))

    return asked


@pytest.fixture
def use(run, broker):
    for call in broker.declare_pools(Config(pools=POOLS, max_running=9)):
        run(call)
    return lambda: run(broker.pool_uses())


def test_a_take_gets_all_or_nothing(ask, use):
    """And says which pool has too little; a repeat of it changes nothing."""
    both = "a=2=t b=1=t"
    assert ask(*[("take", both, n) for n in range(3)]) == [b"", b"", b"a"]
    assert ask(("take", both, 0), ("take", "a=1=s", 9)) == [b"", b""]
    found = use()
    assert {name: each.held for name, each in found.items()} == {"a": 5, "b": 2, "r": 0, "(max_running)": 0}
    assert (found["b"].slots, found["r"].slots, found["b"].waiters) == (2, None, ("t",))
    assert ask(("free", both, 1), ("wait", both, ""), ("take", both, 3), ("wait", both, "")) == [0, 1, b"", 0]


def test_a_rate_is_spent_by_jobs(ask):
    """One token each, however many slots it needs."""
    assert ask(("take", "a=2=t r=3=t", 1), ("take", "r=1=t", 2), ("wait", "r=1=t", "")) == [b"", b"r", 0]


def test_slots_that_are_not_renewed_are_free_again(ask):
    """After the time that was said; a renewal counts even if Redis has lost them."""
    assert ask(("take", "b=2=t", 1), kept=200) == [b""]
    assert ask(("renew", "b=2=t", 1), ("take", "b=1=t", 2), kept=200) == [0, b"b"]
    until(lambda: ask(("take", "b=1=t", 2)) == [b""])
    ask(("renew", "b=2=t", 1))
    assert ask(("free", "b=1=t", 2), ("take", "b=1=t", 3)) == [0, b"b"]


def test_a_pool_that_is_smaller_for_one_caller_takes_nothing_away(ask, use):
    """Each goes by its own file."""
    ask(*[("take", "a=1=t", n) for n in range(3)])
    assert ask(("take", "a=1=t", 4), ("wait", "a=1=t", ""), pools={"a": SharedPool("a", 2)}) == [b"a", 0]
    assert use()["a"].held == 3
    assert ask(("take", "a=1=t", 5)) == [b""]


def test_who_waits_and_asks_is_left_what_it_needs(ask):
    """After a second for one slot; not to who has stopped asking."""
    assert ask(("take", "b=2=old", 1), ("take", "b=1=new", 2)) == [b"", b"b"]
    end = time.monotonic() + 1.1
    while time.monotonic() < end:
        ask(("wait", "b=1=new", ""))
        time.sleep(0.1)
    ask(("free", "b=2=old", 1))
    assert ask(("take", "b=2=old", 3), ("take", "b=1=old", 4), ("take", "b=1=old", 5)) == [b"b", b"", b"b"]
    assert ask(("take", "b=1=new", 2)) == [b""]
