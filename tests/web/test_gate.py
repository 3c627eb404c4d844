"""What each request passes, over HTTP."""

import contextlib
import socket
import time
from functools import partial

import pytest

from fusiond.web import door, site
from fusiond.web.access import EndedSessions
from tests.support.running import until

PAGES = ("/", "/queues", "/workers", "/cron")


def test_nobody_comes_in_without_the_token(dashboard):
    """A browser is sent to the login, a program gets 401; neither sees anything of a page."""
    for path in PAGES:
        reply = dashboard.ask("GET", path)
        assert (reply.status, reply.headers["Location"].partition("?")[0], reply.text) == (303, "/login", "")
    reply = dashboard.ask("GET", "/api/v1/queues")
    assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert reply.json == {"error": "log in, or send the header `Authorization: Bearer <token>`"}
    for wrong in ("x", dashboard.token[:-1], ""):
        assert dashboard.get("/api/v1/queues", Authorization=f"Bearer {wrong}").json == {"error": "the token is wrong"}


def test_a_session_begins_with_the_token(dashboard):
    """Its cookie is out of reach for scripts and for other sites, and opens every page."""
    assert dashboard.log_in("wrong").status == 401
    reply = dashboard.log_in()
    assert (reply.status, reply.headers["Location"]) == (303, "/")
    cookie = reply.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert dashboard.token not in cookie
    for path in PAGES:
        page = dashboard.ask("GET", path, Cookie=cookie.partition(";")[0])
        assert page.status == 200, page.text
        assert "<h1>" in page.text


def test_a_session_ends_when_its_user_logs_out(dashboard):
    """Whoever has copied its cookie has nothing; another session goes on. A restart forgets none."""
    own, others = (dashboard.log_in().headers["Set-Cookie"].partition(";")[0] for _ in range(2))
    with connected(dashboard, f"GET /live HTTP/1.1\r\nHost: {dashboard.host}\r\nCookie: {own}\r\n\r\n") as page:
        assert b"200 OK" in page.recv(4096)
        assert dashboard.ask("POST", "/logout", "", Cookie=own, Origin=f"http://{dashboard.host}").status == 303
        until(lambda: page.recv(4096) == b"")
    assert [dashboard.ask("GET", "/queues", Cookie=each).status for each in (own, others)] == [303, 200]
    ended = EndedSessions(dashboard.directory / "web-ended")
    assert [each.partition("=")[2] in ended for each in (own, others)] == [True, False]
    act = dashboard.ask("POST", "/queues/default/suspend", "", Cookie=own, Origin=f"http://{dashboard.host}")
    assert (act.status, "so nothing was done; log in" in act.text) == (401, True)


def test_a_cookie_is_for_tls_alone_where_the_browser_uses_it(open_dashboard):
    """Which its Origin says, though a proxy ends the TLS."""
    with open_dashboard(hosts=("jobs.example.com",)) as dashboard:
        form = f"token={dashboard.token}"
        for scheme, secure in (("https", True), ("http", False)):
            reply = dashboard.ask(
                "POST", "/login", form, Host="jobs.example.com", Origin=f"{scheme}://jobs.example.com"
            )
            assert ("Secure" in reply.headers["Set-Cookie"]) is secure


def test_wrong_tokens_are_logged_and_slow(dashboard, monkeypatch, caplog):
    """In the form and in the header; those for a probe's path take no place of a probe."""
    monkeypatch.setattr(site, "SLOW", 0.3)
    monkeypatch.setattr(door, "MOST_PROBES", 0)
    for guess in (partial(dashboard.log_in, "wrong"), partial(dashboard.get, "/metrics", Authorization="Bearer x")):
        dashboard.program._site._logged_at, began = float("-inf"), time.monotonic()
        assert guess().status == 401
        assert time.monotonic() - began > 0.3
    said = "127.0.0.1 gave a wrong token for {}; further ones are not logged for a minute"
    assert [line for line in caplog.messages if "token" in line] == [said.format(at) for at in ("/login", "/metrics")]


def connected(dashboard, request):
    """A connection on which this request was sent."""
    sock = socket.create_connection(("127.0.0.1", dashboard.port), timeout=30)
    sock.sendall(request.encode())
    return sock


@pytest.mark.parametrize("path", ["/login", "/api/v1/queues/default/suspend"])
def test_a_request_that_is_broken_off_is_no_fault_of_ours(dashboard, caplog, path):
    """Nothing is logged."""
    head = f"Host: {dashboard.host}\r\nOrigin: http://{dashboard.host}\r\nAuthorization: Bearer {dashboard.token}"
    with connected(dashboard, f"POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: 9\r\n\r\ntoken="):
        running = dashboard.program._site.door._running
        until(running.total)
    until(lambda: not running.total())
    dashboard.get("/queues")  # once it is answered, what became of the other one is logged
    assert caplog.messages == [line for line in caplog.messages if "is on http" in line]


