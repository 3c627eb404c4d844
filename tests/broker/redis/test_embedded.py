"""The embedded Redis: one server on its files, whoever is killed when; nothing that was acknowledged is lost."""

import contextlib
import functools
import grp
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.redis import embedded
from fusiond.broker.redis.connection import connect
from fusiond.config import model
from fusiond.supervise.server import choose_server
from tests.support.running import MEMORY, PATIENCE, until


class Wrapper:
    """The program as the supervisor runs it, with its end of the link."""

    def __init__(self, directory, *options, socket_path=None, server=None, unread=False, hook=None):
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(PATIENCE)
        self.state, self.path = directory / "state", socket_path or directory / "run" / "redis.sock"
        self.tail = directory / "tail"
        words = ["--state", self.state, "--socket", self.path, "--server", server or choose_server().path, *options]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", embedded.__file__, *words],
            env={
                "FUSIOND_LINK": str(theirs.fileno()),
                "FUSIOND_TAIL": str(self.tail),
                "PATH": os.environ["PATH"],
                **({"FUSIOND_HOOK": str(hook)} if hook else {}),
            },
            pass_fds=(theirs.fileno(),),
            stdout=full_pipe() if unread else subprocess.PIPE,
            text=True,
        )
        theirs.close()

    def hear(self):
        return json.loads(self.link.recv(65536))

    def ready(self):
        assert self.hear() == {"is": "ready"}
        return self

    @property
    def server(self):
        return int((self.state / "server.pid").read_text())

    def end(self):
        """Its exit status and all that it and its server printed, once both are gone."""
        output, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output

    def run(self, *words):
        with connect(model.Broker(url=f"unix://{self.path}"), Path("/")) as connection:
            return connection.run(plain(as_is, *words))


@pytest.fixture
def directory():
    """Short: a socket's path can have 107 bytes. In memory: a server that is killed must not have waited for a disk."""
    path = Path(tempfile.mkdtemp(prefix="fu", dir=MEMORY if MEMORY.is_dir() else None))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start(directory):
    started = []

    def start(*options, **more):
        started.append(Wrapper(directory, *options, **more))
        return started[-1]

    yield start
    for wrapper in started:
        wrapper.link.close()
        if wrapper.process.poll() is None:
            wrapper.process.wait(PATIENCE)
        if wrapper.process.stdout:
            wrapper.process.stdout.close()
    assert servers_in(directory / "state") == []


@functools.cache
def full_pipe():
    """A pipe that takes nothing any more; its reader stays open."""
    _, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while os.write(writer, b"x" * size):
                pass
    os.set_blocking(writer, True)
    return writer


def servers_in(state):
    """The pids of all servers that work in this state directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").samefile(state) and b"server" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_private_durable_and_does_not_evict(start, directory):
    """A socket that only this user may open, no port, an append-only file, no eviction."""
    wrapper = start().ready()
    config = wrapper.run("CONFIG", "GET", "*")
    options = dict(zip(config[::2], config[1::2], strict=True))
    assert options[b"appendonly"] == b"yes"
    assert options[b"appendfsync"] == b"everysec"
    assert options[b"maxmemory-policy"] == b"noeviction"
    assert options[b"rdbcompression"] == b"no"
    assert (options[b"port"], options[b"save"]) == (b"0", b"")
    assert (mode(directory / "run"), mode(wrapper.path), mode(wrapper.state)) == (0o700, 0o600, 0o700)


def test_the_server_has_no_variables_of_the_daemon(start, directory, monkeypatch):
    """Neither the daemon's secrets nor its settings of the memory allocator; its own keep free memory at hand."""
    monkeypatch.setenv("PASSWORD_OF_SOMETHING", "secret")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
    # The server itself may write its title over all of them.
    server = directory / "server"
    server.write_text(f'#!/bin/sh\nenv >"{directory}/environment"\nexec "{choose_server().path}" "$@"\n')
    server.chmod(0o700)
    start(server=server).ready()
    environment = (directory / "environment").read_text()
    assert "GLIBC_TUNABLES=glibc.malloc.tcache_count=16000\n" in environment
    assert "secret" not in environment
    assert "tcache_count=0" not in environment


def test_it_ends_on_sigterm_with_its_file_written(start):
    """Exit 0; the next one has what this one had."""
    first = start().ready()
    first.run("SET", "a", "b")
    first.process.terminate()
    assert first.end()[0] == 0
    assert start().ready().run("GET", "a") == b"b"


def test_each_line_is_a_json_object(start):
    """With --json: the server's lines and the wrapper's own, to the last one before its end; in the tail file too."""
    wrapper = start("--json").ready()
    wrapper.process.terminate()
    status, output = wrapper.end()
    lines = [json.loads(line) for line in output.splitlines()]
    assert status == 0
    assert all({"time", "level", "program", "message"} <= line.keys() for line in lines)
    assert any("Ready to accept connections" in line["message"] for line in lines)
    assert "bye bye" in lines[-1]["message"]
    assert wrapper.tail.read_text() == output


