"""The daemon as a process: crashes, loops of them, signals, its end, and what it leaves to its programs."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fusiond.errors import ControlError
from fusiond.supervise.control import ask
from tests.supervise.file import file
from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, alive, descriptors, until


def test_a_crash_loop_is_slowed_down(daemon):
    """A program that always crashes is started at once, after 0.5 s and after 1 s ± 20 %, not hundreds of times."""
    began = time.monotonic()
    daemon.start(file("main: {environment: {ACT: crash}}"), wait=False)
    until(lambda: len(daemon.heard("worker:main@1")) >= 4)
    assert time.monotonic() - began > 1.2
    shown = until(lambda: (one := daemon.programs()["worker:main@1"])["state"] == "BACKOFF" and one)
    assert shown["reason"] == "ended with status 3"


def test_a_program_that_cannot_run_is_not_started_again(daemon):
    """Exit status 78 is FATAL, with the program's own reason; the other programs run."""
    daemon.start(file("main: {environment: {ACT: fail}}, other: {}"))
    programs = daemon.programs()
    assert programs["worker:main@1"]["state"] == "FATAL"
    assert programs["worker:main@1"]["reason"] == "shop.missing: no module named 'shop'"
    assert programs["worker:other@1"]["ready"]
    assert len(daemon.heard("worker:main@1")) == 1
    (line,) = [line for line in daemon.text().splitlines() if "2 of 3 programs ready" in line]
    assert " WARNING " in line


def test_a_killed_daemon_leaves_no_strays(daemon):
    """A kill -9 of the supervisor: each program sees its link end, and ends; a new daemon takes the directory over."""
    daemon.start(file("main: {}, other: {}"))
    pids = {program["pid"] for program in daemon.programs().values()}
    daemon.kill(daemon.process.pid)
    daemon.process.wait()
    until(lambda: not any(alive(pid) for pid in pids))
    daemon.start(file("main: {}, other: {}"))
    assert daemon.status()["generation"] == 1


def test_sigterm_ends_every_program_and_then_the_daemon(daemon):
    """Warm: status 0, nothing left, the control socket gone."""
    daemon.start(file("main: {}, other: {}"))
    assert daemon.stop() == 0
    until(lambda: not daemon.children())  # a helper ends with the daemon, a moment after it
    with pytest.raises(ControlError, match="no daemon listens"):
        ask(daemon.control, "status")


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


def test_a_program_that_the_daemon_ends_has_no_older_reason(daemon):
    """A scheduler that was killed, started again and then ended with the daemon is stopped, not killed."""
    daemon.start(file("main: {environment: {ACT: stubborn}, drain_timeout: 1m}"))
    before = daemon.pid("scheduler")
    daemon.kill(before)
    until(lambda: daemon.status()["ready"] and daemon.pid("scheduler") != before)
    daemon.signal(signal.SIGTERM)
    until(lambda: "scheduler ended with status 0" in daemon.text())
    assert daemon.status()["unready"]["scheduler"] == "stopped"
    daemon.kill(daemon.pid("worker:main@1"))


def test_a_program_that_does_not_end_is_killed(daemon):
    """SIGKILL follows SIGTERM after the group's drain_timeout and the time to settle (1 s here)."""
    daemon.start(file("main: {drain_timeout: 1s, environment: {ACT: stubborn}}"))
    began = time.monotonic()
    assert daemon.stop(40) == 0
    assert 1.9 < time.monotonic() - began < 35


def test_systemd_variables_stay_with_the_daemon(daemon):
    """No program, and so no job, can speak to systemd in the daemon's name."""
    path = daemon.directory / "notify"
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(path))
        systemd.settimeout(PATIENCE)
        environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "400000", "LISTEN_FDS": "1"}
        daemon.start(file("main: {}"), environment=environment)
        variables = daemon.heard("worker:main@1")[0]["environment"]
        assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "FUSIOND_LINK"} & set(variables)
        said = _until_said(systemd, "READY=1")
        assert "STATUS=2 of 2 programs ready" in said[-1]
        assert "WATCHDOG=1" in _until_said(systemd, "WATCHDOG=1")[-1]
        daemon.reload("workers: 3\n")
        said = _until_said(systemd, "READY=1")
        reloading = next(one for one in said if "RELOADING=1" in one)
        assert "MONOTONIC_USEC=" in reloading
        assert "refused" in said[-1]
        daemon.stop()
        assert "STOPPING=1" in _until_said(systemd, "STOPPING=1")[-1]


def _until_said(systemd, word):
    said = []
    while not said or word not in said[-1]:
        said.append(systemd.recv(4096).decode())
    return said


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
    assert "RUNNING" in _supervisorctl(daemon, "status", "worker:main@1")
    before = daemon.pid("worker:main@1")
    _supervisorctl(daemon, "restart", "worker:main@1")
    assert daemon.pid("worker:main@1") not in (None, before)
    assert "ERROR" in _supervisorctl(daemon, "update").upper()
    assert "ERROR" in _supervisorctl(daemon, "remove", "worker").upper()
    assert daemon.names() == {"scheduler", "worker:main@1"}
    (daemon.state / "tail" / "worker:main@1.log").write_text("what it logged\n")
    assert "what it logged" in _supervisorctl(daemon, "tail", "worker:main@1")


def _supervisorctl(daemon, *arguments):
    command = [sys.executable, "-m", "supervisor.supervisorctl", "-s", f"unix://{daemon.control}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.proof
def test_an_idle_daemon_sleeps(daemon):
    """No polling loop: between two questions to the programs, 5 s apart, only the thread that watches files wakes."""
    daemon.start(file("main: {}, other: {}"))

    def turns():
        # watchfiles asks every 50 ms; benchmarks/idle.py says what that costs.
        lines = Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))

    # It has to come to rest first, and a question may fall into the first two seconds; a loop that polls has none.
    until(lambda: _same_after(turns, 2.0))


def _same_after(count, seconds):
    before = count()
    time.sleep(seconds)  # how long nothing happens is the subject
    return count() - before <= 1


def test_nothing_but_the_link_is_inherited(daemon):
    """A program has standard streams, its link, and what it opened itself: no listening socket, no lock."""
    daemon.start(file("main: {}"))
    pid = daemon.pid("worker:main@1")
    assert not [name for name in descriptors(pid) if name.endswith(("/lock", ".json"))]
    before = _descriptors(daemon)
    for _ in range(5):
        daemon.kill(daemon.pid("worker:main@1"))
        _supervisorctl(daemon, "restart", "worker:main@1")
        until(lambda: daemon.programs()["worker:main@1"]["ready"])
    until(lambda: _descriptors(daemon) <= before)


def _descriptors(daemon):
    daemon.status()  # that its connection is there both times
    return len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))


@pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace needs root")
def test_as_pid_1_it_reaps_orphans(daemon):
    """In a container, whatever a job left behind is waited for, and a reload's helper still gets its status."""
    daemon.command = ("unshare", "--pid", "--fork", "--kill-child", *daemon.command)
    daemon.start(file("main: {environment: {ACT: orphan}}"))
    assert daemon.status()["pid"] == 1
    (inside,) = _children(daemon.process.pid)
    assert daemon.reload(file("main: {processes: 2, environment: {ACT: orphan}}"))["result"] in ("applied", "unchanged")
    # The program server, the scheduler and the dispatcher; the grandchild was adopted, ended, and is no zombie.
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
