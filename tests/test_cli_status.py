import time

import pytest

from tests.fusiond_command import fusiond, samples
from tests.fusiond_desk import opened


@pytest.fixture
def desk(broker_settings, tmp_path):
    with opened(broker_settings, tmp_path) as desk:
        yield desk


@pytest.fixture
def no_daemon(tmp_path):
    """A runtime directory in which nobody listens."""
    return {"RUNTIME_DIRECTORY": str(tmp_path / "run")}


def test_without_a_daemon_the_queues_are_shown(desk, no_daemon):
    """The daemon is away: status 3 and a sentence, and the queues all the same."""
    desk.enqueued("send")
    done = fusiond("status", cwd=desk.cwd, FUSION_URL=desk.settings.url, **no_daemon)
    assert done.status == 3
    assert done.out.splitlines()[1].split()[:2] == ["default", "1"]
    assert "no daemon listens" in done.err
    seen = fusiond("info", "--json", cwd=desk.cwd, FUSION_URL=desk.settings.url, **no_daemon).json
    assert seen["daemon"] is None
    assert seen["queues"][0]["queued"] == 1
    assert list(seen["errors"]) == ["daemon"]


def test_with_neither_it_says_so_of_each(tmp_path, no_daemon):
    """Daemon and broker are away: two sentences, status 3, no traceback; a broker that nobody named included."""
    done = fusiond("status", cwd=tmp_path, FUSION_URL=f"unix://{tmp_path}/nothing.sock", **no_daemon)
    assert (done.status, done.err.count("\n")) == (3, 2)
    assert fusiond("status", cwd=tmp_path, **no_daemon).status == 3


def test_workers_of_every_host_are_shown(desk, no_daemon):
    """-W: what each worker said of itself."""
    now = int(time.time() * 1000)
    said = {"group": "main", "state": "busy", "running": 1, "processes": 4, "queues": "default", "born": now - 180_000}
    desk.run(desk.verbs.announce("box.7", {**said, "jobs": "default/x"}))
    done = fusiond("status", "-W", cwd=desk.cwd, FUSION_URL=desk.settings.url, **no_daemon)
    line = done.out.splitlines()[-1].split()
    assert line == ["box.7", "main", "busy", "1/4", "default", "3m", "ago", "default/x"]
    seen = fusiond("status", "-W", "--json", cwd=desk.cwd, FUSION_URL=desk.settings.url, **no_daemon).json
    assert seen["workers"][0]["name"] == "box.7"


def test_metrics(desk, no_daemon):
    """--metrics is Prometheus' text format: a part that is away says so, and odd names are escaped."""
    desk.enqueued("send")
    done = fusiond("status", "--metrics", cwd=desk.cwd, FUSION_URL=desk.settings.url, **no_daemon)
    assert done.status == 3
    metrics = samples(done.out)
    assert (metrics["fusiond_daemon_up"], metrics["fusiond_broker_up"]) == ({(): 0}, {(): 1})
    assert metrics["fusiond_queue_jobs"]["default", "queued"] == 1
    assert metrics["fusiond_queue_jobs"]["default", "failed"] == 0
    assert metrics["fusiond_queue_suspended"]["default",] == 0
