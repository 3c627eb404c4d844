"""Jobs and failures as files."""

import csv
import http.client
import io
import json

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob
from fusiond.config.model.web_face import Role
from fusiond.errors import BrokerUnavailable
from fusiond.inspecting import search
from tests.web.test_failures import fail


def rows(reply):
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    return [*csv.DictReader(io.StringIO(reply.text, newline=""))]


@pytest.fixture
def many(desk, monkeypatch):
    """Jobs of several pages, all but one of the same score, and some that failed."""
    monkeypatch.setattr(search, "_LARGE_PAGE", 3)
    jobs = [NewJob(f"n{n}", "report", b"[[%d],{}]" % n, at_ms=4_000_000_000_000) for n in range(10)]
    desk.run(desk.verbs.enqueue("reports", [*jobs, NewJob("soon", "report", b"[[],{}]", at_ms=3_900_000_000_000)]))
    fail(desk, "default", "send", "no user #", 4)


def test_all_jobs_that_fit_are_in_the_file(dashboard, many):
    """Each once, whatever the pages are; whole, and with the filters of the page."""
    found = rows(dashboard.get("/api/v1/jobs.csv"))
    assert len({each["name"] for each in found}) == len(found) == 15
    assert found[4]["name"] == "reports/soon"
    assert found[5]["at"] == "2096-10-02 07:06:40"
    assert found[5]["call"].startswith("report(")
    assert len(rows(dashboard.get("/api/v1/jobs.csv?state=failed&text=USER"))) == 4
    jobs = dashboard.get("/api/v1/jobs.json?task=send")
    assert [each["error"] for each in jobs.json] == [f"ValueError: no user {n}" for n in range(4)]
    assert jobs.headers["Content-Disposition"] == 'attachment; filename="jobs.json"'
    assert dashboard.get("/api/v1/jobs.json?tag=none").json == []
    assert dashboard.get("/api/v1/jobs.csv?queue=none").status == 404
    assert dashboard.get("/api/v1/jobs.xml").status == 400
    page = dashboard.get("/jobs?state=failed").text
    assert 'formaction="/api/v1/jobs.csv"' in page


def test_no_job_that_stays_is_missed_when_others_leave(dashboard, desk, many, monkeypatch):
    """The last job of each page is deleted before the next page is read."""
    real, left = search.fitting, []

    def fitting(*given, **said):
        found = yield from real(*given, **said)
        if found[0] and given[2] == "scheduled":
            left.append(found[0][-1].id)
            yield desk.verbs.cancel("reports", left[-1])
        return found

    monkeypatch.setattr("fusiond.web.pages.exports.fitting", fitting)
    found = [each["name"] for each in rows(dashboard.get("/api/v1/jobs.csv?state=scheduled"))]
    assert len(left) > 2
    assert {*found} == {"reports/soon", *(f"reports/n{n}" for n in range(10))}


def test_a_file_that_is_not_whole_is_noticed(dashboard, many, monkeypatch):
    """Redis goes in the middle: the connection breaks. At the beginning it is 503."""
    real, asked = search.fitting, []

    def fitting(*given, **said):
        asked.append(given)
        if len(asked) > 2:
            raise BrokerUnavailable("Redis is gone")
        return (yield from real(*given, **said))

    monkeypatch.setattr("fusiond.web.pages.exports.fitting", fitting)
    for form in ("csv", "json"):
        asked.clear()
        with pytest.raises(http.client.IncompleteRead):
            dashboard.get(f"/api/v1/jobs.{form}")


def test_an_id_that_is_no_text_does_not_hold_up_the_file(dashboard, desk, many):
    """Somebody has written it by hand, as the last of the jobs and among them."""
    key = desk.verbs.keys.of("reports", "scheduled")
    for score in (3_950_000_000_000, 4_100_000_000_000):
        desk.run(plain(as_is, "ZADD", key, score, b"\xff%d" % score))
    assert len(rows(dashboard.get("/api/v1/jobs.csv?state=scheduled"))) == 11


def test_a_cell_is_no_formula(dashboard, desk):
    """What begins as one has an apostrophe before it."""
    fail(desk, "default", "=cmd", "@x", type="", code="")
    [job] = rows(dashboard.get("/api/v1/jobs.csv"))
    assert (job["task"], job["error"], job["call"]) == ("'=cmd", "'@x", "'=cmd()")
    [group] = rows(dashboard.get("/api/v1/failures.csv"))
    assert (group["message"], group["count"], group["queues"]) == ("'@x", "1", "default")


def test_arguments_are_in_the_file_for_who_may_see_them(open_dashboard, desk):
    """And jobs of the role's queues alone."""
    desk.run(desk.verbs.enqueue("reports", [NewJob("a", "report", b'[["swordfish"],{}]')]))
    fail(desk, "default", "send", "no stock")
    roles = {"one": Role(("read",), ("g",), ("reports",))}
    with open_dashboard(roles=roles, user_header="X-User", group_header="X-Groups") as dashboard:
        ask = lambda path: dashboard.ask("GET", path, X_User="ada", X_Groups="g")  # noqa: E731
        assert [each["call"] for each in json.loads(ask("/api/v1/jobs.json").text)] == ['report("•••")']
        assert rows(ask("/api/v1/failures.csv")) == []
