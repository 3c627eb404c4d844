"""`slot_variable` in whole daemons: no two processes ever have the same number at once."""

import contextlib
import fcntl
import os
import random
import signal
import time

import pytest

from fusiond import paths
from tests.support.running import PATIENCE, descendants, until

#: Each child keeps a file locked for its number as long as it lives.
CODE = '''
import fcntl, os, pathlib, subprocess, sys

def claim():
    path = pathlib.Path(__file__).parent / f"number-{os.environ['GPU']}"
    global held
    held = path.open("a")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        path.with_name("twice").touch()

def kept():
    """The open files of this process, and of a program that it executes."""
    own = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.exists(entry.path)]
    code = "import os; print(*(os.path.realpath('/proc/self/fd/' + fd) for fd in os.listdir('/proc/self/fd')))"
    done = subprocess.run([sys.executable, "-c", code], close_fds=False, capture_output=True, text=True)
    return own + done.stdout.split()

def number():
    return int(os.environ["GPU"])
'''
TASKS = (
    "  number: {run: gpus.number, retry: again}\n  kept: {run: gpus.kept}\n"
    "  program: {command: [sh, -c, 'readlink /proc/$$$$/fd/* || true; echo GPU=$GPU'], result: stdout}\n"
)
RETRIES = "retry_policies: {single: {max_attempts: 1}, again: {max_attempts: 99, max_crashes: 98, delay: 10ms}}\n"


def group(more, processes=2):
    return f"main: {{processes: {processes}, slot_variable: GPU, on_start: gpus.claim, {more}}}"


@pytest.fixture
def story(daemon):
    """A daemon that is not started, with a function for `on_start`."""
    (daemon.app / "gpus.py").write_text(CODE)
    return daemon


def body(story, workers):
    return story.body(workers, tasks=TASKS).replace("retry_policies: {single: {max_attempts: 1}}\n", RETRIES)


def running(story, *, dispatchers):
    """The pids of fork servers and children, and those of dispatchers."""
    pids = [each["pid"] for name, each in story.programs().items() if name.startswith("worker:") and each["pid"]]
    return sorted({pid for above in pids for pid, _ in descendants(above)} | set(pids if dispatchers else ()))


def claimed(story):
    return {path.name for path in story.app.iterdir() if path.name.startswith("number-")}


@pytest.mark.parametrize("more", ["isolation: fork", "isolation: process, max_jobs: 5", "isolation: process, nice: 1"])
def test_no_number_is_given_twice(story, more):
    """While children, fork servers and dispatchers are killed, children are renewed, and reloads replace the group."""
    rand = random.Random(more)
    story.start(body(story, group(more)))
    jobs = []
    for turn in range(12):
        jobs += story.client().enqueue_many([("number", [], {})] * 20)
        for pid in rand.sample(workers := running(story, dispatchers=turn >= 6), min(2, len(workers))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if turn % 3 == 2:
            story.reload(body(story, group(f"{more}, environment: {{TURN: {turn}}}")))
        time.sleep(0.05)
    assert {job.result(timeout=PATIENCE) for job in jobs} == {0, 1}
    assert claimed(story) == {"number-0", "number-1"}
    assert not (story.app / "twice").exists()


def test_the_next_generation_gets_each_number_once_the_former_has_left_it(story):
    """A reload is not held up by jobs that run: its jobs begin as the numbers become free."""
    former = "isolation: process, environment: {TURN: 1}"
    story.start(story.body("main: {processes: 2, slot_variable: COLOUR, " + former + "}"))
    first, second = story.hold("first"), story.hold("second")
    story.reload(story.body("main: {processes: 2, slot_variable: COLOUR, isolation: process}"))
    third = story.client().enqueue("colour")
    time.sleep(0.3)
    assert third.status() == "queued"
    story.let_go("first")
    number = first.result(timeout=PATIENCE)
    assert third.result(timeout=PATIENCE) == number
    story.let_go("second")
    assert {number, second.result(timeout=PATIENCE)} == {"0", "1"}


def test_fewer_processes_use_the_lowest_numbers_only(story):
    """What has a number that is not there any more is replaced."""
    story.start(story.body("main: {processes: 3, slot_variable: COLOUR, isolation: process}"))
    held = [story.hold(name) for name in "abc"]
    changed = story.reload(story.body("main: {processes: 1, slot_variable: COLOUR, isolation: process}"))
    assert "replaced" in str(changed)
    for name in "abc":
        story.let_go(name)
    assert {job.result(timeout=PATIENCE) for job in held} == {"0", "1", "2"}
    jobs = story.client().enqueue_many([("colour", [], {})] * 30)
    assert {job.result(timeout=PATIENCE) for job in jobs} == {"0"}


@pytest.mark.parametrize("isolation", ["fork", "process"])
def test_a_number_whose_process_has_not_ended_is_waited_for(story, isolation):
    """Such as that of a process that a kill does not end: whoever has its descriptor keeps the file locked."""
    path = paths.slot_number(story.state, "COLOUR", 0)
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        story.start(story.body(f"main: {{processes: 2, slot_variable: COLOUR, isolation: {isolation}}}"))
        first = story.hold("first")
        waiting = story.client().enqueue("colour")
        until(lambda: "each number of slot_variable belongs to a process" in story.text(), story.text)
        until(lambda: waiting.status() == "queued", story.text)
    assert waiting.result(timeout=PATIENCE) == "0"
    story.let_go("first")
    assert first.result(timeout=PATIENCE) == "1"


def test_a_child_and_its_programs_keep_the_file_locked(story):
    """So the number is not free before they have ended, whatever has died above them."""
    story.start(body(story, group("isolation: process", processes=1)))
    names = story.client().enqueue("kept").result(timeout=PATIENCE)
    names += story.client().enqueue("program").result(timeout=PATIENCE).split()
    assert "GPU=0" in names
    assert [names.count(str(paths.slot_number(story.state, "GPU", number))) for number in (0, 1)] == [3, 0]
