"""What each request passes, over HTTP."""

import contextlib
import socket

import pytest

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
