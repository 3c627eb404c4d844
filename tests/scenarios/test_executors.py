"""A group whose processes run many jobs at once, in a whole daemon, under reloads."""

from tests.support.running import PATIENCE

LOOPED = "main: {processes: 1, isolation: process, executor: asyncio, concurrency: 4"


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
