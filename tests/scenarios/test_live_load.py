"""A daemon that records its load: each arrival and each attempt, what belongs together, and nothing else of a job."""

import json
import stat

import pytest

from tests.support.fusiond_command import fusiond
from tests.support.running import until

CODE = """
import os, pathlib, time

class NotReadyError(Exception):
    pass

def ok(user, gate=None):
    while gate and not pathlib.Path(gate).exists():
        time.sleep(0.01)
    return "result of " + user

def bad():
    raise ConnectionError("message of an error")

def die():
    os._exit(9)

def late():
    time.sleep(60)

def stuck():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

def wait(mark):
    if not pathlib.Path(mark).exists():
        pathlib.Path(mark).touch()
        raise NotReadyError
"""
FILE = """
events: {payload: true, sinks: {load: {kind: load, path: {load}}}}
retry_policies: {two: {max_attempts: 2, max_crashes: 1, delay: 10ms, snooze_on: [jobs.NotReadyError]}}
queues: {fair: {fair_by: [kwargs.user]}}
defaults: {tasks: {retry: two}}
tasks:
  ok: {run: jobs.ok, limit: {by: [kwargs.user], max_running: 9}, secret: [kwargs.user]}
  fair: {run: jobs.ok, queue: fair}
  bad: {run: jobs.bad}
  die: {run: jobs.die}
  late: {run: jobs.late, retry: none, timeout: 200ms}
  stuck: {run: jobs.stuck, retry: none, timeout: {soft: 1s, hard: 1200ms}}
  wait: {run: jobs.wait}
  step: {run: jobs.bad, retry: none}
  tick: {run: jobs.bad, retry: none}
flows: {pair: {steps: {one: {task: step}}}}
cron: {often: {task: tick, every: 1s}}
workers: {main: {queues: '*', directory: '{app}', processes: 4}}
"""


class Recording:
    """A daemon, and what it has recorded."""

    def __init__(self, daemons, directory):
        self.path, self.client, self.url = directory / "load.jsonl", daemons.client(), daemons.url
        self.file = FILE.replace("{load}", str(self.path))
        self.daemon = daemons.start(self.file, CODE)

    def lines(self):
        """
        Of all files, without their first lines. The last one of a file may be in the writing.

        A sink that was killed before it noted how far it is writes the same lines again.
        """
        files = [file for file in (self.path.with_suffix(".1"), self.path) if file.exists()]
        lines = dict.fromkeys(line for file in files for line in file.read_text().split("\n")[1:-1])
        return [json.loads(line) for line in lines]

    def arrivals(self, task):
        return [line for line in self.lines() if line.get("task") == task]

    def outcomes(self, task, count):
        """What is said of the attempts of its jobs, once there are so many: number, outcome, and what more."""

        def found():
            jobs = {line["job"] for line in self.arrivals(task)}
            return [line for line in self.lines() if line["job"] in jobs and "n" in line]

        lines = until(lambda: len(found()) == count and found(), found)
        assert all(line["took"] >= 0 for line in lines)
        return [[each for name, each in line.items() if name not in ("job", "took", "delay")] for line in lines]


@pytest.fixture
def recording(daemons, tmp_path):
    return Recording(daemons, tmp_path)


def test_each_attempt_has_a_line(recording, tmp_path):
    """Its number, its time and its outcome, whatever ended it; of a crash, whether it was the last one."""
    for task in ("ok", "bad", "die", "late", "stuck"):
        recording.client.enqueue(task, **({"user": "ada"} if task == "ok" else {}))
    recording.client.enqueue("wait", str(tmp_path / "mark"))
    assert recording.outcomes("ok", 1) == [[1, "finished"]]
    assert recording.outcomes("bad", 2) == [[1, "retry"], [2, "failed"]]
    assert recording.outcomes("die", 2) == [[1, "crashed"], [2, "crashed", True]]
    assert recording.outcomes("late", 1) == [[1, "failed"]]
    assert recording.outcomes("stuck", 1) == [[1, "timeout", True]]
    assert recording.outcomes("wait", 2) == [[1, "snoozed"], [1, "finished"]]
    snoozed = next(line for line in recording.lines() if line.get("outcome") == "snoozed")
    assert snoozed["delay"] == pytest.approx(0.01, rel=0.5)
    stuck = next(line for line in recording.lines() if line.get("outcome") == "timeout")
    assert 1.2 <= stuck["took"] < 30


def test_each_arrival_says_how_it_came(recording, tmp_path):
    """Its delay, that it waits for others, or that it is of an entry or a flow; a cancel has a line if it ran."""
    parent = recording.client.enqueue("ok", user="ada", gate=str(tmp_path / "gate"))
    recording.client.options(after=[parent]).enqueue("bad")
    recording.client.enqueue_in("50ms", "die")
    fusiond("flow", "run", "pair", "--url", recording.url, cwd=tmp_path)
    until(lambda: parent.status() == "started", recording.lines)
    assert parent.cancel()
    assert recording.outcomes("ok", 1) == [[1, "canceled"]]
    until(lambda: recording.arrivals("step") and recording.arrivals("tick"), recording.lines)
    assert recording.arrivals("bad")[0]["after"]
    assert recording.arrivals("die")[0]["delay"] == 0.05
    assert [line.get("flow") for line in recording.arrivals("step")] == [True]
    assert {line.get("cron") for line in recording.arrivals("tick")} == {True}
    assert not recording.arrivals("ok")[0].keys() & {"delay", "after", "cron", "flow"}
    assert abs(recording.arrivals("step")[0]["at"] - recording.arrivals("die")[0]["at"]) < 60


def test_names_hold_over_a_kill_and_a_rotation_and_tell_nothing(recording, tmp_path):
    """Jobs with equal keys have equal names, those of another task others; no value or id of a job is in the files."""
    gate = tmp_path / "gate"
    jobs = [recording.client.enqueue("ok", user="a-customer", gate=str(gate))]
    until(lambda: recording.arrivals("ok"), recording.lines)
    recording.path.rename(recording.path.with_suffix(".1"))
    recording.daemon.kill(recording.daemon.pid("sink:load"))
    gate.touch()
    jobs += [recording.client.enqueue(task, user=user) for task in ("ok", "fair") for user in ("a-customer", "b")]
    assert recording.outcomes("ok", 3) == [[1, "finished"]] * 3
    assert recording.outcomes("fair", 2) == [[1, "finished"]] * 2
    by = [line["by"] for line in recording.arrivals("ok")]
    fair = [line["fair_by"] for line in recording.arrivals("fair")]
    assert by[0] == by[1] != by[2]
    assert len({*by, *fair}) == 4
    for file in (recording.path, recording.path.with_suffix(".1")):
        first = json.loads(file.read_text().partition("\n")[0])
        assert (first["recording"], first["from"]) == (1, "events")
        assert not any(said in file.read_text() for said in ("customer", "result of", *(job.id for job in jobs)))
    secret = recording.path.with_name("load.jsonl.secret")
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
