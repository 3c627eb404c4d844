"""The pages of one task and of one queue."""

import time

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.config.model.web_face import Role
from tests.web.test_rights import HEADERS, ask


@pytest.fixture(autouse=True)
def counted(desk):
    """Jobs of two tasks in two queues, some of the day before."""

    def count(hours_ago, task, queue, **numbers):
        hour = int(time.time()) // 3600 - hours_ago
        words = [word for name, number in numbers.items() for word in (f"{name} {task}", number)]
        for name in (("metrics", "hour", str(hour)), ("metrics",)):
            desk.run(plain(as_is, "HSET", desk.verbs.keys.of(queue, *name), *words))

    count(1, "send", "default", f=90, x=10, R3=60, R5=40, W0=100)
    count(2, "report", "default", f=7)
    count(2, "send", "reports", f=1)
    count(30, "send", "default", f=40, R3=40)


def test_a_task_beside_the_time_before(dashboard):
    """By the hour, and by its queues; bounds of the times; another time is asked for by its hours."""
    found = dashboard.get("/api/v1/tasks/send").json
    assert (found["now"]["finished"], found["now"]["failed"], found["before"]["finished"]) == (91, 10, 40)
    assert (found["now"]["run_median"]["limit"], found["now"]["run_95"]["limit"]) == (0.05, 0.25)
    # The hour in which they were counted may be over by now.
    assert [(hour["finished"], hour["failed"]) for hour in found["chart"] if hour["finished"]] == [(1, 0), (90, 10)]
    assert {name: each["finished"] for name, each in found["parts"].items()} == {"default": 90, "reports": 1}
    assert len(found["chart"]) == 25
    month = dashboard.get("/api/v1/tasks/send?hours=720").json
    assert (month["now"]["finished"], month["before"]) == (131, None)
    page = dashboard.get("/tasks/send").text
    assert "the 24 h before" in page
    assert 'href="/queues/reports"' in page
    assert "below 250 ms" in page
    assert dashboard.get("/tasks/send?hours=0").status == 400
    assert dashboard.get("/tasks/none").status == 404


def test_a_queue_and_its_tasks(dashboard):
    """One that nobody has is 404."""
    found = dashboard.get("/api/v1/queues/default").json
    assert {name: each["finished"] for name, each in found["parts"].items()} == {"send": 90, "report": 7}
    assert 'href="/tasks/report"' in dashboard.get("/queues/default").text
    assert dashboard.get("/queues/none").status == 404


def test_a_role_of_some_queues_sees_counters_of_those(open_dashboard):
    """Of a task that has run in others, too."""
    with open_dashboard(roles={"one": Role(("read",), ("g",), ("rep*",))}, **HEADERS) as dashboard:
        found = ask(dashboard, "g", "/api/v1/tasks/send").json
        assert (found["now"]["finished"], [*found["parts"]]) == (1, ["reports"])
        assert ask(dashboard, "g", "/api/v1/queues/default").status == 403
