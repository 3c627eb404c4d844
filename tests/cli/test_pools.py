"""`fusiond pools`, and what `job show` says of a job that waits for one."""

import pytest

from fusiond.broker.pool_verbs import PoolAction
from fusiond.broker.records import Outcome
from fusiond.config.model import Config
from fusiond.config.model.limits import SharedPool
from tests.support.fusiond_command import samples

POOLS = {"licence": SharedPool("licence", 2)}


@pytest.fixture
def publish(desk):
    """What a daemon does whose file has this; then one job holds both slots."""

    def published(**keys):
        for call in desk.verbs.declare_pools(Config(**keys)):
            desk.run(call)
        take = PoolAction("take", b"t a", "licence=2=other (max_running)=1=host.1")
        desk.run(desk.verbs.pools(POOLS | {"(max_running)": SharedPool("", 1)}, 60_000, [take]))

    return published


def test_who_waits_for_a_pool_is_seen(desk, publish):
    """In the list, and in the job's own words."""
    publish(pools=POOLS)
    name = desk.enqueued("send")
    id_, token = desk.claim()
    desk.run(desk.verbs.settle("default", [Outcome(id_, token, "refused", 1)]))
    desk.run(desk.verbs.pools(POOLS, 60_000, [PoolAction("take", b"t b", "licence=1=send")]))
    head, line = desk.fusiond("pools").out.splitlines()
    assert head.split() == ["POOL", "SLOTS", "HELD", "WAITING", "FOR"]
    assert line.split()[:4] == ["licence", "2", "2", "send"]
    document = desk.fusiond("pools", "--json").json["licence"]
    assert (document["slots"], document["held"], document["waiters"]) == (2, 2, ["send"])
    assert "pool 'licence' has too little room" in desk.fusiond("status").out
    metrics = samples(desk.fusiond("status", "--metrics").out)
    kinds = [metrics[f"fusiond_pool_{kind}"]["licence",] for kind in ("slots", "held_slots", "oldest_wait_seconds")]
    assert kinds[:2] == [2, 2]
    assert 0 <= kinds[2] < 60
    shown = desk.fusiond("job", "show", name)
    assert "pool 'licence' has too little room: 2 of 2 slots are held" in shown.out
    assert desk.fusiond("job", "show", name, "--json").json[0]["history"] == []


def test_a_job_that_waits_for_max_running_says_so(desk, publish):
    """It is queued."""
    publish(max_running=1)
    name = desk.enqueued("send")
    why = desk.fusiond("job", "show", name, "--json").json[0]["why_waiting"]
    assert why == "max_running is reached: 1 of 1 jobs run, or have been claimed"
    assert desk.fusiond("pools").out.splitlines()[1].split() == ["(max_running)", "1", "1"]
