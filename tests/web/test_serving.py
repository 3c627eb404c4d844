"""The program: it listens, waits for its address, and ends."""

import contextlib
import grp
import os
import socket

import pytest

from fusiond.web import serving
from fusiond.web.listening import url_of
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


def test_it_listens_on_a_socket(open_dashboard, caplog, tmp_path):
    """Also where one was left; the daemon's user and its group may connect. At the end it is gone."""
    path = tmp_path / "run" / "web.sock"
    with socket.socket(socket.AF_UNIX) as left, contextlib.chdir(tmp_path):
        (tmp_path / "left").mkdir()
        left.bind("left/web.sock")
    with open_dashboard(listen=f"unix:{tmp_path}/left/web.sock", user_header="X-Forwarded-User") as dashboard:
        assert dashboard.ask("GET", "/queues", X_Forwarded_User="ada").status == 200
        dashboard.apply(listen=f"unix:{path}")
        until(lambda: str(path) in (dashboard.runtime / "web.url").read_text())
        assert dashboard.log_in().status == 303
        found = path.stat()
        assert (found.st_mode & 0o777, found.st_gid, path.parent.stat().st_mode & 0o777) == (0o660, os.getegid(), 0o711)
        assert dashboard.ask("GET", "/queues", Authorization="Bearer wrong").status == 401
        until(lambda: not (tmp_path / "left" / "web.sock").exists())
        assert f"the dashboard is on unix:{path}" in caplog.text
        assert f"uid {os.geteuid()} gave a wrong token for /queues" in caplog.text
    assert not path.exists()


def group_of(path):
    """None: the socket is not there, as for a moment while it is made for another group."""
    with contextlib.suppress(FileNotFoundError):
        return path.group()


def test_a_socket_is_given_to_the_group_that_the_file_names(open_dashboard, tmp_path):
    """A reload gives it to another one; a group that is not there is told, with what to do."""
    groups = [grp.getgrgid(number).gr_name for number in {os.getegid(), *os.getgroups()}]
    path = tmp_path / "web.sock"
    with open_dashboard(listen=f"unix:{path}", socket_group="no-such-group") as dashboard:
        assert "there is no group 'no-such-group'; groupadd no-such-group" in dashboard.program._refusal
        for group in groups:
            dashboard.apply(socket_group=group)
            until(lambda name=group: group_of(path) == name)
            until(lambda: dashboard.program._listens == dashboard.config.web)
            assert dashboard.get("/queues").status == 200


@pytest.mark.parametrize("there", ["a program", "a file"])
def test_what_is_in_the_way_of_the_socket_is_left_alone(open_dashboard, tmp_path, there):
    """A socket on which somebody listens, and what is none."""
    path = tmp_path / "web.sock"
    with socket.socket(socket.AF_UNIX) as other:
        if there == "a program":
            other.bind(str(path))
            other.listen()
        else:
            path.write_text("precious")
        with open_dashboard(listen=f"unix:{path}") as dashboard:
            said = {"a program": "is used by another program", "a file": "it is there, and is no socket"}[there]
            assert said in dashboard.program._refusal
    assert path.exists()
