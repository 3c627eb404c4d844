"""What the API has besides the pages."""

import json

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob
from fusiond.config.model.web_face import Role
from tests.web.test_rights import HEADERS, ask


def test_events_are_read_one_after_the_other(dashboard, desk):
    """The newest first, then what has come since; only those that are asked for, without secrets."""
    desk.run(desk.verbs.keep_events("default", "100000 0"))
    desk.run(desk.verbs.enqueue("default", [NewJob("a", "send", b"[[],{}]")]))
    first = dashboard.get("/api/v1/events?queue=default").json
    assert [(each["event"], each["job_id"]) for each in first["events"]] == [("enqueued", "a")]
    desk.run(desk.verbs.cancel("default", "a", who="ada"))
    after = json.dumps(first["after"]).replace(" ", "")
    then = dashboard.get(f"/api/v1/events?only=canceled&after={after}").json
    assert [each["event"] for each in then["events"]] == ["canceled"]
    after = json.dumps(then["after"]).replace(" ", "")
    assert dashboard.get(f"/api/v1/events?after={after}").json["events"] == []
    assert dashboard.get('/api/v1/events?after={"default":"x"}').status == 400


def test_the_data_is_checked_and_not_repaired(open_dashboard, desk):
    """What is wrong, of the queues that the user sees."""
    for queue in ("default", "reports"):
        desk.run(desk.verbs.enqueue(queue, [NewJob("a", "send", b"[[],{}]")]))
        desk.run(plain(as_is, "ZREM", desk.verbs.keys.of(queue, "queue"), "a"))
    with open_dashboard(roles={"one": Role(("read",), ("g",), ("rep*",))}, **HEADERS) as dashboard:
        for _ in range(2):
            found = ask(dashboard, "g", "/api/v1/fsck").json
            assert (found["jobs"], [each["queue"] for each in found["findings"]]) == (1, ["reports"])
        assert ask(dashboard, "g", "/api/v1/fsck?queue=default").status == 403


def test_the_host_is_drained_by_its_daemon(dashboard):
    """Without one nothing is done, and that is said."""
    assert dashboard.post("/api/v1/drain").status == 503