@pytest.mark.proof
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_who_does_not_read_the_log_stops_neither_the_server_nor_its_program(start, options):
    """A stopped terminal, a stalled log driver: both answer, before and after the server has something to log."""
    wrapper = start(*options, unread=True).ready()
    for _ in range(3):
        wrapper.run("CONFIG", "SET", "loglevel", "debug")
        wrapper.run("BGREWRITEAOF")
        until(lambda: b"aof_rewrite_in_progress:0" in wrapper.run("INFO", "persistence"))
        wrapper.link.send(json.dumps({"do": "answer", "n": 7}).encode())
        assert wrapper.hear() == {"is": "alive", "n": 7}
        assert wrapper.hear() == {"is": "checked", "n": 7, "trouble": ""}
    wrapper.process.terminate()
    assert wrapper.process.wait(PATIENCE) == 0


def test_it_ends_when_the_supervisor_does(start):
    """EOF on the link: the server ends too, and nothing is lost."""
    first = start().ready()
    first.run("SET", "a", "b")
    first.link.close()
    assert first.end()[0] == 0
    assert not first.path.exists()
    assert start().ready().run("GET", "a") == b"b"


def test_a_killed_wrapper_takes_its_server_along(start):
    """By kill -9: the kernel ends the server, and a new wrapper waits for that."""
    first = start().ready()
    first.run("SET", "a", "b")
    first.process.kill()
    second = start().ready()
    assert second.run("GET", "a") == b"b"
    assert servers_in(second.state) == [second.server]


def test_a_killed_server_is_told(start):
    """The wrapper ends with 1, for the supervisor to start it again; nothing that was acknowledged is lost."""
    first = start().ready()
    first.run("SET", "a", "b")
    os.kill(first.server, signal.SIGKILL)
    status, output = first.end()
    assert (status, "ERROR   redis  the server was killed by SIGKILL; its last lines are above" in output) == (1, True)
    assert start().ready().run("GET", "a") == b"b"


def test_a_server_that_was_left_is_ended_before_another_starts(start, directory):
    """No second server on the same files, even if the kernel has not ended the first."""
    state = directory / "state"
    state.mkdir()
    with (state / "lock").open("w") as lock:
        embedded.fcntl.flock(lock, embedded.fcntl.LOCK_EX)
        words = embedded.command(choose_server().path, state, directory / "old.sock", None)
        old = subprocess.Popen(words, cwd=state, pass_fds=(lock.fileno(),), stdout=subprocess.DEVNULL)
    (state / "server.pid").write_text(str(old.pid))
    until((directory / "old.sock").exists)
    with connect(model.Broker(url=f"unix://{directory}/old.sock"), Path("/")) as connection:
        connection.run(plain(as_is, "SET", "a", "b"))
    new = start().ready()
    assert old.wait(PATIENCE) == 0
    assert new.run("GET", "a") == b"b"
    assert servers_in(state) == [new.server]


def test_a_foreign_process_is_not_ended(directory):
    """A pid that is another process' by now is left alone."""
    state = directory / "state"
    state.mkdir()
    (state / "server.pid").write_text(str(os.getpid()))
    assert not embedded.ask_to_end(state)
    (state / "server.pid").write_text("junk")
    assert not embedded.ask_to_end(state)


def test_files_that_stay_in_use_are_told(start, directory, monkeypatch):
    """The lock is held by something that does not end: 78 and how to find it."""
    monkeypatch.setattr(embedded, "LEAVE", 0.2)
    state = directory / "state"
    state.mkdir()
    held = os.open(state / "lock", os.O_CREAT | os.O_RDWR)
    embedded.fcntl.flock(held, embedded.fcntl.LOCK_EX)
    watch = embedded.Watch(embedded.program.Link(), embedded.ServerOutput())
    try:
        with pytest.raises(embedded.CannotRun, match="in use by another server"):
            embedded.lock(state, watch)
    finally:
        os.close(held)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize(
    ("options", "more", "reason"),
    [
        (["--group", "no-such-group"], {}, "socket_group: there is no group 'no-such-group'"),
        ([], {"server": "/no/such/server"}, "cannot be started: No such file"),
    ],
)
def test_what_cannot_be_is_told_and_not_tried_again(start, options, more, reason):
    """`failed` with the reason and the remedy, exit 78."""
    wrapper = start(*options, **more)
    said = wrapper.hear()
    assert said["is"] == "failed"
    assert reason in said["reason"]
    status, output = wrapper.end()
    assert status == 78
    assert reason in output
    assert "Traceback" not in output


def test_a_server_that_cannot_read_its_file_is_not_said_to_be_ready(start, directory):
    """Its own words are in the log, exit 1."""
    (directory / "state" / "appendonlydir").mkdir(parents=True)
    (directory / "state" / "appendonlydir" / "appendonly.aof.manifest").write_text("junk\n")
    status, output = start().end()
    assert status == 1
    assert "ended by itself" in output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to any group")
def test_a_group_may_be_let_in(start, directory):
    """`broker.socket_group`: directory 0750, socket 0660, both of the group."""
    group = next(each for each in grp.getgrall() if each.gr_gid != 0)
    wrapper = start("--group", group.gr_name).ready()
    assert (mode(directory / "run"), mode(wrapper.path)) == (0o750, 0o660)
    assert {(directory / "run").stat().st_gid, wrapper.path.stat().st_gid} == {group.gr_gid}
    assert mode(wrapper.state) == 0o700


def test_a_ctrl_c_is_for_the_supervisor(start):
    """The server is in a process group of its own: SIGINT of a terminal does not reach it."""
    wrapper = start().ready()
    assert os.getpgid(wrapper.server) == wrapper.server != os.getpgid(wrapper.process.pid)
