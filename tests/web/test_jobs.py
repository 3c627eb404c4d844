"""Jobs: found, shown, changed, over HTTP."""

import base64
import dataclasses
import json
import re
import zlib
from importlib.resources import files

import pytest

from fusiond.broker.records import NewJob, Outcome
from fusiond.enqueue_options import Options
from fusiond.job import JobStatus
from fusiond.web.pages.job_search import FILTERS


@pytest.fixture
def jobs(desk):
    """Names of jobs: one that failed, one that finished, and some that wait."""
    failed = desk.enqueued("send", "+49", "code=1234")
    desk.fail()
    finished = desk.enqueued("send", "+50")
    desk.settle("finished", result="sent")
    desk.run(
        desk.verbs.enqueue(
            "reports", [NewJob(f"monthly.{n}", "report", b'[[%d],{"password":"x"}]' % n) for n in range(9)]
        )
    )
    return {"failed": failed, "finished": finished, "waiting": "reports/monthly.3"}


def names(reply):
    return [job["name"] for job in reply.json["jobs"]]


def test_jobs_are_found_by_each_filter(dashboard, desk, jobs):
    """By state, queue, task, text and time; what is outside the bounds is 400, another queue 404."""
    ask = lambda query: dashboard.get(f"/api/v1/jobs?{query}")  # noqa: E731
    assert names(ask("state=failed")) == [jobs["failed"]]
    assert set(names(ask("state=failed&state=finished"))) == {jobs["failed"], jobs["finished"]}
    assert len(names(ask("queue=reports"))) == 9
    assert names(ask("task=report&limit=500&text=[[3]")) == ["reports/monthly.3"]
    assert names(ask("text=NO+STOCK")) == [jobs["failed"]]
    assert names(ask("since=1h&state=finished")) == [jobs["finished"]]
    assert names(ask("until=1h")) == []
    assert names(ask("tag=campaign")) == []
    assert len(names(ask("tag=money"))) == 9, "the tag that the file gives the task"
    assert names(ask("text=MONTHLY.3")) == ["reports/monthly.3"], "the id"
    found = ask("queue=reports&limit=2").json
    assert (len(found["jobs"]), found["among"], found["complete"]) == (2, 9, True)
    found = ask("queue=reports&text=nothing&depth=4").json
    assert (found["jobs"], found["looked_at"], found["complete"]) == ([], 4, False)
    for query, status in (("state=lost", 400), ("limit=0", 400), ("since=later", 400), ("x=1", 400), ("queue=no", 404)):
        assert ask(query).status == status
        assert dashboard.get(f"/jobs?{query}").status == status


def test_of_scheduled_jobs_those_that_are_due_next_come_first(dashboard, desk):
    """Of all queues together, however many there are; the others first if that is asked for."""
    for hours in (3, 1, 4, 2):
        dashboard.post(
            "/api/v1/jobs", {"task": "send" if hours % 2 else "report", "delay": f"{hours}h", "id": f"in{hours}"}
        )
    ask = lambda more: [name[-3:] for name in names(dashboard.get(f"/api/v1/jobs?state=scheduled{more}"))]  # noqa: E731
    assert ask("") == ask("&order=next") == ["in1", "in2", "in3", "in4"]
    assert ask("&text=in") == ask("")
    assert ask("&order=newest") == ["in2", "in4", "in1", "in3"]
    assert "those that are due next first" in dashboard.get("/jobs?state=scheduled").text


def test_an_act_on_all_that_match_keeps_each_filter():
    """Each input of the search is in the form of the page that counts them: what is shown is what is changed."""
    form = (files("fusiond.web") / "templates" / "jobs.html").read_text()
    kept = re.search(r"in asked if value and name in \(([^)]*)\)", form)[1]
    assert {name.strip(' "') for name in kept.split(",")} == {each.name for each in FILTERS}


