"""How many connections and requests there may be, and how long each may be silent; over real sockets."""

import http.client
import socket
from contextlib import ExitStack, closing

import pytest

from fusiond.web import door, gate
from tests.support.running import until


def connect(dashboard, source="127.0.0.1"):
    return closing(socket.create_connection(("127.0.0.1", dashboard.port), 30, (source, 0)))


def status(sock):
    answer = http.client.HTTPResponse(sock)
    answer.begin()
    answer.read()
    return answer.status


def is_closed(sock):
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def is_refused(sock, data):
    try:
        sock.sendall(data)
    except OSError:
        return True
    return False


@pytest.mark.parametrize("sources", [["127.0.0.1"], [f"127.0.1.{n}" for n in range(1, 100)]])
def test_silent_connections_lock_nobody_out(dashboard, monkeypatch, sources):
    """300 of them, from one address or from many, that never end: probes, pages and metrics answer all the same."""
    monkeypatch.setattr(door, "HEADER", 3600.0)
    with ExitStack() as stack:
        for number in range(300):
            stack.enter_context(connect(dashboard, sources[number % len(sources)]))
        for path in ("/livez", "/readyz"):
            assert dashboard.ask("GET", path).status in (200, 503)
        for path in ("/metrics", "/queues"):
            assert dashboard.get(path).status == 200


def test_a_header_must_come_in_time(dashboard, monkeypatch):
    """Of the first request and of each further one, however steadily its bytes come."""
    monkeypatch.setattr(door, "HEADER", 3600.0)
    request = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connect(dashboard) as slow:
        slow.sendall(request)
        assert status(slow) == 503
        until(lambda: dashboard.program._site.door._silent)
        # The time for the next header has begun; what is short is that for the one behind it.
        monkeypatch.setattr(door, "HEADER", 0.3)
        slow.sendall(request)
        assert status(slow) == 503
        until(lambda: is_refused(slow, b"G"), step=0.05)
        with connect(dashboard) as silent:
            assert is_closed(silent)


def test_a_body_must_come_in_time(dashboard, monkeypatch):
    """The login takes one from everybody: 408, and the connection is closed."""
    monkeypatch.setattr(gate, "PATIENCE", 0.2)
    note_gone = door.Door.note_gone

    def hurry(self, visit):
        """The header is there; once the request is refused, the connection is closed soon."""
        note_gone(self, visit)
        monkeypatch.setattr(door, "HEADER", 0.2)

    monkeypatch.setattr(door.Door, "note_gone", hurry)
    with connect(dashboard) as sock:
        sock.sendall(
            f"POST /login HTTP/1.1\r\nHost: {dashboard.host}\r\nOrigin: http://{dashboard.host}\r\n"
            "Content-Length: 100\r\n\r\ntoken=".encode()
        )
        assert status(sock) == 408
        assert is_closed(sock)


def test_an_answer_must_be_taken(dashboard, monkeypatch):
    """Who asks again and again and reads nothing keeps no place."""
    monkeypatch.setattr(gate, "PATIENCE", 0.2)
    request = f"GET /static/app.css HTTP/1.1\r\nHost: {dashboard.host}\r\n\r\n".encode()
    with connect(dashboard) as sock:
        # The connection may be closed before all of them are sent.
        is_refused(sock, request * 5_000)
        until(lambda: not dashboard.program._server.server_state.connections)


def open_streams(dashboard, stack, number, source):
    """The statuses of so many pages that are kept open."""
    request = f"GET /live HTTP/1.1\r\nHost: {dashboard.host}\r\nAuthorization: Bearer {dashboard.token}\r\n\r\n"
    found = []
    for _ in range(number):
        sock = stack.enter_context(connect(dashboard, source))
        sock.sendall(request.encode())
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        found.append(answer.status)
    return found


def test_one_address_has_some_of_the_places(open_dashboard, monkeypatch):
    """Beyond them it gets 429, other addresses and the probes are served; a trusted proxy has no such bound."""
    monkeypatch.setattr(door, "MOST_OF_ONE", 3)
    with open_dashboard(trusted_proxies=("127.0.7.0/24",)) as dashboard, ExitStack() as stack:
        assert open_streams(dashboard, stack, 5, "127.0.0.1") == [200, 200, 200, 429, 429]
        assert dashboard.get("/queues").status == 429
        assert dashboard.ask("GET", "/livez").status == 503
        assert "not answer" in dashboard.ask("GET", "/livez").text
        assert open_streams(dashboard, stack, 1, "127.0.0.9") == [200]
        assert open_streams(dashboard, stack, 6, "127.0.7.7") == [200] * 6
        stack.close()
        until(lambda: dashboard.get("/queues").status == 200)


def test_probes_have_places_of_their_own(dashboard, monkeypatch):
    """While requests have all others."""
    monkeypatch.setattr(door, "MOST", 2)
    with ExitStack() as stack:
        assert open_streams(dashboard, stack, 2, "127.0.0.1") == [200, 200]
        assert dashboard.get("/queues").status == 503
        assert dashboard.get("/metrics").status == 200
        assert dashboard.ask("GET", "/readyz").text == "not ready\n"
