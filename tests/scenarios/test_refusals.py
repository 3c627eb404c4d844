"""What cannot run is refused before the commit: the old generation serves on, whoever asked is told, a start works."""

import sys
import threading
import time

import pytest

from tests.support.cases import few
from tests.support.fusiond_command import fusiond, samples
from tests.support.running import PATIENCE, until

SYNTAX = "def task(:\n"
#: its children end as they are forked; the module itself imports
DYING = """
import os
os.register_at_fork(after_in_child=lambda: os._exit(3))
def task(): ...
"""
#: what the file says instead, the source of `broken.task`, and what the refusal names
CASES = {
    "a task module with a syntax error": ("main: {processes: 1}", SYNTAX, "broken.py"),
    "a user that is missing": ("main: {processes: 1, user: nobody-of-that-name}", None, "nobody-of-that-name"),
    "an interpreter that is missing": ("main: {processes: 1, python: /nowhere/python3}", None, "/nowhere/python3"),
    "an interpreter that is none": ("main: {processes: 1, python: /bin/false}", None, "status 1"),
    "children that die at start": ("main: {processes: 1}", DYING, "a child ended with status 3 at its start"),
    "forks that die at start": ("main: {processes: 1, isolation: fork}", DYING, "a child ended with status 3"),
}


class Producer(threading.Thread):
    """Asks for a result, again and again, and keeps the longest time that one took."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self._client, self._ended = daemon.client(), threading.Event()
        self.results, self.longest, self.failure = 0, 0.0, None

    def run(self):
        try:
            while not self._ended.wait(0.02):
                began = time.monotonic()
                assert self._client.enqueue("colour").result(timeout=PATIENCE) == "red"
                self.longest = max(self.longest, time.monotonic() - began)
                self.results += 1
        except Exception as error:  # the test's own thread reports it
            self.failure = error

    def end(self):
        self._ended.set()
        self.join()
        assert self.failure is None, self.failure


@few("case", CASES, 2)
def test_refused_before_the_commit(daemon, case):
    """No gap for a producer, status 1 with the reason, the same pids; and a start from what was accepted works."""
    workers, source, named = CASES[case]
    good = "main: {processes: 1, environment: {COLOUR: red}}"
    daemon.start(daemon.body(good))
    before = {name: program["pid"] for name, program in daemon.programs().items()}
    if source is not None:
        (daemon.app / "broken.py").write_text(source)
    producer = Producer(daemon)
    producer.start()
    until(lambda: producer.results or producer.failure)

    broken = "  broken: {run: broken.task}\n" if source is not None else ""
    daemon.write(daemon.body(workers.replace("}", ", environment: {COLOUR: blue}}"), tasks=broken))
    own = {"RUNTIME_DIRECTORY": str(daemon.runtime), "STATE_DIRECTORY": str(daemon.state)}
    done = fusiond("reload", "-c", str(daemon.file), cwd=daemon.directory, **own)
    assert (done.status, named in done.out + done.err) == (1, True), done

    served = producer.results
    until(lambda: producer.results > served or producer.failure)
    producer.end()
    # A claim, a run and a reply take milliseconds; the preflight beside takes what processors there are.
    assert producer.longest < 10
    status = daemon.status()
    assert (status["generation"], status["reload"]["result"]) == (1, "refused")
    assert named in status["reload"]["reason"]
    assert "refused" in fusiond("status", "-c", str(daemon.file), cwd=daemon.directory, **own).out
    metrics = samples(fusiond("status", "--metrics", "-c", str(daemon.file), cwd=daemon.directory, **own).out)
    assert metrics["fusiond_config_last_reload_successful"] == {(): 0}
    assert metrics["fusiond_config_reloads_total"]["refused",] >= 1
    assert metrics["fusiond_config_last_reload_timestamp_seconds"][()] == pytest.approx(time.time(), abs=600)
    until(lambda: {name: program["pid"] for name, program in daemon.programs().items()} == before, daemon.text)

    assert daemon.stop() == 0
    daemon.start(None, "--last-good", environment=own)
    assert daemon.client().enqueue("colour").result(timeout=PATIENCE) == "red"


def test_a_task_that_does_not_load_is_named_with_its_place_in_the_file(daemon):
    """Whatever is wrong with it: file, line and column of its `run`, for people and for programs."""
    daemon.start(daemon.body("main: {}"))
    daemon.write(daemon.body("main: {environment: {COLOUR: blue}}", tasks="  gone:\n    run: nowhere.at_all\n"))
    line = 1 + daemon.file.read_text().splitlines().index("    run: nowhere.at_all")
    outcome = daemon.reload()
    assert outcome["result"] == "refused"
    assert f"\n{daemon.file}:{line}:10: task 'gone' does not load, see above" in outcome["reason"]
    (problem,) = outcome["problems"]
    assert (problem["file"], problem["line"], problem["column"]) == (str(daemon.file), line, 10)


def test_a_wrong_path_is_refused_with_a_remedy_and_no_empty_promise(daemon):
    """The refusal says which path may be meant. A group on trial ends with its file, so nothing is tried again."""
    daemon.start(daemon.body("main: {queues: [default]}"))
    own = "main: {queues: [default]}\n  quickies: {queues: [quick]}"
    for path, remedy in {
        "storeis.colour": "did you mean 'stories.colour'?",
        "nowhere.at_all": (
            f"correct the path, or `directory`, which is {daemon.app}, or `python`, which is {sys.executable}"
        ),
    }.items():
        tasks = f"  quick: {{run: {path}, queue: quick}}\n"
        reason = daemon.reload(daemon.body(own, tasks=tasks, more="queues: {quick: {}}\n"))["reason"]
        assert f"no module named '{path.partition('.')[0]}'; {remedy} (task quick)" in reason
    assert "tried again" not in daemon.text()
    assert "trying again" not in daemon.text()


@pytest.mark.parametrize("source", [SYNTAX, DYING], ids=["syntax error", "dying children"])
def test_a_start_with_a_group_that_cannot_run_serves_the_others(daemon, source):
    """A start has nothing to go back to: what a group cannot run is its own trouble."""
    (daemon.app / "broken.py").write_text(source)
    tasks = "  broken: {run: broken.task, queue: b}\n"
    daemon.start(daemon.body("main: {queues: [default]}\n  other: {queues: [b]}\nqueues: {b: {}}", tasks=tasks))
    assert daemon.client().enqueue("colour").result(timeout=PATIENCE) is None
    assert ("its tasks are tried again until one loads" in daemon.text()) == (source == SYNTAX)
