"""Who may what: roles of a proxy's groups and of tokens, in all queues or some, over HTTP."""

import json
import re

import pytest
from starlette.routing import Route

from fusiond.broker.call import as_is, plain
from fusiond.broker.event_records import DAEMONS
from fusiond.broker.records import NewJob, Outcome
from fusiond.config.model.event_log import Events
from fusiond.config.model.web_face import READING, Role, Web, WebToken
from fusiond.errors import FusionError
from fusiond.web.access import read_tokens
from fusiond.web.application import ENDPOINTS
from fusiond.web.endpoint import API, BY_ACTION
from fusiond.web.rights import RIGHTS, User, granted
from tests.support.dashboard import Dashboard
from tests.web.conftest import CONFIG
from tests.web.test_failures import fail

#: what needs no login, and what only a login
OPEN = {"/login", "/livez", "/readyz"}
FOR_ALL = {"/logout", f"{API}/openapi.json"}
ROLES = {
    "support": Role(("read", "requeue", "enqueue"), ("support",), ("rep*",)),
    "ops": Role(("all",), ("sre",)),
    "reader": Role(("read", "read_arguments"), ("readers",)),
    "deploy": Role(("reload",)),
}
HEADERS = {"user_header": "X-Forwarded-User", "group_header": "X-Forwarded-Groups"}
EXAMPLES = {
    "queue": "reports",
    "id": "a",
    "run": "a",
    "flow": "etl",
    "step": "extract",
    "group": "0" * 16,
    "body": "0" * 12,
}
EXAMPLES |= {"entry": "nightly", "generation": "1", "kind": "tasks", "name": "send", "task": "send", "form": "csv"}

#: inputs without which a request is refused with 400
NEEDED = {"/jobs": {"task": "send"}, "/jobs/bulk": {"action": "requeue"}, "/jobs/selection": {"action": "requeue"}}
NEEDED |= {"/jobs/{queue}/{id}/priority": {"priority": "high"}}


@pytest.fixture
def opened(open_dashboard):
    """A dashboard with these roles."""
    with open_dashboard(roles=ROLES, **HEADERS) as found:
        yield found


def ask(dashboard, groups, path, said=None, method=None):
    """As ada of these groups, for whom a proxy asks; from a page of the dashboard."""
    headers = {"X_Forwarded_User": "ada", "Origin": f"http://{dashboard.host}"}
    headers |= {"X_Forwarded_Groups": groups} if groups is not None else {}
    method = method or ("GET" if said is None else "POST")
    return dashboard.ask(method, path, None if said is None else json.dumps(said), **headers)


def filled(path):
    """The path with a value for each of its parameters."""
    return re.sub("{([a-z]+)}", lambda found: EXAMPLES[found[1]], path)


@pytest.fixture
def jobs(desk):
    """A failed job of each of two queues, one of them with an argument in its error."""
    desk.run(desk.verbs.enqueue("reports", [NewJob("a", "report", b'[["swordfish"],{"mood":"sunny-side"}]')]))
    desk.settle("failed", "reports", code="EXCEPTION", type="ValueError", message="no swordfish", traceback="")
    fail(desk, "default", "send", "no stock")


# -- every route ------------------------------------------------------------------------------------------------------


def test_each_route_needs_a_right(opened):
    """Whoever has no role gets 403 everywhere, with a sentence; nothing is changed, and nothing shown."""
    asked = 0
    for route in opened.program._application.routes:
        if isinstance(route, Route) and route.path not in OPEN | FOR_ALL:
            for method in route.methods - {"HEAD"}:
                said = NEEDED.get(route.path.removeprefix(API), {})
                if not route.path.startswith(API) and method == "POST":
                    continue  # the same endpoint as that of the API, in another form
                reply = ask(opened, "nobody", filled(route.path), said if method == "POST" else None, method)
                assert reply.status == 403, (method, route.path, reply.text)
                assert "none of your groups has a role" in reply.text
                asked += 1
    assert asked > len(ENDPOINTS)


