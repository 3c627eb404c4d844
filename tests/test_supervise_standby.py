"""The process that stands by for a reload: it becomes a worker, or nothing at all."""

import json
import os
import socket
import subprocess
import sys

import pytest

from fusiond.program import LINK, NAME
from fusiond.supervise.standby import Launch, Standby
from tests.running import alive, until


@pytest.fixture
def foreign():
    return set()


@pytest.fixture
def standby(foreign):
    standby = Standby(foreign)
    yield standby
    standby.dismiss()
    assert not foreign


@pytest.fixture
def link():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(30)
    with ours, theirs:
        yield ours, theirs.fileno()


def worker(link, *words):
    command = (sys.executable, "-P", "-m", "fusiond.worker", *words)
    return Launch(command, link[1], {LINK: str(link[1]), NAME: "worker:main@7"})


def test_it_becomes_the_worker_that_is_told(standby, foreign, link):
    """With the arguments, the variables and the link of that one: here, one whose snapshot is missing."""
    standby.prepare()
    (prepared,) = foreign
    pid = standby.become(worker(link, "--snapshot", "/nowhere.json", "--runtime", "/nowhere", "--group", "main"))
    assert (pid, foreign) == (prepared, set())
    said = json.loads(link[0].recv(4096))
    assert (said["is"], "/nowhere.json" in said["reason"]) == ("failed", True)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 78


def test_only_a_worker_is_started_so_and_only_one(standby, link):
    """Other programs, a second worker, and whatever comes after its death, are started as ever."""
    assert standby.become(worker(link)) is None
    standby.prepare()
    scheduler = Launch((sys.executable, "-P", "-m", "fusiond.schedule"), link[1], {})
    assert standby.become(scheduler) is None
    pid = standby.become(worker(link, "--snapshot", "/nowhere.json", "--runtime", "/nowhere", "--group", "main"))
    assert standby.become(worker(link)) is None
    os.waitpid(pid, 0)


def test_one_that_has_died_is_passed_over(standby, foreign, link):
    """The worker is started without it."""
    standby.prepare()
    (pid,) = foreign
    os.kill(pid, 9)
    until(lambda: not alive(pid))
    assert standby.become(worker(link)) is None


def test_one_that_is_not_needed_leaves_nothing(standby, foreign):
    """No process, and no zombie."""
    standby.prepare()
    (pid,) = foreign
    standby.dismiss()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_it_ends_with_its_daemon():
    """A daemon that is killed in the middle of a reload leaves no process that waits for ever."""
    prepare = "f = set(); s = Standby(f); s.prepare(); print(*f, flush=True); input()"
    script = f"from fusiond.supervise.standby import Standby; {prepare}"
    daemon = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid = int(daemon.stdout.readline())
    assert alive(pid)
    daemon.kill()
    daemon.communicate()
    until(lambda: not alive(pid))
