"""Failpoints in a whole daemon: they reach every kind of process, and a few of the matrix' rows."""

import pytest

from tests.chaos import matrix
from tests.failpoints import HOOK, LOG, VARIABLE
from tests.support.running import PATIENCE, until

GROUPS = "forked: {isolation: fork, processes: 2}\n  reused: {isolation: process, processes: 2}\n"


def fired(log):
    """Actor and point of each firing."""
    return {tuple(line.split()[2:5:2]) for line in log.read_text().splitlines()}


def begin(daemon, points, tasks=""):
    """The daemon with these points, which do next to nothing; the log of what has fired."""
    log = daemon.directory / "fired"
    log.touch()
    rules = ",".join(f"{point}:delay=0.001" for point in points)
    daemon.start(daemon.body(GROUPS, tasks=tasks), environment={**HOOK, VARIABLE: rules, LOG: str(log)})
    return log


def test_they_reach_every_program(daemon):
    """One variable of the daemon's arms its scheduler, its Redis, dispatchers, fork servers and children."""
    points = {
        ("supervisor", "accept.after"),
        ("redis", "redis.start.after"),
        ("scheduler", "publish.before"),
        ("dispatcher", "settle.before"),
        ("fork-server", "fork.after"),
        ("child", "begin.before"),
        ("child", "task.before"),
        ("child", "report.after"),
    }
    log = begin(daemon, [point for _, point in points])
    daemon.enqueue_notes(20)
    daemon.assert_each_ran_once()
    until(lambda: fired(log) == points, log.read_text)


def test_task_code_does_not_see_them(daemon):
    """A job has the environment that its group has, armed or not."""
    log = begin(daemon, ["task.before"], tasks="  variable: {run: os.getenv}\n")
    assert daemon.client().enqueue("variable", VARIABLE).result(timeout=PATIENCE) is None
    assert fired(log) == {("child", "task.before")}


@pytest.mark.parametrize(
    ("step", "actions"),
    [
        # An error in the middle of a child's death: a dispatcher that only went on would wait for it for ever.
        ("died", ("kill", "raise")),
        ("settle", ("kill", "raise")),
    ],
)
def test_no_job_comes_to_harm_at(step, actions):
    """A slice of the matrix: each of the step's points fires twice under load, in each kind of process."""
    outcome = matrix.survey(step, 2, actions=actions, groups=1)
    assert outcome.violations == []
    assert outcome.short(2) == []
