"""The values of secret arguments in what commands print; the names come from what daemons have published."""

import json

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob

PASSWORD = "hunter22/x"


@pytest.fixture
def job(desk):
    """Jobs of a published task, with a lock and by position, a callback's job with its event, and a broken body."""
    send = {"queue": "default", "priority": 1, "run": "shop.send", "secret": ["kwargs.password"]}
    tasks = {"send": send, "after": {"queue": "default", "priority": 1, "run": "shop.after"}}
    desk.run(desk.verbs.publish_catalogue("d", "h", tasks, priorities={}, queues=["default"]))
    desk.run(desk.verbs.keep_events("default", "100 1"))
    kwargs = {"password": PASSWORD, "user": "ann"}
    raw, event = json.dumps([[], kwargs]), json.dumps([[], {"event": {"task": "send", "args": [], "kwargs": kwargs}}])
    first = NewJob("a", "send", raw.encode(), unique='ended,skip,0,"hunter22%2Fx"')
    by_position = NewJob("c", "send", json.dumps([[PASSWORD], {}]).encode())
    desk.run(desk.verbs.enqueue("default", [first, NewJob("b", "after", event.encode()), by_position]))
    desk.run(
        plain(as_is, "LPUSH", desk.verbs.keys.of("default", "inbox"), f'{{"task": 1, "kwargs": {json.dumps(kwargs)}')
    )
    desk.run(desk.verbs.rescue("default"))


@pytest.mark.parametrize("json_", [[], ["--json"]])
@pytest.mark.parametrize(
    "words", ["job list", *(f"job show default/{id_}" for id_ in "abc"), "unique list", "events", "broken list"]
)
def test_no_command_prints_it(desk, job, words, json_):
    """Nor its forms in JSON and in the name of a lock."""
    printed = desk.fusiond(*words.split(), *json_).out
    assert "hunter" not in printed
    assert "•••" in printed or (words, json_) == ("events", [])


def test_a_search_does_not_confirm_a_guess(desk, job):
    """What is shown is found."""
    assert "default/" not in desk.fusiond("job", "list", "--text", "hunter").out
    assert "default/a" in desk.fusiond("job", "list", "--text", "ann").out
