"""Failures by task and error."""

import pytest

from fusiond.broker.records import NewJob, Outcome
from fusiond.owners import Owner


def fail(desk, queue, task, message, count=1, **error):
    """So many jobs of the task that fail with the message, in which `#` is the job's number."""
    for number in range(count):
        name = f"{task}{len(message)}{number}"
        desk.run(desk.verbs.enqueue(queue, [NewJob(name, task, b"[[],{}]")]))
        said = {"code": "EXCEPTION", "type": "ValueError", "message": message.replace("#", str(number))}
        desk.settle("failed", queue, **said | error, traceback="")


@pytest.fixture
def failures(desk):
    """Two errors of one task in two queues, and one of another task."""
    fail(desk, "default", "send", "no such user # in shard 7", 3)
    fail(desk, "reports", "send", "no such user # in shard 12", 2)
    fail(desk, "default", "send", 'quota "gold" exceeded', 2)
    fail(desk, "reports", "report", "no such user # in shard 7", 1, code="TIMEOUT")


def groups(dashboard, query=""):
    found = dashboard.get(f"/api/v1/failures{query}").json
    return {(group["task"], group["message"]): group for group in found["groups"]}


def test_jobs_that_failed_alike_are_one_group(dashboard, failures):
    """Numbers in the message do not tell them apart; tasks, types and words do. The last one is shown."""
    found = groups(dashboard)
    assert {key: (group["count"], group["queues"]) for key, group in found.items()} == {
        ("send", "no such user 1 in shard 12"): (5, ["default", "reports"]),
        ("send", 'quota "gold" exceeded'): (2, ["default"]),
        ("report", "no such user 0 in shard 7"): (1, ["reports"]),
    }
    assert all(group["first"] <= group["last"] for group in found.values())
    assert len(groups(dashboard, "?queue=reports")) == 2
    assert dashboard.get("/api/v1/failures?queue=none").status == 404
    page = dashboard.get("/failures").text
    assert "quota &#34;gold&#34; exceeded" in page


def test_a_group_says_with_which_release_its_jobs_failed(dashboard, desk):
    """So it is seen which one broke it; an attempt that does not say is among them, too."""
    for with_ in ("5,9,2,/srv/2", ",,1,", "7,9,2,/srv/2", None):
        desk.enqueued("send")
        job, token = desk.claim("default")
        about = b"" if with_ is None else f',"with":"{with_}"'.encode()
        desk.run(desk.verbs.settle("default", [Outcome(job, token, "failed", 3_600_000, 0, b"{}", "", about)]))
    (group,) = groups(dashboard).values()
    said = [(each["generation"], each["release"], each["jobs"]) for each in group["releases"]]
    assert said == [(2, "/srv/2", 2), (1, "", 1), (None, "", 1)]
    assert "2 jobs with generation 2, release /srv/2; 1 job with generation 1" in dashboard.get("/failures").text
    told = desk.fusiond("failures", "--wide").out
    assert "2 jobs with generation 2, release /srv/2; 1 job with generation 1" in told


def test_failures_and_jobs_are_found_by_who_answers(dashboard, desk, failures):
    """A group is of all who answer for a queue that it is in; both pages and the job say who it is."""
    tasks = {name: {"queue": "default", "priority": 1, "run": "x.y"} for name in ("send", "report")}
    owners = {"task report": Owner("ada", "https://wiki.example.com/report"), "queue reports": Owner("bob")}
    publish = desk.verbs.publish_catalogue
    desk.run(publish("newer", "other", tasks, priorities={}, queues=["default", "reports"], owners=owners))
    assert [message for _, message in groups(dashboard, "?owner=ada")] == ["no such user 0 in shard 7"]
    assert [message for _, message in groups(dashboard, "?owner=bob")] == ["no such user 1 in shard 12"]
    found = dashboard.get("/api/v1/jobs?owner=ada").json
    assert ([job["task"] for job in found["jobs"]], found["owners"]) == (["report"], ["ada", "bob"])
    for page in ("/failures", "/tasks/report", f"/jobs/{found['jobs'][0]['name']}"):
        assert 'href="https://wiki.example.com/report"' in dashboard.get(page).text


def test_what_was_not_retried_by_its_expiry_is_in_the_group_of_its_exception(dashboard, desk):
    """Whether the retry would have been too late, or did not begin in time; not with what never began."""
    fail(desk, "default", "send", "no user #")
    for why in ("not retried: that would be after `expires`", "its next attempt had not begun when it expired"):
        fail(desk, "default", "send", f"no user 7; {why}", code="EXPIRED")
    fail(desk, "default", "send", "it had not begun when it expired", code="EXPIRED", type="")
    assert sorted(group["count"] for group in groups(dashboard).values()) == [1, 3]


def test_the_jobs_of_a_group_are_found(dashboard, desk, failures):
    """All of it, and no others: as Redis groups them, whatever their errors hold."""
    for code, message in (
        ("EXPIRED", "no user 7; not retried: that would be after `expires`"),
        ("EXPIRED", "x"),
        ("", ""),
    ):
        fail(desk, "default", "send", message, code=code)
    fail(desk, "default", "send", "é" * 59 + "99 and more", 2)
    fail(desk, "default", "send", "7" * 130 + "tail", type="")
    found = groups(dashboard)
    assert len(found) == 8
    for group in found.values():
        jobs = dashboard.get(f"/api/v1/jobs?state=failed&group={group['id']}&limit=500").json
        assert (len(jobs["jobs"]), jobs["fitting"]) == (group["count"], group["count"]), group
        assert f"group={group['id']}" in dashboard.get("/failures").text


def test_a_whole_group_is_requeued_or_deleted(dashboard, desk, failures):
    """In each queue, and nothing else."""
    found = groups(dashboard)
    many, few = found["send", "no such user 1 in shard 12"]["id"], found["send", 'quota "gold" exceeded']["id"]
    assert dashboard.post("/api/v1/jobs/bulk", {"group": many, "action": "requeue"}).json["jobs"] == 5
    assert [desk.run(desk.verbs.counts(queue)).queued for queue in ("default", "reports")] == [3, 2]
    deleted = dashboard.post("/api/v1/jobs/bulk", {"group": few, "action": "delete"}).json
    assert deleted["sentence"] == "deleted 2 of 2 jobs; 2 of them to be deleted, a minute after its end at the earliest"
    assert desk.run(desk.verbs.counts("reports")).failed == 1


def test_pages_of_failures_are_bounded(desk, failures):
    """One read has no more jobs than it asks for; errors that are no JSON are a group, too."""
    looked, first = desk.run(desk.verbs.failures("default", count=2))
    assert (looked, sum(group.jobs for group in first)) == (2, 2)
    assert desk.run(desk.verbs.failures("default", start=99)) == (0, [])
    desk.enqueued("send", "x")
    desk.settle("failed")
    _, found = desk.run(desk.verbs.failures("default"))
    assert ("send", "", "") in {(group.task, group.code, group.message) for group in found}
