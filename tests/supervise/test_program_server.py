"""The process that forks the programs: what they get from it, and that nothing depends on it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.supervise.file import file
from tests.support.running import PATIENCE, alive, descriptors, until


def program_server(daemon):
    """Its pid; None: there is none."""
    pids = Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children").read_text().split()
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # a child that has ended meanwhile
            if Path(f"/proc/{pid}/comm").read_text() == "program server\n":
                return int(pid)
    return None


def test_a_program_is_a_child_of_the_daemon_that_ps_shows_by_its_name(daemon):
    """It leads a session of its own, and its command line says whose program it is."""
    daemon.start(file("main: {}"))
    pid = daemon.pid("worker:main@1")
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert (int(state[1]), os.getsid(pid), os.getpgid(pid)) == (daemon.process.pid, pid, pid)
    shown = Path(f"/proc/{pid}/cmdline").read_bytes()
    assert shown.startswith(b"fusiond worker:main@1: run -c ")
    assert os.fsencode(daemon.file) in shown


def test_a_program_has_nothing_of_the_daemon_and_of_another_program(daemon):
    """Neither a descriptor nor the terminal; and the daemon's limit of open files, not the one before."""
    # With a variable of Python's it is a new interpreter, with whatever its libraries have opened.
    daemon.start(file("main: {}, other: {}"), environment={"PYTHONHASHSEED": "0"})
    server = program_server(daemon)
    own = [daemon.process.pid, server, *(program["pid"] for program in daemon.programs().values())]
    names = [
        {name for name in descriptors(pid) if name.startswith(("socket:", "pipe:")) or "/lock" in name} for pid in own
    ]
    for number, some in enumerate(names):
        assert all(some.isdisjoint(others) for others in names[:number]), names
    assert len(names[1]) == 1
    # libffi maps code from its own file, in some versions, whenever ctypes needs more of it.
    assert len({"libffi" in " ".join(descriptors(pid)) for pid in own}) == 1
    for pid in own[1:]:
        assert Path(f"/proc/{pid}/fd/0").samefile(os.devnull)
        limits = [Path(f"/proc/{each}/limits").read_text() for each in (pid, daemon.process.pid)]
        assert len({line for text in limits for line in text.splitlines() if "open files" in line}) == 1


@pytest.mark.proof
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_programs_start_without_it(daemon, number):
    """Whether it has died or hangs: a killed program is back, a new one starts, and a reload is applied."""
    daemon.start(file("main: {}"))
    server, before = program_server(daemon), daemon.pid("worker:main@1")
    os.kill(server, number)
    if number == signal.SIGKILL:
        until(lambda: not alive(server))
    daemon.kill(before)
    until(lambda: daemon.programs()["worker:main@1"]["pid"] not in (None, before))
    until(lambda: daemon.programs()["worker:main@1"]["ready"])
    assert not alive(server)
    assert "the program server has ended or hangs" in daemon.text()
    assert daemon.reload(file("main: {environment: {NEW: new}}, other: {}"))["result"] == "applied"
    until(lambda: daemon.names() == {"scheduler", "worker:main@2", "worker:other@2"}, daemon.names)


def test_it_ends_with_a_killed_daemon_also_while_it_is_stopped(daemon):
    """A new daemon must find no strays."""
    daemon.start(file("main: {}"))
    server = program_server(daemon)
    os.kill(server, signal.SIGSTOP)
    daemon.kill(daemon.process.pid)
    daemon.process.wait()
    until(lambda: not alive(server))


def test_it_ends_where_the_daemon_does_not_start(daemon):
    """A file that cannot be used: nothing is left."""
    daemon.start("version: 1\ntasks: [\n", wait=False)
    assert daemon.process.wait(PATIENCE) == 78
    until(lambda: not daemon.children())


def test_what_programs_need_is_loaded_once_before_them(tmp_path):
    """Each program that is forked finds it loaded, and does not load it for itself."""
    (tmp_path / "late.py").write_text("import os\nloaded_by = os.getpid()\ndef main(): print(loaded_by, os.getpid())\n")
    script = """
import os, socket, sys
from fusiond.supervise.program_server import ProgramServer, Start
sys.path.append(os.getcwd())
import late
server, ends = ProgramServer(), socket.socketpair()
for name in "ab":
    os.waitpid(server.fork(Start("late:main", [], [], ends[0].fileno(), {"FUSIOND_PROGRAM": name})), 0)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    (loader, first), (again, second) = (line.split() for line in done.stdout.splitlines())
    assert loader == again
    assert len({loader, first, second}) == 3


def test_no_file_is_taken_for_a_standard_stream_that_is_closed(tmp_path):
    """Programs keep the standard streams: a lock among them would outlive the daemon."""
    script = "import sys; from fusiond.cli.daemon import _prepare_process; _prepare_process(); open(sys.argv[1], 'a+')"
    script += "; print(open(sys.argv[1]).fileno(), file=open(sys.argv[2], 'w'))"
    words = [sys.executable, "-c", script, str(tmp_path / "lock"), str(tmp_path / "number")]
    subprocess.run(["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *words], check=True)
    assert int((tmp_path / "number").read_text()) > 2


def test_no_module_of_the_working_directory_is_loaded(tmp_path):
    """`python -m` puts it first; it may be a user's."""
    (tmp_path / "hiredis.py").write_text("raise SystemExit('not the package')")
    (tmp_path / "fusion.yaml").write_text("version: 1\ntasks: [\n")
    command = [sys.executable, "-m", "fusiond.cli", "run", "-c", "fusion.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "not the package" in done.stderr) == (78, False)