@pytest.mark.parametrize("query", ["queue=reports", "text=passWORD", "text=monthly", "task=report&state=queued"])
def test_a_walk_reaches_each_job_once(dashboard, desk, jobs, query):
    """From cursor to cursor, whether Redis filters or not; a job that comes meanwhile changes nothing."""

    def walked(query):
        found, cursor = [], "first"
        while cursor:
            answer = dashboard.get(f"/api/v1/jobs?{query}&limit=2&cursor={cursor}").json
            assert len(answer["jobs"]) <= 2
            found, cursor = found + [job["name"] for job in answer["jobs"]], answer["cursor"]
            assert bool(cursor) != answer["complete"]
        return sorted(found), answer["looked_at"]

    assert walked(query)[0] == [f"reports/monthly.{n}" for n in range(9)]
    everything, looked_at = walked("")
    assert (len(everything), len({*everything}), looked_at) == (11, 11, 11)
    page = dashboard.get(f"/jobs?{query}&limit=2&cursor=first").text
    assert 'id="further"' in page
    forged = base64.urlsafe_b64encode(zlib.compress(b'[-1,1,[["reports","queued","1e308"]]]')).decode()
    for wrong in ("x", "W10=", "bnVsbA==", forged):
        assert dashboard.get(f"/api/v1/jobs?cursor={wrong}").status == 400


def test_a_search_finds_what_large_arguments_hold(dashboard, desk):
    """They have a key of their own."""
    desk.run(desk.verbs.enqueue("reports", [NewJob("large", "report", b'[["%s needle"],{}]' % (b"x" * 40_000))]))
    assert names(dashboard.get("/api/v1/jobs?text=NEEDLE")) == ["reports/large"]


def test_a_page_shows_what_jobs_wrote_as_text(dashboard, desk):
    """Markup in arguments, names and errors is never markup of the page."""
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    desk.enqueued("send", evil)
    name = desk.settle("failed", code="EXCEPTION", type=evil, message=evil, traceback=evil)
    for path in ("/jobs", "/failures", f"/jobs/{name}", "/jobs?text=%3Cscript%3E"):
        page = dashboard.get(path).text
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "&lt;" in page


@pytest.mark.parametrize("text", ["\udce9.csv", "\ud83d", "a\0b", "\x1b[2J\x7f\x9b", "\u202egpj.exe"])
def test_any_text_of_a_job_can_be_shown(dashboard, desk, text):
    """Lone surrogates, NUL and control characters in arguments, result or error: each page and the API have them."""
    raw = json.dumps([[text], {text: text}]).encode()
    desk.run(desk.verbs.enqueue("default", [NewJob("odd", "send", raw), NewJob("good", "send", raw)]))
    failed = desk.settle("failed", code="EXCEPTION", type=text, message=text, traceback=text)
    finished = desk.settle("finished", result={text: text})
    for name in (failed, finished):
        for path in ("/jobs", "/failures", "/", f"/jobs/{name}", "/jobs?text=csv"):
            page = dashboard.get(path)
            assert page.status == 200
            assert text not in page.text
            assert dashboard.get(f"/api/v1{'/overview' if path == '/' else path}").status == 200
    assert json.dumps(text)[1:-1].lower() in dashboard.get(f"/jobs/{failed}").text.lower()
    answer = dashboard.post("/api/v1/jobs", {"task": "send", "key": text})
    assert answer.status == (400 if "\ud800" <= text[0] <= "\udfff" else 200)
    assert dashboard.post("/api/v1/jobs", {"task": "send", "args": [text]}).status in (200, 400)


def test_one_jobs_story(dashboard, jobs):
    """Arguments, error, traceback, attempts; the result of one that finished; 404 for one that is not there."""
    story = dashboard.get(f"/api/v1/jobs/{jobs['failed']}").json
    assert (story["args"], story["kwargs"]) == (["+49"], {"code": "1234"})
    assert (story["job"]["status"], story["error"]) == ("failed", "ValueError: no stock")
    assert "shop.py" in story["traceback"]
    assert "ValueError: no stock" in dashboard.get(f"/jobs/{jobs['failed']}").text
    assert dashboard.get(f"/api/v1/jobs/{jobs['finished']}").json["result"] == "sent"
    assert dashboard.get("/api/v1/jobs/default/none").status == 404
    assert dashboard.get("/jobs/nothing/none").status == 404


