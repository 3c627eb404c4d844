"""`fusiond events`: the newest ones that are wanted, of all streams, in the order of their times."""

import json

from fusiond.broker.event_records import DAEMONS
from fusiond.broker.records import NewJob


def test_the_newest_events_that_are_wanted(desk):
    """By name, also by several, by job, by task and by queue; for people and for programs."""
    for stream in ("default", "reports", DAEMONS):
        desk.run(desk.verbs.keep_events(stream, "1000 0"))
    desk.run(desk.verbs.enqueue("default", [NewJob("a", "send", b"[[],{}]"), NewJob("b", "send", b"[[],{}]")]))
    desk.run(desk.verbs.enqueue("reports", [NewJob("c", "report", b"[[],{}]")]))
    desk.run(desk.verbs.cancel("default", "a", who="kim@box"))
    desk.run(desk.verbs.record_event(DAEMONS, "reload.refused", "kim", [("m", "line 3: no")]))

    def found(*words):
        """In order of their names, since two streams may tell in the same millisecond."""
        lines = desk.fusiond("events", *words, "--json").out.splitlines()
        return sorted((each["event"], each.get("job_id", "")) for each in map(json.loads, lines))

    canceled, refused = ("canceled", "a"), ("reload.refused", "")
    assert found() == [canceled, ("enqueued", "a"), ("enqueued", "b"), ("enqueued", "c"), refused]
    assert found("-n", "1") == [refused]
    assert found("--job", "default/a") == found("--job", "a") == [canceled, ("enqueued", "a")]
    assert found("--task", "report") == found("--queue", "reports") == [("enqueued", "c")]
    assert found("--only", "reload.*,canceled") == [canceled, refused]
    assert found("--only", "reload.*", "--only", "canceled") == [canceled, refused]
    text = desk.fusiond("events", "--only", "canceled,reload.*").out
    assert "canceled" in text
    assert "kim@box" in text
    assert "line 3: no" in text