def test_each_answer_keeps_the_browser_from_foreign_code(dashboard):
    """No script or style but ours is run, on a page, a refusal or the login; no page has either in its text."""
    for path in (*PAGES, "/login", "/nothing", "/jobs?limit=x"):
        reply = dashboard.get(path)
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["X-Frame-Options"] == "DENY"
        assert reply.headers["Cache-Control"] == "no-store"
        assert "<script>" not in reply.text
        assert " style=" not in reply.text
        assert " onclick=" not in reply.text


def test_another_name_is_refused(dashboard):
    """A page of another site whose name points here gets nothing, even with the token."""
    reply = dashboard.get("/", Host="evil.example")
    assert reply.status == 421
    assert "evil.example" in reply.text
    assert dashboard.get("/static/app.css", Host="evil.example").status == 421


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "https://127.0.0.1"])
def test_a_change_from_another_site_is_refused(dashboard, desk, origin):
    """Though the browser sends the cookie."""
    cookie = dashboard.log_in().headers["Set-Cookie"].partition(";")[0]
    assert dashboard.ask("POST", "/queues/default/suspend", "", Cookie=cookie, Origin=origin).status == 403
    assert not desk.run(desk.verbs.counts("default")).suspended_by_operator
    own = f"http://{dashboard.host}"
    assert dashboard.ask("POST", "/queues/default/suspend", "", Cookie=cookie, Origin=own).status == 303
    assert desk.run(desk.verbs.counts("default")).suspended_by_operator


def test_read_only_refuses_every_change(open_dashboard, desk):
    """With the token, too; what only shows is shown, without buttons."""
    with open_dashboard(read_only=True) as dashboard:
        reply = dashboard.post("/api/v1/queues/default/suspend")
        assert (reply.status, "read_only" in reply.json["error"]) == (403, True)
        page = dashboard.get("/queues")
        assert page.status == 200
        assert "Suspend" not in page.text
    assert not desk.run(desk.verbs.counts("default")).suspended_by_operator


def test_a_proxy_names_the_user(open_dashboard):
    """Only in the header that the file names."""
    with open_dashboard(user_header="X-Forwarded-User") as dashboard:
        assert dashboard.ask("GET", "/queues", X_Forwarded_User="ada").status == 200
        assert dashboard.ask("GET", "/queues", X_Remote_User="ada").status == 303


def test_a_large_body_is_refused(dashboard):
    """By the length that it names; and if it names none, by what comes."""
    head = f"POST /login HTTP/1.1\r\nHost: {dashboard.host}\r\nOrigin: http://{dashboard.host}\r\n"
    body = b"x" * (1024 * 1024 + 1)
    chunk = f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    for request in (f"{head}Content-Length: {len(body)}\r\n\r\n".encode(), chunk):
        with socket.create_connection(("127.0.0.1", dashboard.port), timeout=30) as sock:
            # The server answers before it has read everything, and hangs up.
            with contextlib.suppress(ConnectionError):
                sock.sendall(request)
            assert sock.recv(100).split()[1] == b"413"


def test_a_long_address_is_refused(dashboard):
    """It is never parsed."""
    assert dashboard.get("/jobs?text=" + "x" * 9000).status == 414


def test_a_link_leads_to_a_page_of_ours(dashboard):
    """Who logs in by a crafted link is not sent to another site."""
    for back in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        form = f"token={dashboard.token}&back={back}"
        reply = dashboard.ask("POST", "/login", form, Origin=f"http://{dashboard.host}")
        assert reply.headers["Location"] == "/"


def test_a_new_token_and_a_new_address_take_effect_in_place(dashboard, tmp_path):
    """A reload ends the sessions of the former token; a token that cannot be read changes nothing."""
    cookie = dashboard.log_in().headers["Set-Cookie"].partition(";")[0]
    dashboard.apply(token_file=str(tmp_path / "missing"), read_only=True)
    assert dashboard.ask("GET", "/queues", Cookie=cookie).status == 200
    other = tmp_path / "token"
    other.write_text("another-token-of-some-length")
    dashboard.apply(token_file=str(other), read_only=False)
    assert dashboard.ask("GET", "/queues", Cookie=cookie).status == 303
    assert dashboard.get("/queues", Authorization=f"Bearer {other.read_text()}").status == 200