def test_a_job_that_waits_says_why(dashboard, desk):
    """Who suspended its queue; that nothing serves it; or its place, and about when it begins."""
    desk.enqueued("send")
    name = desk.enqueued("send")
    waits = lambda: dashboard.get(f"/api/v1/jobs/{name}").json["waits"]  # noqa: E731
    assert waits().startswith("nothing serves queue 'default' now")
    desk.run(desk.verbs.keep_events("default", "1000 0"))
    dashboard.post("/api/v1/queues/default/suspend")
    assert waits().startswith("queue 'default' is suspended by dashboard by the token from 127.0.0.1, ")
    dashboard.post("/api/v1/queues/default/resume")
    worker = {"group": "main", "queues": "default", "state": "idle", "phase": "serving", "answers": 0}
    desk.run(desk.verbs.announce("host.1", worker))
    assert waits() == "it is number 2 of 2 ready jobs"
    assert "it is number 2 of 2 ready jobs" in dashboard.get(f"/jobs/{name}").text


def test_jobs_are_changed_one_by_one(dashboard, desk, jobs):
    """Requeue, cancel, delete; what a state does not allow is 409 and says why."""
    ask = lambda name, verb: dashboard.post(f"/api/v1/jobs/{name}/{verb}")  # noqa: E731
    status = lambda name: desk.run(desk.verbs.status(*name.split("/")))  # noqa: E731
    assert ask(jobs["failed"], "requeue").json["sentence"].endswith(": requeued")
    assert status(jobs["failed"]) is JobStatus.QUEUED
    assert ask(jobs["waiting"], "cancel").status == 200
    assert status(jobs["waiting"]) is JobStatus.CANCELED
    assert ask(jobs["waiting"], "delete").status == 200
    assert ask(jobs["waiting"], "cancel").status == 409
    assert ask("default/none", "cancel").status == 404
    refused = ask(jobs["finished"], "requeue")
    sentence = ": finished, neither failed nor canceled; enqueue it again"
    assert (refused.status, sentence in refused.json["error"]) == (409, True)
    assert refused.json.keys() == {"error"}


def test_a_job_that_waits_goes_first(dashboard, desk, jobs):
    """By a name of the file or a number; 400 for another word, 409 for a job that has ended."""
    ask = lambda name, said: dashboard.post(f"/api/v1/jobs/{name}/priority", {"priority": said})  # noqa: E731
    page = dashboard.get(f"/jobs/{jobs['waiting']}").text
    assert '<option value="high" selected>high (2)</option>' in page
    for said, number in (("high", 2), ("200", 200), (7, 7)):
        assert ask(jobs["waiting"], said).status == 200
        assert dashboard.get(f"/api/v1/jobs/{jobs['waiting']}").json["priority"] == number
    assert "neither one of" in ask(jobs["waiting"], "256").json["error"]
    assert "has already ended" in ask(jobs["finished"], "high").json["error"]
    assert f"/jobs/{jobs['finished']}/priority" not in dashboard.get(f"/jobs/{jobs['finished']}").text


def test_a_task_is_suspended_on_the_page_of_its_job(dashboard, desk, jobs):
    """The page says so, the overview too; resumed there. One that does not exist is 404."""
    ask = lambda task, verb: dashboard.post(f"/api/v1/tasks/{task}/{verb}")  # noqa: E731
    page = lambda: dashboard.get(f"/jobs/{jobs['waiting']}").text  # noqa: E731
    task = dashboard.get(f"/api/v1/jobs/{jobs['waiting']}").json["job"]["task"]
    assert f"/tasks/{task}/suspend" in page()
    assert "are accepted, and held" in ask(task, "suspend").json["sentence"].replace("its jobs ", "")
    assert "is suspended by the operator; fusiond task resume" in page()
    assert f"/tasks/{task}/resume" in page()
    assert "is suspended by the operator; 0 jobs are held" in dashboard.get("/").text
    assert ask(task, "resume").status == 200
    assert "is suspended by the operator" not in page()
    desk.run(desk.verbs.suspend_tasks("default", [task], by="file", on=None))
    assert "stays suspended, by the file" in ask(task, "resume").json["error"]
    assert ask("none", "suspend").status == 404


def test_many_jobs_are_changed_by_a_filter(dashboard, desk, jobs):
    """Only those that fit, and only those of the states of the act: failed ones if no state is named."""
    reply = dashboard.post("/api/v1/jobs/bulk", {"text": "monthly", "action": "cancel"})
    assert (reply.json["jobs"], reply.json["sentence"]) == (9, "canceled 9 of 9 jobs")
    assert dashboard.post("/api/v1/jobs/bulk", {"queue": "reports", "action": "requeue"}).json["jobs"] == 0
    reply = dashboard.post("/api/v1/jobs/bulk", {"queue": "reports", "state": ["canceled"], "action": "requeue"})
    assert reply.json["sentence"] == "requeued 9 of 9 jobs"
    assert desk.run(desk.verbs.counts("reports")).queued == 9
    assert desk.run(desk.verbs.counts("default")).failed == 1
    assert dashboard.post("/api/v1/jobs/bulk", {"queue": "reports"}).status == 400


