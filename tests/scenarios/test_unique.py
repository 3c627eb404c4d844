"""A task becomes unique by a reload."""

from tests.support.running import until


def test_a_reload_makes_a_task_unique_in_place(daemon):
    """New jobs have a lock; those that were there have none."""
    body = daemon.body("main: {processes: 4}")
    daemon.start(body)
    daemon.enqueue_notes(2)
    daemon.reload(body.replace("stories.note}", "stories.note, unique: {by: [args.0], until: ended}}"))
    words = {"seconds": 0.3, "log": str(daemon.runs)}
    until(lambda: daemon.client().enqueue("note", 7, **words).existing, "the client knows it")
