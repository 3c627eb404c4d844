"""Groups whose processes run many jobs at once, in whole daemons: reloads, two daemons on one Redis, the status."""

from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, until

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
