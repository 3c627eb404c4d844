"""Reload with real workers and a real broker: no job is lost, none fails, what did not change keeps its pids."""

import signal

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


@pytest.mark.proof
def test_add_and_remove_under_load(daemon):
    """A group comes and goes beside one that stays."""
    daemon.start(daemon.body("main: {processes: 1}"))
    before = daemon.pid("worker:main@1")
    daemon.enqueue_notes(150, seconds=0.01)
    assert daemon.reload(daemon.body("main: {processes: 1}\n  more: {processes: 2}"))["result"] != "refused"
    assert daemon.programs()["worker:more@2"]["ready"]
    assert daemon.reload(daemon.body("main: {processes: 1}"))["result"] != "refused"
    daemon.assert_each_ran_once()
    until(lambda: "worker:more@2" not in daemon.names(), daemon.text)
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


def test_there_and_back_while_draining(daemon):
    """Red, blue, red while jobs of the first two still run: each finishes where it began, and one group is left."""
    red, blue = (daemon.body(f"main: {{processes: 2, environment: {{COLOUR: {c}}}}}") for c in ("red", "blue"))
    daemon.start(red)
    first = daemon.hold("a")
    daemon.reload(blue)
    second = daemon.hold("b")
    daemon.reload(red)
    daemon.let_go("a")
    daemon.let_go("b")
    assert (first.result(timeout=PATIENCE), second.result(timeout=PATIENCE)) == ("red", "blue")
    assert daemon.client().enqueue("colour").result(timeout=PATIENCE) == "red"
    until(lambda: daemon.names() == {*daemon.always, "worker:main@3"}, daemon.names)


def test_an_invalid_file_and_a_task_that_does_not_import_change_nothing(daemon):
    """Both are refused with the reason, at each pid the daemon is as it was, and jobs run on."""
    good = daemon.body("main: {processes: 2}")
    daemon.start(good)
    before = {name: program["pid"] for name, program in daemon.programs().items()}
    daemon.enqueue_notes(50, seconds=0.01)
    assert daemon.reload(good.replace("processes", "procesess"))["result"] == "refused"
    outcome = daemon.reload(good.replace("stories.colour", "stories.colours"))
    assert outcome["result"] == "refused"
    assert "colours" in outcome["reason"]
    daemon.assert_each_ran_once()
    until(lambda: {name: program["pid"] for name, program in daemon.programs().items()} == before, daemon.text)


def test_a_deleted_file_changes_nothing(daemon):
    """Jobs run on; the file's return is taken in."""
    daemon.start(daemon.body("main: {processes: 2}"))
    daemon.file.unlink()
    assert daemon.reload()["result"] == "refused"
    daemon.enqueue_notes(20)
    daemon.assert_each_ran_once()
    daemon.write(daemon.body("main: {processes: 3}"))
    until(lambda: daemon.status()["generation"] == 2, daemon.text)


def test_a_storm_of_signals_under_load(daemon):
    """100 SIGHUPs and five contents: no job is lost, the last content wins."""
    daemon.start(daemon.body("main: {processes: 2}"))
    daemon.enqueue_notes(100, seconds=0.01)
    for number in range(100):
        if number % 20 == 0:
            daemon.write(daemon.body(f"main: {{processes: 2, environment: {{COLOUR: c{number}}}}}"))
        daemon.signal(signal.SIGHUP)
    daemon.reload()
    assert daemon.client().enqueue("colour").result(timeout=PATIENCE) == "c80"
    daemon.assert_each_ran_once()


def test_a_killed_daemon_leaves_no_strays_and_the_next_one_goes_on(daemon):
    """A kill -9 of the supervisor: every process ends, and a new daemon runs the jobs that were left."""
    daemon.start(daemon.body("main: {processes: 2}"))
    daemon.enqueue_notes(200, seconds=0.05)
    until(lambda: daemon.runs.exists() and len(daemon.runs.read_text().splitlines()) > 5)
    daemon.children()
    daemon.kill(daemon.process.pid)
    daemon.process.wait()
    until(lambda: not daemon.children(), daemon.children)
    daemon.start()
    until(lambda: all(job.status().ended for job in daemon.jobs), daemon.text, timeout=60)
    assert {int(line.split()[0]) for line in daemon.runs.read_text().splitlines()} == set(range(200))


def test_a_warm_shutdown_gives_back_what_was_not_begun(daemon):
    """SIGTERM: the running job ends, the waiting ones wait for the next daemon, and none ran twice."""
    daemon.start(daemon.body("main: {processes: 2, drain_timeout: 20s}"))
    daemon.enqueue_notes(100, seconds=0.02)
    until(lambda: daemon.runs.exists() and len(daemon.runs.read_text().splitlines()) > 5)
    assert daemon.stop() == 0
    until(lambda: not daemon.children())  # a helper ends with the daemon, a moment after it
    daemon.start()
    daemon.assert_each_ran_once()
