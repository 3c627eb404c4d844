"""`fusiond ps`, `stats`, and the rates of `queue list`."""

import json
import time

import pytest

from fusiond.broker.call import as_is, plain


@pytest.fixture
def count(desk):
    return desk.count


@pytest.fixture
def working(desk):
    """A worker that says what it runs."""

    def say(*jobs):
        fields = {"group": "main", "queues": "default", "state": "busy", "phase": "serving", "answers": 1 << 30}
        desk.run(desk.verbs.announce("web1.7", {**fields, "jobs": json.dumps(jobs)}))

    return say


def test_ps_names_what_runs_for_longer_than_usual(desk, working, count):
    """The longest first; of a task that has hardly run nobody knows what is usual."""
    working(
        {"job": "default/a", "task": "send", "ms": 400},
        {"job": "default/b", "task": "send", "ms": 60_000, "share": 0.5, "message": "half"},
        {"job": "default/c", "task": "report", "ms": 5000},
    )
    count(30, "send", f=20, R0=11, R9=9)
    count(0, "report", f=19, R0=19)
    jobs = desk.fusiond("ps", "--json").json
    assert [(job["job"], job["usual_s"]) for job in jobs] == [
        ("default/b", 0.005),
        ("default/c", None),
        ("default/a", 0.005),
    ]
    lines = desk.fusiond("ps", "--task", "send").out.splitlines()
    assert lines[1].split() == ["default/b", "send", "1m", "5ms", "(12,000", "×)", "web1.7", "50%", "half"]
    assert len(lines) == 3


def test_stats_of_all_tasks_and_of_the_day_before(desk, count):
    """How many ended, how many failed, and bounds of the times."""
    count(1, "send", f=90, x=10, R3=60, R5=40, W0=100)
    count(25, "send", f=40, R3=40, W1=40)
    now, before = desk.fusiond("stats", "--compare", "24h", "--json").json
    assert (now["name"], now["span"], now["finished"], now["failed"]) == ("send", "now", 90, 10)
    assert (now["run_p50_s"], now["run_p95_s"], now["wait_p95_s"]) == (0.05, 0.25, 0.005)
    assert (before["span"], before["finished"]) == ("before", 40)
    line = desk.fusiond("stats").out.splitlines()[1].split()
    assert line[:4] == ["send", "100", "10", "(10.0%)"]


def test_stats_of_one_task_by_the_hour(desk, count):
    """Or of one queue; a name that is none is refused."""
    count(1, "send", f=5)
    count(2, "send", f=7)
    count(2, "report", queue="reports", f=9)
    assert [row["finished"] for row in desk.fusiond("stats", "task", "send", "--json").json] == [7, 5]
    assert [row["finished"] for row in desk.fusiond("stats", "queue", "reports", "--json").json] == [9]
    assert {row["name"] for row in desk.fusiond("stats", "queue", "--json").json} == {"default", "reports"}
    assert "no task 'sned'" in desk.fusiond("stats", "task", "sned").err


def test_queue_list_tells_how_fast_jobs_come_and_go(desk):
    """And when the queue is empty."""
    for _ in range(3):
        desk.enqueued("send")
    minute = int(time.time()) // 60
    key = desk.verbs.keys.of("default", "metrics", "minutes")
    desk.run(plain(as_is, "HSET", key, f"i {minute - 2}", 3, f"f {minute - 2}", 600))
    found = {queue["name"]: queue for queue in desk.fusiond("queue", "list", "--json").json}["default"]
    assert found["in_per_s"] == 0
    assert 600 / 300 < found["out_per_s"] < 600 / 119
    assert found["empty_in_s"] == pytest.approx(3 / found["out_per_s"])
    assert "ms" in desk.fusiond("queue", "list").out.splitlines()[1]
