"""Groups whose `processes` is a range, in whole daemons: the load, a reload, what the status says."""

import pytest

from fusiond import hook
from tests.support.cases import few
from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, descendants, until
from tests.support.seldom_polls import FORK_SERVER

#: looks more often than once a second, and ends children after so many quiet seconds instead of 60
FILE = """
def hook(process, name, find):
    if process == "dispatcher":
        find("worker.dispatcher.scaler").LOOK = 0.1
        find("worker.dispatcher.scaling").QUIET = 1.5
"""
RANGE = "main: {{processes: {{min: 1, max: {most}, target_latency: 1s}}, isolation: {isolation}{more}}}"


@pytest.fixture
def start(daemon):
    """Starts a daemon of one group with a range."""
    (daemon.directory / "own.py").write_text(FILE + FORK_SERVER)

    def started(most, isolation="process", more=""):
        environment = {hook.VARIABLE: str(daemon.directory / "own.py")}
        daemon.start(daemon.body(RANGE.format(most=most, isolation=isolation, more=more)), environment=environment)
        return daemon

    return started


def scaled(daemon, program="worker:main@1"):
    """How many children a program says that there are."""
    return daemon.programs()[program]["scaled"]


def children(daemon, program):
    """The children of a group's fork server."""
    pid = daemon.programs().get(program, {}).get("pid")
    return max(0, len(descendants(pid)) - 1) if pid else 0


@few("isolation", ["process", "fork"])
def test_it_follows_the_load_up_and_down(start, isolation):
    """As many as there may be while jobs wait, one when it is quiet; log, status and metrics say why."""
    daemon = start(4, isolation)
    until(lambda: scaled(daemon).get("processes") == 1, daemon.text)
    daemon.enqueue_notes(80, seconds=0.1)
    until(lambda: scaled(daemon)["processes"] == 4, daemon.text)
    held = [daemon.hold(name) for name in "abcd"]  # in all of them, so that none is quiet
    until(lambda: "4 of 1 to 4 processes" in fusiond("status", "-W", cwd=daemon.directory).out, daemon.text)
    for job, name in zip(held, "abcd", strict=True):
        daemon.let_go(name)
        job.result(timeout=PATIENCE)
    daemon.assert_each_ran_once()
    until(lambda: scaled(daemon)["processes"] == 1, daemon.text)
    until(lambda: children(daemon, "worker:main@1") == (2 if isolation == "fork" else 1), daemon.text)
    assert scaled(daemon)["changes"]["quiet"] >= 1
    assert "group 'main': processes: " in daemon.text()
    metrics = fusiond("status", "--metrics", cwd=daemon.directory).out
    assert 'fusiond_processes{program="worker:main@1"} 1.0' in metrics
    assert 'fusiond_processes_changes_total{program="worker:main@1",reason="quiet"}' in metrics


def test_a_range_changes_in_place(start):
    """Another least, another most, a number, and a range again: the dispatcher keeps its pid."""
    daemon = start(4)
    before = daemon.pid("worker:main@1")
    for processes, count in (("{min: 3, max: 5}", 3), ("2", 2), ("{min: 1, max: 1}", 1), ("{min: 2, max: 9}", 2)):
        daemon.reload(daemon.body(f"main: {{isolation: process, processes: {processes}}}"))
        until(lambda count=count: children(daemon, "worker:main@1") == count, daemon.text)
    assert daemon.pid("worker:main@1") == before
    assert scaled(daemon)["range"] == [2, 9]
