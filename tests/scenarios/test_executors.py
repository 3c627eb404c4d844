"""Groups whose processes run many jobs at once, in whole daemons: reloads, two daemons on one Redis, the status."""

import os
import signal

import pytest

from fusiond.client import Client
from fusiond.job import JobStatus
from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, Running, alive, until

LOOPED = "main: {processes: 1, isolation: process, executor: asyncio, concurrency: 4"
TASKS = """
import asyncio, os

async def nap(word, log, seconds=0.0):
    note(word, log)
    await asyncio.sleep(seconds)
    note(word, log)
    return word

def note(word, log):
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{word} {os.getpid()} {os.getppid()}\\n".encode())
    os.close(fd)

def refuse():
    raise OSError("no database here")
"""


def test_a_reload_to_another_executor_lets_jobs_end(daemon):
    """The group is replaced: what runs in the old one ends there, the new one uses the places that are left."""
    daemon.start(daemon.body("main: {processes: 2, isolation: process}"))
    held = daemon.hold("a")
    daemon.enqueue_notes(40, seconds=0.02)
    found = daemon.reload(daemon.body(LOOPED + "}"))
    assert found["result"] == "applied"
    daemon.enqueue_notes(40, seconds=0.02)
    assert daemon.reload(daemon.body(LOOPED.replace("4", "8") + ", max_age: 1h}"))["result"] == "applied"
    daemon.enqueue_notes(40, seconds=0.02)
    daemon.assert_each_ran_once()
    daemon.let_go("a")
    held.result(timeout=PATIENCE)


def test_max_age_is_taken_over_in_place(daemon):
    daemon.start(daemon.body(LOOPED + "}"))
    pids = {name: program["pid"] for name, program in daemon.programs().items()}
    assert daemon.reload(daemon.body(LOOPED + ", max_age: 1h, max_jobs: 5}"))["result"] == "applied"
    assert {name: program["pid"] for name, program in daemon.programs().items()} == pids
    daemon.enqueue_notes(30, seconds=0.01)
    daemon.assert_each_ran_once()
    assert max(_by_pid(daemon.runs).values()) <= 5


def test_a_reload_whose_on_start_fails_is_refused(daemon):
    """The answer names function and exception, the traceback is in the log, the group that there was goes on."""
    (daemon.app / "naps.py").write_text(TASKS)
    daemon.start(daemon.body(LOOPED + "}"))
    found = daemon.reload(daemon.body(LOOPED + ", on_start: naps.refuse}"))
    assert found["result"] == "refused"
    assert "a child ended with status 1 at its start; on_start: naps.refuse: OSError: no database here" in str(found)
    until(lambda: "no database here" in daemon.text(), daemon.text)
    daemon.enqueue_notes(5)
    daemon.assert_each_ran_once()


def test_status_counts_jobs_of_slots(daemon):
    """Three jobs in one process of four."""
    daemon.start(daemon.body(LOOPED + "}"))
    jobs = [daemon.hold(name) for name in "abc"]
    until(lambda: "3/4" in fusiond("status", "-W", cwd=daemon.directory).out, daemon.text)
    for name in "abc":
        daemon.let_go(name)
    for job in jobs:
        job.result(timeout=PATIENCE)


def _by_pid(path):
    pids = [line.split()[1] for line in path.read_text().splitlines()]
    return {pid: pids.count(pid) for pid in pids}


class Daemon(Running):
    """A daemon on a given Redis, with a group of each executor."""

    def __init__(self, url):
        super().__init__()
        (self.app / "naps.py").write_text(TASKS)
        keys = f"isolation: process, concurrency: 5, directory: {self.app}"
        self.write(
            f"broker: {{url: '{url}'}}\n"
            "retry_policies: {hardy: {max_crashes: 100}}\ntasks: {nap: {run: naps.nap, retry: hardy}}\n"
            f"workers:\n  looped: {{executor: asyncio, {keys}}}\n  threaded: {{executor: thread, {keys}}}\n"
        )
        self.start()


@pytest.fixture
def pair(redis_server):
    """Two daemons on one Redis, and a client."""
    url = Running.broker_url or redis_server.url
    daemons = [Daemon(url) for _ in range(2)]
    yield daemons, Client(url)
    for daemon in daemons:
        daemon.close()


@pytest.mark.proof
def test_another_daemon_ends_what_a_killed_one_has_begun(pair, tmp_path):
    """Nothing is lost with a dispatcher whose children run many jobs; the other daemon takes the jobs back."""
    daemons, client = pair
    log = str(tmp_path / "log")
    jobs = client.enqueue_many([("nap", [str(number), log, 0.5]) for number in range(60)])
    first = until(lambda: _dispatchers(daemons[0]) & _of_jobs(log), daemons[0].text)
    for pid in first:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(map(alive, first)))
    assert [job.result(timeout=60) for job in jobs] == [str(number) for number in range(60)]
    assert {job.status() for job in jobs} == {JobStatus.FINISHED}


def _dispatchers(daemon):
    return {program["pid"] for name, program in daemon.programs().items() if name.startswith("worker")}


def _of_jobs(log):
    """The dispatchers of the jobs that have begun."""
    try:
        servers = {int(line.split()[2]) for line in open(log)}  # noqa: PTH123, SIM115
    except FileNotFoundError:
        return set()
    return {_parent(pid) for pid in servers}


def _parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0
