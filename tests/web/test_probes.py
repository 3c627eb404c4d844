"""/metrics, /livez and /readyz: for programs."""

import subprocess
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from fusiond.broker.counters import Measured
from fusiond.broker.records import NewJob, Outcome
from fusiond.web.backend import Backend
from tests.monitoring.test_shipped import PROMTOOL
from tests.support.fusiond_command import samples
from tests.support.status_documents import program_status, refused_reload, status_document

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
READY = status_document(program_status("scheduler"), reloads={"applied": 2}, reload=refused_reload())


@pytest.fixture
def daemon(monkeypatch):
    """What the daemon answers; None: nothing."""
    said = {"status": READY}

    async def status(_backend):
        return said["status"]

    monkeypatch.setattr(Backend, "status", status)
    return said


@pytest.fixture
def counted(desk):
    """A job whose end was counted, of a task whose name needs escaping."""
    desk.run(desk.verbs.enqueue("default", [NewJob("a", "send", b"[[],{}]")]))
    desk.run(desk.verbs.claim("default", 1, dispatcher="d", nonce="n", lease_ms=9999, max_rescues=1))
    outcome = Outcome("a", "n", "finished", payload=b"1")
    desk.run(desk.verbs.settle("default", [outcome], [Measured('of "three"\n\\words', 0.02, 3.0)]))


def test_metrics_of_daemon_queues_and_counters(dashboard, daemon, counted):
    """In the text format, or in OpenMetrics for who asks for it; both say the same."""
    plain = dashboard.get("/metrics")
    assert plain.status == 200
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found = samples(plain.text)
    assert found["fusiond_ready"] == {(): 1}
    assert found["fusiond_config_last_reload_successful"] == {(): 0}
    assert found["fusiond_queue_jobs"]["default", "finished"] == 1
    task = ("default", 'of "three"\n\\words')
    assert found["fusiond_job_outcomes_total"]["finished", *task] == 1
    assert found["fusiond_job_outcomes_total"]["failed", *task] == 0
    buckets = {limit: number for (limit, *_), number in found["fusiond_job_run_seconds_bucket"].items()}
    assert (buckets["0.01"], buckets["0.025"], buckets["+Inf"]) == (0, 1, 1)
    assert found["fusiond_job_wait_seconds_sum"] == {task: 3}
    other = dashboard.get("/metrics", Accept=OPENMETRICS)
    assert other.headers["Content-Type"].startswith("application/openmetrics-text")
    read = {sample.name: sample.value for family in openmetrics(other.text) for sample in family.samples}
    assert read.keys() == found.keys()


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on PATH (Debian: apt install prometheus)")
def test_promtool_has_nothing_against_the_metrics(dashboard, daemon, counted):
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"],
        input=dashboard.get("/metrics").text,
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_metrics_need_the_token_and_probes_none(dashboard, daemon):
    assert dashboard.ask("GET", "/metrics").status == 401
    for path in ("/livez", "/readyz"):
        assert dashboard.ask("GET", path)[::2] == (200, "ok\n")


def test_a_daemon_that_is_not_ready_says_why_to_who_may_know(dashboard, daemon):
    daemon["status"] = READY | {"ready": False, "unready": {"worker:main@1": "it does not serve"}}
    assert dashboard.ask("GET", "/livez").status == 200
    assert dashboard.ask("GET", "/readyz")[::2] == (503, "not ready\n")
    assert dashboard.get("/readyz")[::2] == (503, "not ready: worker:main@1: it does not serve\n")
    daemon["status"] = None
    assert dashboard.ask("GET", "/livez")[::2] == (503, "the daemon does not answer\n")
    assert dashboard.get("/readyz")[::2] == (503, "not ready: the daemon does not answer\n")
    assert samples(dashboard.get("/metrics").text)["fusiond_daemon_up"] == {(): 0}


def test_without_redis_it_is_alive_and_not_ready(open_dashboard, daemon, desk, tmp_path):
    """Even where the daemon has no group that could miss Redis."""
    away = open_dashboard()
    away.config = replace(away.config, broker=replace(desk.settings, url=f"unix://{tmp_path}/nobody"))
    with away:
        assert away.ask("GET", "/livez").status == 200
        reply = away.get("/readyz")
        assert (reply.status, reply.text.startswith("not ready: ")) == (503, True)
        found = samples(away.get("/metrics").text)
        assert (found["fusiond_broker_up"], found["fusiond_daemon_up"]) == ({(): 0}, {(): 1})
        assert "fusiond_queue_jobs" not in found
