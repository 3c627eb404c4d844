"""`fusiond record`: a coarse load of the counters."""

import json
import time

import pytest

from fusiond.broker.counters import LIMITS

HOUR = 3600


@pytest.fixture
def count(desk):
    return desk.count


def test_each_task_and_hour_is_a_line(desk, count):
    """Over all queues; percentiles lie inside of their bucket. What has not run borrows the times of other hours."""
    began = count(5, "send", f=60, x=6, R3=60)
    count(5, "send", queue="reports", x=6, R5=40)
    count(2, "send", c=4)
    count(2, "report", f=1, R16=1)
    count(2, "canceled", c=9)
    count(2, "(other)", f=9, R0=9)
    done = desk.fusiond("record", "--from", "counters")
    first, *lines = map(json.loads, done.out.splitlines())
    assert first == {
        "recording": 1, "from": "counters", "coarse": True,
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
    }  # fmt: skip
    takes = {"p50": "46ms", "p95": "231ms", "p99": "246ms"}
    assert lines == [
        {"task": "send", "rate": "72/h", "from": "0s", "for": "1h", "takes": takes, "fails": 0.1667},
        {"task": "report", "rate": "1/h", "from": "3h", "for": "1h", "takes": dict.fromkeys(takes, "2h"), "fails": 0.0},
        {"task": "send", "rate": "4/h", "from": "3h", "for": "1h", "takes": takes, "fails": 0.0},
    ]
    assert LIMITS[-1] == 2 * HOUR
    assert "coarse" in done.err
    assert len(desk.fusiond("record", "--from", "counters", "--since", "3h").out.splitlines()) == 2


def test_the_hour_that_runs_counts_for_its_time(desk, count, monkeypatch):
    """A rate is what arrives in an hour, though only a part of it is over."""
    now = count(0, "send", f=30, R0=30) + 600
    monkeypatch.setattr(time, "time", lambda: now)
    line = json.loads(desk.fusiond("record", "--from", "counters").out.splitlines()[1])
    assert (line["rate"], line["for"]) == ("180/h", "10m")


def test_a_file_that_is_there_stays(desk, count, tmp_path):
    """It may be what a sink records."""
    count(1, "send", f=1, R0=1)
    path = tmp_path / "load.jsonl"
    assert desk.fusiond("record", "--from", "counters", "-o", str(path)).status == 0
    text = path.read_text()
    assert text.count("\n") == 2
    again = desk.fusiond("record", "--from", "counters", "-o", str(path))
    assert (again.status, again.err) == (1, f"fusiond: {path}: File exists; name a new file\n")
    assert path.read_text() == text


def test_what_it_cannot_make_is_said(desk):
    """Without counters, and without a word of what the load is made of: the remedy is the sink."""
    desk.count(1, "canceled", c=9)
    nothing = desk.fusiond("record", "--from", "counters")
    assert (nothing.status, "metrics: true" in nothing.err) == (1, True)
    which = desk.fusiond("record")
    assert which.status == 2
    assert "--from counters" in which.err
    assert "kind: load" in which.err