def test_what_is_confirmed_is_done_with_the_jobs_that_were_counted(dashboard, desk, jobs):
    """Once; not with jobs that fit since then, and what has become of the others is said."""
    said = {"queue": "reports", "action": "cancel", "state": ["queued"]}
    asked = dashboard.post("/api/v1/jobs/selection", said).json
    assert (asked["number"], asked["noun"], len(asked["jobs"])) == (9, "queued job", 9)
    dashboard.post(f"/api/v1/jobs/{jobs['waiting']}/cancel")
    desk.run(desk.verbs.enqueue("reports", [NewJob("later", "report", b"[[],{}]")]))
    confirm = {"selection": asked["selection"], "action": "cancel"}
    reply = dashboard.post("/api/v1/jobs/bulk", confirm)
    assert reply.json["sentence"] == "canceled 8 of 9 jobs; 1 has already ended"
    assert desk.run(desk.verbs.status("reports", "later")) is JobStatus.QUEUED
    assert dashboard.post("/api/v1/jobs/bulk", confirm).status == 404


def test_jobs_that_are_named_are_changed(dashboard, desk, jobs):
    """Those with which it can be done are counted; nothing is done if none is named where names are meant."""
    named = [*jobs.values(), "default/gone"]
    asked = dashboard.post("/api/v1/jobs/selection", {"job": named, "action": "delete"}).json
    assert (asked["number"], asked["others"], {*asked["jobs"]}) == (2, 2, {jobs["failed"], jobs["finished"]})
    assert dashboard.post("/api/v1/jobs/bulk", {"job": named, "action": "requeue"}).json["jobs"] == 1
    for nothing in ({"selection": ""}, {"selection": None}, {"job": []}):
        assert dashboard.post("/api/v1/jobs/bulk", nothing | {"action": "delete"}).status == 400
    other = {"selection": asked["selection"], "action": "requeue"}
    assert dashboard.post("/api/v1/jobs/bulk", other).status == 404
    reply = dashboard.post("/api/v1/jobs/bulk", {"selected": True, "action": "delete"})
    assert (reply.status, "no job is selected" in reply.json["error"]) == (400, True)


def test_a_browser_is_asked_about_the_number_and_goes_back_to_the_filter(dashboard, desk, jobs):
    """Without scripts: the page has what can be done in the states of its filter, and each state of it."""
    cookie = dashboard.log_in().headers["Set-Cookie"].partition(";")[0]
    own, query = f"http://{dashboard.host}", "state=failed&state=finished&state="
    page = dashboard.get(f"/jobs?{query}").text
    assert f'action="/jobs/selection?{query.replace("&", "&amp;")}"' in page
    assert [page.count(f'value="{verb}"') for verb in ("requeue", "cancel", "delete")] == [2, 0, 2]
    for state in ("failed", "finished"):
        assert page.count(f'<input type="hidden" name="state" value="{state}">') == 1
    said = "state=failed&state=finished&action=delete"
    asked = dashboard.ask("POST", f"/jobs/selection?{query}", said, Cookie=cookie, Origin=own).text
    assert "<h1>Delete 2 failed or finished jobs</h1>" in asked or "<h1>Delete 2 finished or failed jobs</h1>" in asked
    key = re.search('name="selection" value="([^"]+)"', asked)[1]
    said, where = f"action=delete&selection={key}", f"{own}/jobs/selection?{query}"
    reply = dashboard.ask("POST", "/jobs/bulk", said, Cookie=cookie, Origin=own, Referer=where)
    assert reply.headers["Location"].startswith("/jobs?state=failed&state=finished&")
    assert "deleted 2 of 2 jobs" in dashboard.ask("GET", reply.headers["Location"], Cookie=cookie).text


