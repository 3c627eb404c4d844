"""The program: it listens, waits for its address, and ends."""

import contextlib
import socket

import pytest

from fusiond.web import serving
from fusiond.web.serving import url_of
from tests.support.running import until


def test_an_address_that_is_taken_is_waited_for(open_dashboard, monkeypatch, caplog):
    """It says so once, and serves as soon as the address is free; meanwhile it does not end."""
    monkeypatch.setattr(serving, "AGAIN", 0.05)
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        open_dashboard(listen=f"127.0.0.1:{taken.getsockname()[1]}") as dashboard,
    ):
        assert "is used by another program" in dashboard.program._refusal
        taken.close()
        until((dashboard.runtime / "web.url").exists)
        assert dashboard.get("/queues").status == 200
        assert dashboard.program._refusal == ""
    assert len([line for line in caplog.messages if "used by another" in line]) == 1


def test_a_reload_moves_it(dashboard):
    """The new address serves, and the former one is closed."""
    before = dashboard.port
    dashboard.apply(listen="127.0.0.2:0")
    until(lambda: dashboard.host.startswith("127.0.0.2:"))
    assert dashboard.get("/queues").status == 200
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", before))


def test_it_ends_though_a_page_is_open(open_dashboard):
    """A stream of changes ends at once with the program; its address file is gone."""
    with open_dashboard() as dashboard:
        sock = socket.create_connection(("127.0.0.1", dashboard.port))
        sock.sendall(
            f"GET /live HTTP/1.1\r\nHost: {dashboard.host}\r\nAuthorization: Bearer {dashboard.token}\r\n\r\n".encode()
        )
        assert b"200 OK" in sock.recv(4096)
    with contextlib.suppress(ConnectionResetError):
        while sock.recv(4096):
            pass
    sock.close()
    assert not (dashboard.runtime / "web.url").exists()


def test_the_address_that_is_told_can_be_opened():
    """One that stands for all addresses is none for a browser."""
    assert url_of("127.0.0.1:0", 81) == "http://127.0.0.1:81/"
    assert url_of("0.0.0.0:81", 81) == "http://127.0.0.1:81/"
    assert url_of("[::]:81", 81) == "http://[::1]:81/"
