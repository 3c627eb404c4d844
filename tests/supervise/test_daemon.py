"""The daemon as a process: crashes, loops of them, signals, its end, and what it leaves to its programs."""

import json
import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest

from tests.supervise.file import file, supervisorctl
from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, alive, until


def test_a_crash_loop_is_slowed_down(daemon):
    """A program that always crashes is started at once, after 0.5 s and after 1 s ± 20 %, not hundreds of times."""
    began = time.monotonic()
    daemon.start(file("main: {environment: {ACT: crash}}"), wait=False)
    until(lambda: len(daemon.heard("worker:main@1")) >= 4)
    assert time.monotonic() - began > 1.2
    shown = until(lambda: (one := daemon.programs()["worker:main@1"])["state"] == "BACKOFF" and one)
    assert shown["reason"] == "ended with status 3"


def test_a_killed_daemon_leaves_no_strays(daemon):
    """A kill -9 of the supervisor: each program sees its link end, and ends; a new daemon takes the directory over."""
    daemon.start(file("main: {}, other: {}"))
    pids = {program["pid"] for program in daemon.programs().values()}
    daemon.kill(daemon.process.pid)
    daemon.process.wait()
    until(lambda: not any(alive(pid) for pid in pids))
    daemon.start(file("main: {}, other: {}"))
    assert daemon.status()["generation"] == 1


def test_a_log_of_json_is_json_from_its_first_line(daemon):
    """The warnings of a start, too."""
    minutely = "cron: {often: {task: hello, schedule: '* 2 * * *'}}\nlogging: {format: json}\n"
    daemon.start(file("main: {}", more=minutely))
    said = [json.loads(line) for line in daemon.text().splitlines()]
    assert [line["level"] for line in said if "[every-minute]" in line["message"]] == ["warning"]


def test_a_second_signal_is_passed_on(daemon):
    """The programs are told again, which makes them end at once."""
    daemon.start(file("main: {environment: {ACT: stubborn}}"))
    daemon.signal(signal.SIGTERM)
    until(lambda: daemon.status()["ending"])
    daemon.signal(signal.SIGINT)
    until(lambda: "SIGINT again" in daemon.text())
    daemon.kill(daemon.pid("worker:main@1"))
    assert daemon.process.wait(PATIENCE) == 0


def test_a_program_that_the_daemon_ends_was_not_stopped_by_an_operator(daemon):
    """While it waits for the jobs of another program, `status` says which have ended, and nothing of an operator."""
    daemon.start(file("main: {environment: {ACT: stubborn}}, other: {}"))
    daemon.signal(signal.SIGTERM)
    until(lambda: daemon.programs()["worker:other@1"]["state"] == "STOPPED", daemon.text)
    assert not any(program["stopped_by_operator"] for program in daemon.programs().values())
    assert daemon.status()["unready"]["worker:other@1"] == "stopped"
    daemon.kill(daemon.pid("worker:main@1"))
    assert daemon.process.wait(PATIENCE) == 0


def test_a_program_that_does_not_end_is_killed(daemon):
    """SIGKILL follows SIGTERM after the group's drain_timeout and the time to settle (1 s here)."""
    daemon.start(file("main: {drain_timeout: 1s, environment: {ACT: stubborn}}"))
    began = time.monotonic()
    assert daemon.stop(40) == 0
    assert 1.9 < time.monotonic() - began < 35


def test_systemd_variables_stay_with_the_daemon(daemon):
    """No program, and so no job, can speak to systemd in the daemon's name."""
    path = str(daemon.directory / "notify")
    environment = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000", "LISTEN_FDS": "1"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        daemon.start(file("main: {}"), environment=environment)
    variables = daemon.heard("worker:main@1")[0]["environment"]
    assert not {*environment, "FUSIOND_LINK"} & set(variables)


def test_the_control_socket_is_the_users_alone(daemon):
    """Directory 0700, socket 0600; with control.group 0711 and 0660 for that group."""
    daemon.start(file("main: {}"))
    assert stat.S_IMODE(daemon.runtime.stat().st_mode) == 0o700
    assert stat.S_IMODE(daemon.control.stat().st_mode) == 0o600
    daemon.stop()
    if os.geteuid() == 0:
        daemon.start(file("main: {}") + "control: {group: daemon}\n")
        assert stat.S_IMODE(daemon.runtime.stat().st_mode) == 0o711
        assert stat.S_IMODE(daemon.control.stat().st_mode) == 0o660
        assert daemon.control.stat().st_gid == 1


def test_supervisorctl_works_against_it(daemon):
    """status, stop, start, restart and tail; what changes the set of programs is refused."""
    daemon.start(file("main: {}"))
    assert "RUNNING" in supervisorctl(daemon, "status", "worker:main@1")
    before = daemon.pid("worker:main@1")
    supervisorctl(daemon, "restart", "worker:main@1")
    assert daemon.pid("worker:main@1") not in (None, before)
    assert "ERROR" in supervisorctl(daemon, "update").upper()
    assert "ERROR" in supervisorctl(daemon, "remove", "worker").upper()
    assert daemon.names() == {"scheduler", "worker:main@1"}
    (daemon.state / "tail" / "worker:main@1.log").write_text("what it logged\n")
    assert "what it logged" in supervisorctl(daemon, "tail", "worker:main@1")


@pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace needs root")
def test_as_pid_1_it_reaps_orphans(daemon):
    """In a container, whatever a job left behind is waited for, and a reload's helper still gets its status."""
    daemon.command = ("unshare", "--pid", "--fork", "--kill-child", *daemon.command)
    daemon.start(file("main: {environment: {ACT: orphan}}"))
    assert daemon.status()["pid"] == 1
    (inside,) = _children(daemon.process.pid)
    assert daemon.reload(file("main: {processes: 2, environment: {ACT: orphan}}"))["result"] in ("applied", "unchanged")
    # The program server, the scheduler and the dispatcher; the grandchild was adopted, ended, and is not a zombie.
    until(lambda: len(_children(inside)) == 3)
    os.kill(inside, signal.SIGTERM)
    assert daemon.process.wait(PATIENCE) == 0


def _children(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("name", ["owner.json", "daemon-id", "lock"])
def test_a_state_directory_that_cannot_be_written_is_a_sentence(tmp_path, name):
    """Here a directory is where a file must be; a full disk fails at the same places."""
    (tmp_path / "state" / name).mkdir(parents=True)
    text = f"version: 1\nstate_directory: {tmp_path}/state\ntasks: {{t: {{run: os.getpid}}}}\nworkers: {{main: {{}}}}\n"
    (tmp_path / "fusion.yaml").write_text(text)
    done = fusiond("run", "-c", "fusion.yaml", cwd=tmp_path)
    assert done.status != 0
    assert f"fusiond: {tmp_path}/state" in done.err