def test_an_error_of_an_earlier_attempt_is_not_told_as_the_jobs(dashboard, desk):
    """Once it has finished, its page has no notice of it; the traceback says whose it is."""
    desk.enqueued("send", "+49")
    job, token = desk.claim()
    error = json.dumps({"code": "EXCEPTION", "type": "ValueError", "message": "no stock", "traceback": "shop.py"})
    desk.run(desk.verbs.settle("default", [Outcome(job, token, "retry", payload=error.encode())]))
    assert 'class="notice bad">ValueError: no stock' in dashboard.get(f"/jobs/default/{job}").text
    page = dashboard.get(f"/jobs/{desk.settle('finished', result='sent')}").text
    assert "notice bad" not in page
    assert "<h2>Traceback of the attempt that failed last</h2>" in page


def test_a_job_is_enqueued_from_any_language(dashboard, desk):
    """With the options that Client has; what is wrong is refused with the same sentences."""
    said = {"task": "report", "args": [1, None], "kwargs": {"region": "eu"}, "delay": 60, "priority": 7, "log_tag": "x"}
    reply = dashboard.post("/api/v1/jobs", said)
    assert reply.status == 200, reply.text
    job = desk.run(desk.verbs.job(*reply.json["job"].split("/")))
    assert (job.task, job.args, job.status, job.priority) == ("report", b'[[1,null],{"region":"eu"}]', "scheduled", 7)
    assert job.log_tag == "x"
    for at in (2_000_000_000, 2_000_000_000.5):
        reply = dashboard.post("/api/v1/jobs", {"task": "report", "at": at})
        assert reply.status == 200, reply.text
        assert desk.run(desk.verbs.job(*reply.json["job"].split("/"))).due_at == at * 1000
    for wrong, why in (
        ({"task": "repport"}, "report"),
        ({}, "task is missing"),
        ({"task": "report", "args": {}}, "args: {} is no JSON array"),
        ({"task": "report", "meta": "text"}, 'meta: "text" is no JSON object'),
        ({"task": "report", "delay": "soon"}, "delay"),
        ({"task": "report", "colour": "red"}, "colour"),
    ):
        reply = dashboard.post("/api/v1/jobs", wrong)
        assert (reply.status, why in reply.json["error"]) == (400, True), reply.text
    assert dashboard.ask("POST", "/api/v1/jobs", "{", Authorization=f"Bearer {dashboard.token}").status == 400


def test_each_option_of_a_producer_is_one_of_the_api(dashboard, desk):
    """Also those that wait for other jobs, and those that call something."""
    document = dashboard.get("/api/v1/openapi.json").json["paths"]["/api/v1/jobs"]["post"]["requestBody"]
    declared = document["content"]["application/json"]["schema"]["properties"].keys()
    assert declared == {"task", "args", "kwargs", "like"} | {field.name for field in dataclasses.fields(Options)}
    first, second = (dashboard.post("/api/v1/jobs", {"task": "report"}).json["job"] for _ in range(2))
    said = {"task": "report", "after": [first, second], "join": 1, "on_parent_failure": "run"}
    reply = dashboard.post("/api/v1/jobs", said | {"on_success": {"task": "send"}, "on_failure": {}})
    assert reply.status == 200, reply.text
    queue, id_ = reply.json["job"].split("/")
    assert desk.run(desk.verbs.status(queue, id_)) is JobStatus.DEFERRED
    assert desk.run(desk.verbs.parents(queue, id_)) == (1, [first, second])
    refused = dashboard.post("/api/v1/jobs", {"task": "report", "on_success": {"colour": "red"}})
    assert (refused.status, "on_success" in refused.json["error"]) == (400, True)


def test_a_button_leads_back_with_a_notice(dashboard, desk, jobs):
    """The page that follows says what was done, once; no link can make it say something else."""
    cookie = dashboard.log_in().headers["Set-Cookie"].partition(";")[0]
    own = f"http://{dashboard.host}"
    where = f"{own}/jobs?state=failed&done=old"
    reply = dashboard.ask("POST", f"/jobs/{jobs['failed']}/requeue", "", Cookie=cookie, Origin=own, Referer=where)
    assert reply.status == 303
    assert reply.headers["Location"].startswith("/jobs?state=failed&done=")
    page = dashboard.ask("GET", reply.headers["Location"], Cookie=cookie).text
    assert ": requeued" in page
    assert "PWNED" not in dashboard.ask("GET", "/jobs?done=PWNED", Cookie=cookie).text
