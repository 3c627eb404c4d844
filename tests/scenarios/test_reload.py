"""Reload with real workers and a real broker: no job is lost, none fails, what did not change keeps its pids."""

import pytest

from fusiond.errors import ResultTimeout
from tests.support.running import PATIENCE, until


def test_grow_and_shrink_under_load(daemon):
    """More processes, then fewer, while jobs run: the dispatcher keeps its pid, and each job runs once."""
    daemon.start(daemon.body("main: {processes: 1}"))
    before = daemon.pid("worker:main@1")
    daemon.enqueue_notes(150, seconds=0.01)
    for processes in (4, 1, 2):
        assert daemon.reload(daemon.body(f"main: {{processes: {processes}}}"))["result"] != "refused"
    daemon.assert_each_ran_once()
    assert daemon.pid("worker:main@1") == before


def test_replace_under_load(daemon):
    """A new environment: new processes, old jobs finished by the old ones, each job once."""
    daemon.start(daemon.body("main: {processes: 2, environment: {COLOUR: red}}"))
    daemon.enqueue_notes(100, seconds=0.02)
    outcome = daemon.reload(daemon.body("main: {processes: 2, environment: {COLOUR: blue}}"))
    assert outcome["result"] != "refused"
    assert daemon.client().enqueue("colour").result(timeout=PATIENCE) == "blue"
    daemon.assert_each_ran_once()
    until(lambda: "worker:main@1" not in daemon.names(), daemon.text)


def test_a_running_job_ends_in_its_old_group(daemon):
    """A drain has no deadline: the job goes on as it began, the new group serves meanwhile."""
    daemon.start(daemon.body("main: {processes: 2, drain_timeout: 1s, environment: {COLOUR: red}}"))
    held = daemon.hold("a")
    daemon.reload(daemon.body("main: {processes: 2, drain_timeout: 1s, environment: {COLOUR: blue}}"))
    assert daemon.client().enqueue("colour").result(timeout=PATIENCE) == "blue"
    assert daemon.programs()["worker:main@1"]["draining"]
    daemon.let_go("a")
    assert held.result(timeout=PATIENCE) == "red"
    until(lambda: "worker:main@1" not in daemon.names(), daemon.text)


def test_old_and_new_together_run_no_more_than_the_group_may(daemon):
    """While the old one's job occupies the only slot, the new one claims nothing."""
    daemon.start(daemon.body("main: {processes: 1, environment: {COLOUR: red}}"))
    daemon.hold("a")
    daemon.reload(daemon.body("main: {processes: 1, environment: {COLOUR: blue}}"))
    until(lambda: daemon.programs()["worker:main@1"]["busy"] == 1, daemon.text)
    waiting = daemon.client().enqueue("colour")
    with pytest.raises(ResultTimeout):
        waiting.result(timeout=0.5)
    daemon.let_go("a")
    assert waiting.result(timeout=PATIENCE) == "blue"
