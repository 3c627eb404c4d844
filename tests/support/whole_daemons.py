"""Fixtures of tests that start whole daemons: `plant`, `daemon`, `daemons`, and a Cluster for `--broker cluster`."""

import pytest

from fusiond.client import Client
from tests.chaos.plant import Plant
from tests.support.replicas import RedisCluster
from tests.support.running import Running
from tests.support.seldom_polls import seldom_polls
from tests.support.story import Story

#: files and tests that kill, or name, the daemon's own Redis, so that they have no meaning with another
OWN_REDIS = {
    "test_dev.py", "test_redis_away.py", "test_redis_faults.py", "test_tour.py", "test_replicas.py",
    "test_soak.py", "test_conservation.py",
    "test_they_reach_every_program", "test_a_local_account_reaches_nothing", "test_no_job_comes_to_harm_in_a_storm",
    "test_a_seeded_bug_is_found", "test_it_is_not_ready_while_redis_is_frozen",
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


class Daemons:
    """Several daemons on one Redis."""

    def __init__(self, url):
        self.url, self.running = url, []

    def client(self):
        return Client(self.url)

    def start(self, text, code, *, polls=True):
        """
        One more: `{app}` of the text is where it has this code as `jobs.py`.

        `polls`: False: only after so long that what waits for a poll waits for ever.
        """
        daemon = Running()
        self.running.append(daemon)
        (daemon.app / "jobs.py").write_text(code)
        daemon.body = f"broker: {{url: '{self.url}'}}\n{text.replace('{app}', str(daemon.app))}"
        return daemon.start(daemon.body, environment=None if polls else seldom_polls(daemon.directory))


@pytest.fixture
def daemons(redis_server):
    """Starts daemons on the test's own Redis."""
    daemons = Daemons(Running.broker_url or redis_server.url)
    yield daemons
    for daemon in daemons.running:
        daemon.close()


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
