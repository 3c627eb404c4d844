"""What a job has printed, on its page and in the API."""

import json

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.hosts.outputs import OutputAnswer, OutputPart
from fusiond.broker.records import NewJob
from fusiond.config.model.web_face import Role
from fusiond.inspecting.output_question import OutputFound
from fusiond.web.pages import output_pages
from tests.web.test_rights import HEADERS, ask

DAY = 86_400
EVIL = "\x1b[31m<script>alert(1)</script>\x1b[0m s3cret-code \x1b]8;;http://x\x07\n"


@pytest.fixture
def hosts(monkeypatch):
    """Two daemons, of which one has something about any job; what they were asked."""
    asked = []

    def answer(verbs, job, attempt=None, after=None, *, queue=None):
        asked.append((job, attempt, after, queue))
        yield from verbs.output_hosts()
        answers = [OutputAnswer("d", "web1", (OutputPart(1, 1_700_000_000_000, EVIL),), "[3]", more=True)]
        return OutputFound(answers, [], is_kept=True, after={**(after or {}), "d": "[3]", "other": "[0]"})

    monkeypatch.setattr(output_pages, "ask", answer)
    return asked


def test_what_hosts_answer_is_shown_without_secrets_and_markup(open_dashboard, desk, hosts):
    """In parts: the next question goes on behind what has come; only those are told of whom there is something."""
    desk.run(desk.verbs.enqueue("default", [NewJob("a", "send", b'[[],{"password":"s3cret-code"}]')]))
    with open_dashboard(secret=("kwargs.password",)) as dashboard:
        found = dashboard.get("/api/v1/jobs/default/a/output").json
        assert [(part["attempt"], part["host"]) for part in found["parts"]] == [(1, "web1")]
        assert found["parts"][0]["text"] == EVIL.replace("s3cret-code", "•••")
        assert (found["after"], found["more"], found["ended"], found["note"]) == ({"d": "[3]"}, True, False, "")
        page = dashboard.get("/jobs/default/a/output?attempt=2&after=" + json.dumps(found["after"]).replace(" ", ""))
        assert hosts == [("a", None, {}, "default"), ("a", 2, {"d": "[3]"}, "default")]
        assert "&lt;script&gt;alert(1)&lt;/script&gt; ••• \n" in page.text
        assert "attempt=2&amp;after=%7B%22d%22" in page.text
        assert dashboard.get("/api/v1/jobs/default/b/output").status == 404
        for wrong in ("[]", '{"d":[3]}'):
            assert dashboard.get(f"/api/v1/jobs/default/a/output?after={wrong}").status == 400


def test_why_there_is_no_output(dashboard, desk):
    """The file does not ask for it; or the host that may have it is silent."""
    name = desk.enqueued("send")
    note = lambda: dashboard.get(f"/api/v1/jobs/{name}/output").json["note"]  # noqa: E731
    assert "`job_output: {}`" in note()
    desk.run(desk.verbs.keep_output("d", "web2"))
    desk.run(plain(as_is, "EXPIRE", f"{desk.verbs.keys.outputs}:d", 30 * DAY - 3 * 3600 - 300))
    assert "do not answer: web2, last seen 3 h 5 min ago." in note()


def test_output_of_another_queue_is_not_shown(open_dashboard, desk, hosts):
    """Whoever may enqueue chooses the id of a job: it has printed what that id has printed in the job's queue alone."""
    desk.run(desk.verbs.enqueue("reports", [NewJob("a", "report", b"[[],{}]")]))
    roles = {"one": Role(("read", "logs"), ("g",), ("rep*",)), "all": Role(("read", "logs"), ("all",))}
    with open_dashboard(roles=roles, **HEADERS) as dashboard:
        for group in ("g", "all"):
            assert ask(dashboard, group, "/api/v1/jobs/reports/a/output").status == 200
    assert [queue for *_, queue in hosts] == ["reports"] * 2


def test_the_page_has_a_link_to_the_store_of_logs(open_dashboard, desk):
    """With the id and the names in it, as a URL has them; without the right `logs` neither link nor panel."""
    desk.run(desk.verbs.enqueue("default", [NewJob("in:a", "send", b"[[],{}]")]))
    roles = {"one": Role(("read",), ("g",)), "all": Role(("read", "logs"), ("all",))}
    url = "https://logs.example.com/?q={job}&queue={queue}&in={task}&x={y}"
    with open_dashboard(log_url=url, roles=roles, **HEADERS) as dashboard:
        found = [ask(dashboard, group, "/api/v1/jobs/default/in:a").json["log_url"] for group in ("all", "g")]
        assert found == ["https://logs.example.com/?q=in%3Aa&queue=default&in=send&x={y}", ""]
        assert ['id="output"' in ask(dashboard, group, "/jobs/default/in:a").text for group in ("all", "g")] == [1, 0]
