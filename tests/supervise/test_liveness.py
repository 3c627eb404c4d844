"""Programs that hang, fail for a while or cannot serve, under a real daemon whose programs are stand-ins."""

import inspect
import os
import signal
import subprocess
import sys
import time

import pytest

from fusiond.supervise import tree
from tests.supervise.file import file
from tests.support.fusiond_command import fusiond, samples
from tests.support.running import alive, until

#: s; long enough for a healthy program on a busy machine
SILENT = 3.0


def start(daemon, workers):
    daemon.start(file(workers), environment={"SILENT": str(SILENT)})


def program(daemon, name):
    return daemon.programs()[name]


def test_a_frozen_program_is_killed_with_its_tree_and_started_again(daemon):
    """Also what has left its session: nothing of the old tree lives on beside the new program."""
    start(daemon, "main: {environment: {ACT: parent}}")
    before = daemon.pid("worker:main@1")
    child = int((daemon.state / "child-main").read_text())
    os.kill(before, signal.SIGSTOP)
    until(lambda: not alive(before))
    until(lambda: not alive(child))
    until(lambda: program(daemon, "worker:main@1")["ready"])
    assert program(daemon, "worker:main@1")["pid"] != before
    assert "gave no sign of life for" in daemon.text()
    os.kill(int((daemon.state / "child-main").read_text()), signal.SIGKILL)


def test_any_bytes_may_be_the_name_of_a_process():
    """A job chooses the names of its processes; the supervisor that looks for them goes on."""
    leaf = r"import ctypes, time; ctypes.CDLL(None).prctl(15, b'a) \xff'); print(flush=True); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {leaf!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            (member,) = tree.below(process.pid)
            tree.kill(tree.living(frozenset({member})))
            until(lambda: not tree.living(frozenset({member})))
        finally:
            process.kill()


def test_a_long_line_of_processes_is_found_whole():
    """Longer than Python recurses."""
    depth, limit = 60, sys.getrecursionlimit()
    line = "exec 3>&1; f() { if [ $1 -gt 0 ]; then (f $(($1 - 1))); else echo >&3; sleep 60; fi; :; }; f " + str(depth)
    with subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            sys.setrecursionlimit(len(inspect.stack(0)) + depth // 2)
            members = tree.below(process.pid)
        finally:
            sys.setrecursionlimit(limit)
            tree.kill(tree.below(process.pid))
            process.kill()
    assert len(members) >= depth


@pytest.mark.proof
def test_a_host_that_stood_still_judges_nobody(daemon):
    """All processes were stopped and the supervisor goes on first: it asks again, and nothing is killed."""
    start(daemon, "main: {}")
    before = {name: one["pid"] for name, one in daemon.programs().items()}
    for pid in before.values():
        os.kill(pid, signal.SIGSTOP)
    time.sleep(SILENT / 5 + 0.3)  # a question is open
    daemon.signal(signal.SIGSTOP)
    time.sleep(SILENT)  # how long the host stands still is the subject
    daemon.signal(signal.SIGCONT)
    time.sleep(SILENT / 3)  # it has had its chance to judge
    for pid in before.values():
        os.kill(pid, signal.SIGCONT)
    until(lambda: daemon.status()["ready"])
    assert {name: one["pid"] for name, one in daemon.programs().items()} == before
    assert "each program is asked again" in daemon.text()


def test_status_78_is_final_only_before_the_first_readiness(daemon):
    """What was ready once is tried again for ever, and said; a reload tries at once."""
    start(daemon, "main: {}, bad: {environment: {ACT: fail}}")
    assert program(daemon, "worker:bad@1")["state"] == "FATAL"
    (daemon.state / "broken-main").touch()
    daemon.kill(daemon.pid("worker:main@1"))
    until(lambda: program(daemon, "worker:main@1")["deaths"] >= 3)
    shown = until(lambda: (one := program(daemon, "worker:main@1"))["state"] == "BACKOFF" and one)
    assert shown["reason"] == "shop.missing: no module named 'shop'"
    assert shown["retry_in"] is not None
    assert "shop.missing: no module named 'shop'; it is started again in" in daemon.text()
    (daemon.state / "broken-main").unlink()
    daemon.reload()
    until(lambda: program(daemon, "worker:main@1")["ready"])


def test_a_program_that_cannot_serve_is_not_called_ready(daemon):
    """None of its tasks loads when it starts, for one: it has started, and the log says why it does not serve."""
    start(daemon, "main: {}")
    (daemon.state / "trouble-main").touch()
    daemon.kill(daemon.pid("worker:main@1"))
    until(lambda: "worker:main@1 started after" in daemon.text(), daemon.text)
    assert " s and cannot serve: no child can be forked" in daemon.text()
    assert daemon.text().count("worker:main@1 is ready after") == 1


def test_ready_means_that_every_program_serves_now(daemon):
    """Not while one is down, cannot serve, is frozen or stopped; and it says which one and why."""
    start(daemon, "main: {}, other: {}")
    assert daemon.status()["ready"]
    trouble = daemon.state / "trouble-main"
    trouble.touch()
    status = daemon.status()
    assert (status["ready"], status["settled"]) == (False, True)
    shown = {one["name"]: one for one in status["programs"]}
    assert shown["worker:main@1"]["reason"] == "no child can be forked"
    assert (shown["worker:main@1"]["serves"], shown["worker:other@1"]["serves"]) == (False, True)
    trouble.unlink()
    assert daemon.status()["ready"]
    os.kill(daemon.pid("worker:other@1"), signal.SIGSTOP)
    assert not daemon.status()["ready"]
    until(lambda: daemon.status()["ready"])
    (daemon.state / "broken-main").touch()
    daemon.kill(daemon.pid("worker:main@1"))
    until(lambda: not daemon.status()["ready"])


def test_a_process_whose_number_is_another_ones_now_is_not_killed():
    """A member is a pid and when it started."""
    (own,) = (one for one in tree.below(os.getppid()) if one.pid == os.getpid())
    tree.kill(frozenset({own._replace(started=own.started - 1)}))
    assert tree.living(frozenset({own._replace(started=own.started - 1)})) == frozenset()
    assert own in tree.living(frozenset({own}))


def test_health_status_and_metrics_agree(daemon):
    """All three ask the daemon: status 0 and 1, and the reason; `--live` does not care."""
    start(daemon, "main: {}")

    def probe(*words):
        return fusiond(*words, "-c", daemon.file, cwd=daemon.directory)

    def ready():
        done, shown = probe("health", "--ready"), probe("status").out
        assert (done.status == 0) == (" ready, pid" in shown and "not ready" not in shown)
        assert samples(probe("status", "--metrics").out)["fusiond_ready"][()] == (done.status == 0)
        return done.status == 0, done.out, shown

    assert ready()[:2] == (True, "ready\n")
    (daemon.state / "broken-main").touch()
    daemon.kill(daemon.pid("worker:main@1"))
    until(lambda: program(daemon, "worker:main@1")["deaths"] >= 3)
    is_ready, said, shown = ready()
    assert (is_ready, said) == (False, "not ready: worker:main@1: shop.missing: no module named 'shop'\n")
    assert "last lines of worker:main@1:\n" in shown
    assert "here are the last words" in shown
    until(lambda: "started again in" in probe("status").out)
    assert probe("health", "--live").status == 0
    daemon.stop()
    assert (probe("health", "--live").status, probe("health", "--ready").status) == (3, 3)