@pytest.mark.parametrize("right", RIGHTS)
def test_a_right_opens_its_endpoints_and_no_others(right):
    """Each endpoint has one right that exists; who has that one may use it, and nothing else."""
    user = User("ada", "10.0.0.5", roles=("one",), grants=granted([Role((right,))]))
    for each in ENDPOINTS:
        assert each.right in {*RIGHTS, BY_ACTION}
        assert each.right not in READING or each.method == "GET", each.path
        assert each.is_open_to(user) is (each.right == right), each.path


@pytest.mark.parametrize("action", ["requeue", "cancel", "delete"])
def test_an_act_over_a_filter_needs_the_right_of_the_act(open_dashboard, jobs, desk, action):
    """Which its input names; it changes jobs of the role's queues alone."""
    roles = {"one": Role((action,), ("g",), ("reports",))}
    with open_dashboard(roles=roles, **HEADERS) as dashboard:
        for other in ("requeue", "cancel", "delete"):
            reply = ask(dashboard, "g", f"{API}/jobs/bulk", {"action": other, "all": True})
            assert reply.status == (200 if other == action else 403)
        for said in ({"queue": "default"}, {"job": ["reports/a", "default/send80"]}):
            assert ask(dashboard, "g", f"{API}/jobs/bulk", {"action": action} | said).status == 403
        counted = {"action": action, "job": ["default/send80"]}
        key = dashboard.post(f"{API}/jobs/selection", counted).json["selection"]
        assert ask(dashboard, "g", f"{API}/jobs/bulk", {"action": action, "selection": key}).status == 404
    assert desk.run(desk.verbs.counts("default")).failed == 1


# -- who has which role -----------------------------------------------------------------------------------------------


def test_roles_are_those_of_the_groups_that_the_proxy_names(opened):
    """Several groups give the rights of all their roles; the header counts only beside that of the user."""
    status = lambda groups, path="/queues": ask(opened, groups, path).status  # noqa: E731
    assert [status(groups) for groups in ("support", "x, support ", "sre", "SRE", "", None)] == [200] * 3 + [403] * 3
    assert (status("support", "/workers"), status("support,readers", "/workers")) == (403, 200)
    assert opened.ask("GET", "/queues", X_Forwarded_Groups="sre").status == 303
    assert opened.get("/queues").status == 200, "the token that logs in may all"
    sentence = ask(opened, "support", f"{API}/queues/reports/suspend", {}).json["error"]
    assert sentence == "this needs the right `suspend` in queue reports, which your role support does not have"
    sentence = ask(opened, "support,readers", f"{API}/jobs/default/a/requeue", {}).json["error"]
    assert sentence == "this needs the right `requeue` in queue default, which your roles support, reader do not have"
    assert "the right `read` for all queues" in ask(opened, "support", f"{API}/workers").json["error"]


def test_a_token_has_its_role(open_dashboard, tmp_path):
    """It is read again at a reload; it does not log in."""
    path = tmp_path / "ci"
    path.write_text("first-token-of-the-ci\n")
    tokens = {"ci": WebToken(str(path), "deploy")}
    with open_dashboard(roles=ROLES, tokens=tokens) as dashboard:
        status = lambda token, path: dashboard.get(f"{API}{path}", Authorization=f"Bearer {token}").status  # noqa: E731
        assert (status(path.read_text().strip(), "/queues"), status("wrong-token-of-the-ci", "/queues")) == (403, 401)
        reply = dashboard.post(f"{API}/configuration/reload", Authorization=f"Bearer {path.read_text().strip()}")
        assert reply.status == 503, "it may, and there is no daemon here"
        assert dashboard.log_in(path.read_text().strip()).status == 401
        path.write_text("second-token-of-the-ci\n")
        dashboard.apply()
        assert (status("first-token-of-the-ci", "/queues"), status("second-token-of-the-ci", "/queues")) == (401, 403)
        path.write_text(dashboard.token)
        dashboard.apply()
        assert status("second-token-of-the-ci", "/queues") == 403, "two that are the same are refused"


