"""The values of arguments that `secret` of a task names are on no page, in no answer of the API, found by no search."""

import json

import pytest

from fusiond.broker.records import NewJob

PASSWORD = "hunter22/ä"


@pytest.fixture
def dashboard(open_dashboard):
    with open_dashboard(secret=("kwargs.password", "args.0")) as found:
        yield found


def enqueue(desk, id_, kwargs, task="send", queue="default", args=(), **given):
    raw = json.dumps([[*args], kwargs]).encode()
    desk.run(desk.verbs.enqueue(queue, [NewJob(id_, task, raw, **given)]))


def forms(text):
    return {text, json.dumps(text)[1:-1], "hunter22%2F", "hunter22\\/", "hunter22/"}


def test_it_is_on_no_page(dashboard, desk):
    """Of the job, of its callback, in the name of its lock, in its error."""
    lock = f'ended,skip,0,"{"hunter22%2F%C3%A4"}"'
    enqueue(desk, "a", {"password": PASSWORD, "user": "ann"}, unique=lock, key=f"k-{PASSWORD}")
    event = {"task": "send", "queue": "default", "args": ["1"], "kwargs": {"password": PASSWORD}}
    enqueue(desk, "b", {"event": event}, task="report", queue="reports")
    enqueue(desk, "c", {"url": "http://x/", "body": {"event": event}}, task="fusiond.webhook", queue="reports")
    paths = ("/jobs", "/jobs/default/a", "/jobs/reports/b", "/jobs/reports/c", "/limits?queue=default", "/audit")
    for path in paths:
        for page in (path, f"/api/v1{path}"):
            answer = dashboard.get(page)
            assert answer.status == 200
            assert not [form for form in forms(PASSWORD) if form in answer.text], (page, answer.text)
    assert '"ann"' in dashboard.get("/api/v1/jobs/default/a").text
    found = dashboard.get("/api/v1/jobs/reports/c").json["kwargs"]["body"]["event"]
    assert found == event | {"args": ["•••"], "kwargs": {"password": "•••"}}


def test_a_short_value_is_hidden_by_its_place(dashboard, desk):
    """A hidden "1" does not blank each other 1."""
    enqueue(desk, "a", {"password": "1", "count": 1, "name": "a1"}, args=["1", "1"])
    story = dashboard.get("/api/v1/jobs/default/a").json
    assert story["args"] == ["•••", "1"]
    assert story["kwargs"] == {"password": "•••", "count": 1, "name": "a1"}


def test_a_search_does_not_confirm_a_guess(dashboard, desk):
    """Neither of the whole value nor of a part of it; what is shown is found."""
    enqueue(desk, "a", {"password": PASSWORD, "user": "ann"})
    for text in ("hunter22", "unter2", "hunter22/", "password%22%3A+%22h"):
        found = dashboard.get(f"/api/v1/jobs?text={text}").json
        assert [job["name"] for job in found["jobs"]] == []
    assert dashboard.get("/api/v1/jobs?text=ann").json["jobs"]
    for number in range(400):
        enqueue(desk, f"b{number}", {"password": "pin" if number % 3 and number % 7 else "other"})
    for text in ("pin", "zzz"):
        looked_at = dashboard.get(f"/api/v1/jobs?limit=5&cursor=first&text={text}").json["looked_at"]
        assert looked_at % 5 == 0 or looked_at == 401, "where a page ends tells what is hidden"


def test_a_job_that_is_run_again_has_the_real_value(dashboard, desk):
    """Where the form still says •••; a value that was written again is taken, and ••• alone is none."""
    enqueue(desk, "a", {"password": PASSWORD, "user": "ann"}, args=["x" * 9, 2])
    given = {"task": "send", "args": ["•••", 3], "kwargs": {"password": "•••", "user": "bob"}}
    made = dashboard.post("/api/v1/jobs", given | {"like": "default/a"}).json["job"]
    [again] = [job for job in desk.run(desk.verbs.newest("default", "queued", count=9)).jobs if job.name == made]
    assert json.loads(again.args) == [["x" * 9, 3], {"password": PASSWORD, "user": "bob"}]
    assert dashboard.post("/api/v1/jobs", given).status == 400
    assert "like" in dashboard.get("/jobs/default/a").text


def test_a_lock_is_freed_though_its_name_is_hidden(dashboard, desk):
    """By the job that has it."""
    enqueue(desk, "a", {"password": PASSWORD}, unique='ended,skip,0,"hunter22%2F%C3%A4"')
    [lock] = dashboard.get("/api/v1/limits?queue=default").json["locks"]
    assert lock["name"] == "send:•••"
    answer = dashboard.post("/api/v1/limits/default/release", {"job": lock["job"]})
    assert (answer.status, "hunter" in answer.text) == (200, False)
    assert dashboard.get("/api/v1/limits?queue=default").json["locks"] == []
