"""Fixtures of tests that start whole daemons: `plant`, `daemon`, and a Cluster for `--broker cluster`."""

import pytest

from tests.chaos.plant import Plant
from tests.support.replicas import RedisCluster
from tests.support.running import Running
from tests.support.story import Story

#: files and tests that kill, or name, the daemon's own Redis, so that they have no meaning with another
OWN_REDIS = {
    "test_dev.py", "test_redis_away.py", "test_redis_faults.py", "test_tour.py", "test_replicas.py",
    "test_soak.py", "test_conservation.py",
    "test_kill[wrapper]", "test_kill[redis]", "test_a_successor_finds_no_stray_and_starts_no_second_redis",
    "test_they_reach_every_program", "test_a_local_account_reaches_nothing", "test_no_job_comes_to_harm_in_a_storm",
    "test_kill_9_of_redis_loses_no_tick", "test_a_seeded_bug_is_found", "test_it_is_not_ready_while_redis_is_frozen",
}  # fmt: skip


@pytest.fixture(scope="session")
def _cluster():
    # no node is to be taken for dead because the machine is busy
    with RedisCluster(timeout=15_000) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _broker(request, monkeypatch):
    """With `--broker cluster` every daemon's Redis is a Cluster of this test process, empty for each test."""
    if request.config.getoption("--broker", "embedded") == "embedded":
        return
    if OWN_REDIS & {request.node.path.name, request.node.name, request.node.originalname}:
        pytest.skip("about the daemon's own Redis")
    cluster = request.getfixturevalue("_cluster")
    for node in cluster.primaries():
        node.do("FLUSHALL")
    monkeypatch.setattr(Running, "broker_url", cluster.url)


@pytest.fixture
def plant():
    """A daemon of the chaos harness, which runs."""
    with Plant() as plant:
        plant.start_up()
        yield plant


@pytest.fixture
def daemon():
    """A daemon that is not started yet; at the end no process of it is left."""
    story = Story()
    yield story
    story.close()