def test_two_tokens_that_are_the_same_are_refused(tmp_path):
    """Otherwise one of them would have the rights of the other; the sentence names the file."""
    for name in ("one", "two"):
        (tmp_path / name).write_text("the-same-text-in-both")
    tokens = {name: WebToken(str(tmp_path / name), "deploy") for name in ("one", "two")}
    with pytest.raises(FusionError, match=f"{tmp_path}/two: another token of `web` is the same"):
        read_tokens(Web(tokens=tokens), tmp_path / "web-token")


def test_each_act_names_person_role_and_address(desk, tmp_path, caplog):
    """In the history that the page of the audit shows, and in the log; also of an act that leaves no event."""
    caplog.set_level("INFO", "fusiond.web.audit")
    desk.run(desk.verbs.keep_events("reports", "1000 0"))
    web = {"roles": ROLES, "trusted_proxies": ("127.0.0.1",), **HEADERS}
    with Dashboard(desk.settings, tmp_path, events=Events(), web=web, **CONFIG) as dashboard:
        origin = f"http://{dashboard.host}"
        named = {"X_Forwarded_User": "ada", "X_Forwarded_Groups": "sre,support", "X_Forwarded_For": "10.0.0.5"}
        for path, said in (("queues/reports/suspend", "{}"), ("jobs", '{"task": "report"}')):
            assert dashboard.ask("POST", f"{API}/{path}", said, Origin=origin, **named).status == 200
        [act] = ask(dashboard, "sre", f"{API}/audit?event=suspended").json["acts"]
        desk.run(desk.verbs.keep_events(DAEMONS, "1000 0"))
        desk.run(desk.verbs.record_event(DAEMONS, "cron.suspended", "ann", words=[("o", "nightly")]))
        seen = [ask(dashboard, group, f"{API}/audit").json["acts"] for group in ("sre", "support")]
        assert [[each["what"] for each in acts] for acts in seen] == [
            ["cron.suspended", "suspended"],
            ["suspended"],
        ]
    who = "ada (support, ops) from 10.0.0.5"
    assert act["who"] == f"dashboard by {who}"
    said = [line for line in caplog.messages if line.startswith(f"{who}: ")]
    assert ["suspended" in line or "is enqueued" in line for line in said] == [True, True]


# -- queues -----------------------------------------------------------------------------------------------------------


def test_a_role_with_queues_sees_nothing_of_others(opened, desk, jobs):
    """Lists, counts, searches, failures and the audit are of its queues; a page that is about all is refused."""
    read = lambda path: ask(opened, "support", f"{API}{path}").json  # noqa: E731
    assert [queue["name"] for queue in read("/queues")["queues"]] == ["reports"]
    found = read("/jobs")
    assert ([job["queue"] for job in found["jobs"]], found["queues"], found["tasks"]) == (
        ["reports"], ["reports"], ["report"],
    )  # fmt: skip
    assert [(group["task"], group["count"]) for group in read("/failures")["groups"]] == [("report", 1)]
    whole = ask(opened, "sre", f"{API}/failures").json
    assert len(whole["groups"]) == 2, "what one user is shown is not kept for another"
    assert [(group["task"], group["count"]) for group in read("/failures")["groups"]] == [("report", 1)]
    assert read("/limits")["names"] == ["reports"]
    for path in ("/jobs?queue=default", "/jobs/default/send80", "/failures?queue=default", "/limits?queue=default"):
        assert "in queue default" in read(path)["error"], path
    group = next(each["id"] for each in whole["groups"] if each["task"] == "send")
    assert ask(opened, "support", f"{API}/jobs/bulk", {"group": group, "action": "requeue"}).json["jobs"] == 0
    assert desk.run(desk.verbs.counts("default")).failed == 1


