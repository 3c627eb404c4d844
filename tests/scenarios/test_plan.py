"""Look first, change, go back: with real workers and a real broker."""

import pytest

from tests.fusiond_command import fusiond
from tests.running import until

pytestmark = pytest.mark.timeout(120)


def run(daemon, *words):
    return fusiond(*words, cwd=daemon.directory)


def test_a_plan_counts_what_waits_and_runs(daemon):
    """A group goes while jobs wait for it, another shrinks while jobs run: said beforehand, and nothing is done."""
    tasks = "  later: {run: stories.colour, queue: reports}\n"
    groups = "main: {processes: 3, queues: [default]}\n  batch: {queues: [reports]}"
    daemon.start(daemon.body(groups, tasks=tasks, more="queues: {reports: {suspended: true}}\n"))
    for name in "abc":
        daemon.hold(name)
    for _ in range(4):
        daemon.client().enqueue("later")
    other = daemon.directory / "other.yaml"
    fewer = daemon.body("main: {processes: 1, queues: [default]}", tasks=tasks, more="queues: {reports: {}}\n")
    other.write_text(daemon.head() + fewer)
    until(lambda: "3 jobs run in group 'main'" in run(daemon, "plan", other).out)
    done = run(daemon, "plan", other, "--exit-code")
    assert done.status == 4
    assert done.out.splitlines()[1] == "1 group resized (main, 3 → 1 process), 1 removed (batch)"
    assert "4 jobs wait in queue 'reports', which nothing will serve" in done.out
    assert "3 jobs run in group 'main', and its processes become 1" in done.out
    assert daemon.status()["generation"] == 1
    assert run(daemon, "plan", "--exit-code").status == 0
    for name in "abc":
        daemon.let_go(name)


def test_a_bad_change_is_undone_while_jobs_run(daemon):
    """Back by one command: new jobs run as before, no job is lost, the one that runs ends in peace."""
    daemon.start(daemon.body("main: {processes: 2, environment: {COLOUR: red}}"))
    held = daemon.hold("a")
    daemon.enqueue_notes(60, seconds=0.02)
    assert daemon.reload(daemon.body("main: {processes: 2, environment: {COLOUR: blue}}"))["result"] == "applied"
    assert daemon.client().enqueue("colour").result(timeout=30) == "blue"
    done = run(daemon, "rollback")
    assert done.status == 0, done
    assert "a rollback to generation 1" in done.out
    assert daemon.client().enqueue("colour").result(timeout=30) == "red"
    daemon.let_go("a")
    assert held.result(timeout=30) == "red"
    daemon.assert_each_ran_once()
    shown = run(daemon, "history").out
    assert "back to 1: 1 group replaced (main, because environment.COLOUR changed)" in shown
    assert run(daemon, "plan", "--exit-code").status == 4
