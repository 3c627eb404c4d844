"""Commands against a real daemon, as an operator uses them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, Running, descendants, until

SHOP = """
import os
import time

def send(number):
    return number

def sleep(seconds):
    time.sleep(seconds)

def await_file(path):
    while not os.path.exists(path):
        time.sleep(0.01)
"""
FILE = """
defaults: {workers: {directory: app}}
tasks:
  send: {run: shop.send}
  sleep: {run: shop.sleep, timeout: 1h}
  await_file: {run: shop.await_file, timeout: 1h}
workers: {main: {queues: [default], processes: 2}}
"""


@pytest.fixture
def daemon():
    running = Running()
    (running.app / "shop.py").write_text(SHOP)
    try:
        yield running.start(FILE)
    finally:
        running.close()


def test_reload_takes_no_other_file_than_the_daemons(daemon):
    """Another valid file would be passed over in silence: status 2, and which it runs. A link to it is the same."""
    other, link = daemon.directory / "other.yaml", daemon.directory / "link.yaml"
    other.write_text(daemon.file.read_text() + "cron: {}\n")
    link.symlink_to(daemon.file)
    done = fusiond("reload", "-c", other, cwd=daemon.directory)
    assert (done.status, done.out) == (2, "")
    assert f"runs {daemon.file}, not {other}" in done.err
    for same in ("fusion.yaml", link, daemon.directory / "app" / ".." / "fusion.yaml"):
        assert fusiond("reload", "-c", same, cwd=daemon.directory).status == 0
    assert daemon.status()["reloads"]["unchanged"] == 3


def test_a_drained_host_claims_nothing_until_that_is_undone(daemon):
    """Running jobs go on; who comes after a kill or a restart of the group claims nothing either."""

    def run(*words):
        return fusiond(*words, cwd=daemon.directory)

    def worker():
        gone = {"name": "", "pid": None, "ready": False, "busy": None}
        programs = daemon.status()["programs"]
        return next((each for each in programs if each["part"] == "worker:main" and each["ready"]), gone)

    until(lambda: run("enqueue", "send", "7", "--wait", "20").out == '"7"\n')
    running = run("enqueue", "sleep", "seconds:=3600").out.strip()
    until(lambda: run("job", "list", "--status", "started", "--json").json)
    assert run("drain").status == 0
    waiting = run("enqueue", "send", "8").out.strip()
    until(lambda: worker()["busy"] == 1)
    done = run("drain", "--wait", "0.1", "--json")
    assert (done.status, done.json) == (124, {"drained": True, "running": 1, "waits_for_redis": []})
    until(lambda: [each["state"] for each in run("status", "-W", "--json").json["workers"]] == ["draining"])
    run("job", "cancel", running)
    assert run("drain", "--wait").out.endswith("; no job runs\n")

    first = worker()["pid"]
    daemon.kill(first)
    until(lambda: worker()["pid"] not in (None, first) and worker()["busy"] == 0)
    assert "1 group replaced" in run("group", "restart", "main").out
    until(lambda: (worker()["name"], worker()["busy"]) == ("worker:main@2", 0))
    assert run("job", "show", waiting, "--json").json[0]["status"] == "queued"
    assert 'fusiond_drained_queue{queue="default"} 1.0\n' in run("status", "--metrics").out
    assert run("drain", "--undo").out == "the groups of this host claim again\n"
    assert "fusiond_drained_queue" not in run("status", "--metrics").out
    until(lambda: run("job", "show", waiting, "--json").json[0]["status"] == "finished")
    # Its line is there a moment after its end.
    until(lambda: waiting.rpartition("/")[2] in run("group", "logs", "main", "-n", "2").out)
    # The generation before began, and has ended; the new one is asked for more without it.
    said = run("group", "logs", "main", "-n", "999").out
    assert said.index("worker:main@1") < said.index("worker:main@2")
    assert [each["name"] for each in run("group", "list", "--json").json] == ["worker:main@2"]
    assert run("group", "logs", "mian").err.startswith("fusiond: no group 'mian'")


@pytest.mark.proof
def test_a_drained_host_says_what_it_knows_while_redis_is_away(daemon):
    """The job has ended, so none runs; but its outcome is not stored."""

    def run(*words):
        return fusiond(*words, cwd=daemon.directory)

    def drain():
        return run("drain", "--wait", "0.1", "--json")

    mark = daemon.directory / "mark"
    job = run("enqueue", "await_file", str(mark)).out.strip()
    until(lambda: run("job", "list", "--status", "started", "--json").json)
    server = [pid for pid, _ in descendants(daemon.programs()["redis"]["pid"])]
    for pid in server:
        os.kill(pid, signal.SIGSTOP)
    try:
        mark.touch()
        waits = {"drained": True, "running": 0, "waits_for_redis": ["worker:main@1"]}
        until(lambda: drain().json == waits)
        assert drain().status == 124
        sentence = "; no job runs, but Redis has not answered worker:main@1 yet: an outcome may not be stored"
        assert sentence in run("drain").out
    finally:
        for pid in server:
            os.kill(pid, signal.SIGCONT)
    assert run("drain", "--wait").out.endswith("; no job runs\n")
    # On a slow machine the lease may have expired meanwhile; then the job runs again, and ends at once.
    assert run("drain", "--undo").status == 0
    until(lambda: run("job", "show", job, "--json").json[0]["status"] == "finished")


def test_watch_shows_the_change(daemon):
    """--watch prints again and again until it is interrupted, and is then quiet."""
    command = [sys.executable, "-m", "fusiond.cli", "status", "--watch", "-c", str(daemon.file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        seen, deadline = 0, time.monotonic() + PATIENCE
        while seen < 2:
            assert time.monotonic() < deadline
            seen += process.stdout.readline().startswith("daemon")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, "")