def test_a_page_without_the_right_is_not_in_the_navigation(opened, jobs):
    """Nor is a button; who may not see the overview comes to the first page that is open."""
    reply = ask(opened, "support", "/")
    assert (reply.status, reply.headers["Location"]) == (303, "/jobs")
    page = ask(opened, "support", "/jobs").text
    shown = re.findall('<li><a href="([^"]+)"', page)
    assert shown == ["/jobs", "/failures", "/queues", "/limits", "/broken", "/audit"]
    assert ('value="requeue"' in page, 'value="cancel"' in page, "Enqueue a job" in page) == (True, False, True)
    page = ask(opened, "support", "/jobs/reports/a").text
    assert (">Requeue<" in page, "Delete" in page) == (True, False)
    assert "Suspend" not in ask(opened, "support", "/queues").text
    page = ask(opened, "sre", "/queues").text
    assert ("Suspend" in page, '<li><a href="/outboxes"' in page) == (True, True)
    reply = ask(opened, "nobody", "/")
    assert (reply.status, "<nav" in reply.text, "<li>" in reply.text) == (403, True, False)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"task": "report"}, 200),
        ({"task": "send", "queue": "reports"}, 200),
        ({"task": "send"}, 403),
        ({"task": "none"}, 403),
        ({"task": "report", "queue": "default"}, 403),
        ({"task": "report", "on_success": {"task": "send"}}, 403),
        ({"task": "report", "after": ["default/x"]}, 403),
        ({"task": "report", "like": "default/x"}, 403),
        ({"task": "report", "like": "reports/a", "args": ["•••"]}, 200),
        ({"task": "none", "like": "no job's name"}, 400),
    ],
)
def test_jobs_are_enqueued_into_the_queues_of_the_role(opened, desk, jobs, said, status):
    """Into those of the task, or those that the call names; nor into others by a callback."""
    assert ask(opened, "support", f"{API}/jobs", said).status == status
    assert desk.run(desk.verbs.counts("default")).queued == 0


# -- arguments and output ---------------------------------------------------------------------------------------------


def test_arguments_are_a_right_of_their_own(opened, desk, jobs):
    """Without it neither they nor what was made of them is shown, nor found by a search; errors are, without them."""
    desk.run(desk.verbs.enqueue("reports", [NewJob("b", "report", b'[["swordfish"],{}]')]))
    desk.settle("finished", "reports", result={"caught": "sword", "pi": 3})
    desk.connection.run(plain(as_is, "LPUSH", "fusion:{reports}:inbox", '{"args": ["swordfish"'))
    desk.run(desk.verbs.rescue("reports"))
    for path in ("/jobs", "/jobs/reports/a", "/jobs/reports/b", "/failures", "/broken", "/audit"):
        for page in (path, f"{API}{path}"):
            reply = ask(opened, "support", page)
            assert reply.status == 200, page
            assert not re.search("swordfish|sunny|caught", reply.text) or path == "/failures", page
    story = ask(opened, "support", f"{API}/jobs/reports/a").json
    assert (story["args"], story["kwargs"], story["error"]) == (["•••"], {"mood": "•••"}, "ValueError: no •••")
    assert ask(opened, "support", f"{API}/jobs/reports/b").json["result"] == "•••"
    assert ask(opened, "support", f"{API}/jobs?text=swordfish").json["jobs"] == []
    assert len(ask(opened, "support,readers", f"{API}/jobs?text=swordfish").json["jobs"]) == 2
    assert ask(opened, "readers", f"{API}/jobs/reports/a").json["args"] == ["swordfish"]


@pytest.mark.parametrize(("rights", "seen"), [(("read",), ""), (("read", "logs"), "charging")])
def test_output_is_a_right_of_its_own(open_dashboard, desk, rights, seen):
    """What a job has printed."""
    name = desk.enqueued("report")
    job, token = desk.claim("reports")
    outcome = Outcome(job, token, "failed", 3_600_000, 0, b'{"code":"EXCEPTION"}', "", b"", b'"charging"')
    desk.run(desk.verbs.settle("reports", [outcome]))
    with open_dashboard(roles={"one": Role(rights, ("g",))}, **HEADERS) as dashboard:
        assert ask(dashboard, "g", f"{API}/jobs/{name}").json["printed"] == seen
