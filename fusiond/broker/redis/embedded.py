"""
Run a Redis of our own: the program behind `broker: {url: embedded}`.

1. lock    the state directory. The server inherits the lock, so that it is held while any server works on these files
2. clear   a server that a killed daemon left: ask it to end, and wait for the lock
3. check   that the server reads the data; one that cannot is not started
4. start   the server: append-only file, no eviction, a private unix socket, no port
5. ready   when it answers PING, however long it reads its file; note that this server writes the data from now on
6. stop    on SIGTERM, or when the supervisor's end of the link is closed; the server writes its file before it ends

If this program is killed, the kernel sends the server SIGTERM, and its file is complete.
Can be run as `python -I -S embedded.py …`, standard library only: no site-packages, 12 MB. Knows nothing of jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import functools
import grp
import importlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from typing import Any

#: seconds that an old server may take to write its file and end
LEAVE = 30.0
#: seconds between two looks at whether something has happened
GLANCE = 0.02
#: seconds that the last lines of the log may take
LAST_LINES = 2.0
_PR_SET_PDEATHSIG = 1

log = logging.getLogger("redis")
#: what the server prints
server_log = log.getChild("server")


def beside(name: str) -> Any:
    """A module of the package's ground floor, loaded from its file where this file is run without the package."""
    if __package__:
        return importlib.import_module(f"fusiond.{name}")
    spec = util.spec_from_file_location(name, Path(__file__).parents[2] / f"{name}.py")
    assert spec is not None  # noqa: S101 - it is in the package
    assert spec.loader is not None  # noqa: S101
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


logs, program, redis_server = map(beside, ("logs", "program", "redis_server"))

# Made before the program is forked: otherwise half a megabyte would be copied for it.
_PARSER = argparse.ArgumentParser(description="Run a Redis of our own.")
_PARSER.add_argument("--state", type=Path, required=True, help="where its files are")
_PARSER.add_argument("--socket", type=Path, required=True, help="where it listens")
_PARSER.add_argument("--group", help="the system group that may connect")
_PARSER.add_argument("--json", action="store_true", help="each line of the log as a JSON object")
_PARSER.add_argument("--server", required=True, help="path of redis-server or valkey-server")


class CannotRun(Exception):
    """The server cannot be started as things are; the sentence says why and what to do."""


class Ended(Exception):
    """This program is to end."""


class ServerOutput:
    """What the server prints, passed on to this program's log, which never makes the server wait."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._rest = b""

    def pass_on(self) -> None:
        """Log the lines that were printed so far."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.reader, 1 << 16):
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in filter(None, lines):
                    # The server marks a warning so, behind its pid, role and time.
                    level = logging.WARNING if b" # " in line[:50] else logging.INFO
                    server_log.log(level, "%s", line.decode(errors="backslashreplace"))


class Watch:
    """Wakes on signals, on the link, and on what the server prints."""

    def __init__(self, link: Any, output: ServerOutput) -> None:
        """`link`: a Link of program.py."""
        self._link, self._output = link, output
        self._stop = False
        self._selector = selectors.DefaultSelector()
        self._awake, alarm = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._on_stop())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for readable in (self._awake, output.reader, *filter(None, [link.socket])):
            self._selector.register(readable, selectors.EVENT_READ)

    def wait(self, seconds: float | None) -> None:
        """Wait until something happens, `seconds` at most. Raises Ended if this program is to stop."""
        self._selector.select(seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._awake, 4096)
        self._output.pass_on()
        self._link.hear(self._on_command, self._on_stop)
        if self._stop:
            raise Ended

    def _on_command(self, command: dict[str, Any]) -> None:
        """Acknowledge a reload; nothing else concerns Redis."""
        if command.get("do") == "apply":
            self._link.say({"is": "applied", "generation": command.get("generation")})

    def _on_stop(self) -> None:
        self._stop = True


def lock(state: Path, watch: Watch) -> tuple[int, int | None]:
    """
    Lock the state directory, after an old server has left it.

    Returns:
        the descriptor that holds the lock, for the server to inherit; the pid of a server that was asked to end.
    """
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    old, end = None, time.monotonic() + LEAVE
    while time.monotonic() < end:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            old = old or ask_to_end(state)
            watch.wait(GLANCE)
        else:
            return descriptor, old
    raise CannotRun(f"{state} is in use by another server that does not end; end it (fuser {state}/lock shows its pid)")


def ask_to_end(state: Path) -> int | None:
    """Send SIGTERM to the server that works in `state`, as `server.pid` says; its pid, or None if there is none."""
    try:
        pid = int((state / "server.pid").read_text())
        # The number may be another process' by now; a server's working directory is its state directory.
        if not Path(f"/proc/{pid}/cwd").samefile(state):
            return None
        os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError):
        return None
    return pid


def command(server: str, state: Path, path: Path, group: str | None) -> list[str]:
    """The server's command line; no file of options, so that nothing of the machine's own Redis slips in."""
    # To compress the texts took a third of the CPU time of each rewrite of the file. Short texts do not become shorter;
    # for jobs with 1 kB of JSON and more the price is a rewritten file of twice the size. See docs/benchmarks.md.
    # fmt: off
    return [
        server, "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "660" if group else "600",
        "--dir", str(state), "--daemonize", "no", "--logfile", "",
        "--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--aof-load-truncated", "yes",
        "--rdbcompression", "no", "--maxmemory-policy", "noeviction",
    ]
    # fmt: on


def environment() -> dict[str, str]:
    """The server's environment variables."""
    # Each call of a script makes and frees thousands of small texts. By default glibc keeps 7 free pieces of each size
    # at hand and searches for others, which took a seventh of Redis' time for a job. Other allocators ignore this. The
    # price is free memory that is kept: 27 MB after a million jobs; 530 MB for each of the server's threads that free
    # memory, if 16,000 pieces of each size were ever free. docs/benchmarks.md, "A backlog of a million", has figures.
    tuned = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=16000"}
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **tuned}


def start(words: Sequence[str], state: Path, held: int, output: ServerOutput) -> subprocess.Popen[bytes]:
    """Start the server, holding the lock `held`, and write its pid to `server.pid`."""
    server = launch(words, state, pass_fds=(held,), stdout=output.writer, stderr=output.writer)
    (state / "server.pid").write_text(str(server.pid))
    return server


def launch(words: Sequence[str], directory: Path, **more: Any) -> subprocess.Popen[bytes]:
    """Start a server that ends when this process does; `more`: as of Popen. Raises CannotRun."""
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    try:
        # A process group of its own: Ctrl-C in a terminal is for the supervisor, which stops Redis last.
        return subprocess.Popen(
            words,
            cwd=directory,
            env=environment(),
            process_group=0,
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - this process has one thread still
            **more,
        )
    except OSError as error:
        raise CannotRun(f"{words[0]} cannot be started: {error.strerror}; install redis-server 7.0 or newer") from None


def answers(path: Path) -> bool:
    """Whether a server behind the socket answers PING; one that still reads its file says LOADING."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def prepare(path: Path, group: str | None) -> None:
    """Make the socket's directory, open to the group if there is one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    share(path.parent, 0o750 if group else 0o700, group)


def share(path: Path, mode: int, group: str | None) -> None:
    """Give the path its mode, and the group if there is one."""
    if group:
        try:
            os.chown(path, -1, grp.getgrnam(group).gr_gid)
        except KeyError:
            raise CannotRun(f"broker.socket_group: there is no group {group!r}; groupadd {group}") from None
        except PermissionError:
            raise CannotRun(
                f"broker.socket_group: the daemon's user may not give {path} to group {group!r}; add the user to it"
            ) from None
    path.chmod(mode)


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server; it writes and syncs its file first."""
    if server.poll() is None:
        server.terminate()
    try:
        server.wait(LEAVE - 5)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def serve(options: argparse.Namespace, link: Any, watch: Watch, output: ServerOutput) -> int:
    """Run the server until it ends or is to end; this program's exit status."""
    state, path, group = options.state, options.socket, options.group
    held, old = lock(state, watch)
    binary = redis_server.identify(options.server)
    # The binary may have been replaced since the supervisor chose it.
    if binary is not None and (why := redis_server.misfit(state, binary)):
        raise CannotRun(why)
    # not before the lock is ours: until then the socket may be another server's
    prepare(path, group)
    server = start(command(options.server, state, path, group), state, held, output)
    begin_log(options, link)
    if old is not None:
        log.info("ended server %d, which an earlier daemon had left in %s", old, state)
    ready = False
    try:
        while server.poll() is None:
            if not ready and answers(path):
                share(path, 0o660 if group else 0o600, group)
                if binary is not None:
                    redis_server.record(state, binary)
                link.say({"is": "ready"})
                ready = True
            watch.wait(None if ready else GLANCE)
    finally:
        stop(server)
        output.pass_on()
    status = server.returncode
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended by itself, status {status}"
    log.error("the server %s; its last lines are above", how)
    return 1


def begin_log(options: argparse.Namespace, link: Any) -> None:
    """Log from now on, by a thread. Not before the server is started: a process with threads must not fork."""
    line_of = functools.partial(logs.json_line, "redis") if options.json else _text_line
    log.addHandler(logs.Handler(logs.LogOutput(None, link.tail, 0), line_of))
    # Not before the programs are forked: redis-py's own loggers are below this one.
    log.setLevel(logging.INFO)


def _text_line(record: logging.LogRecord) -> str:
    """A line of the server has its time already."""
    return record.getMessage() if record.name == server_log.name else str(logs.text_line("redis", record))


def entry_point() -> int:
    """The program; returns the exit status."""
    return main(sys.argv[1:])


def main(arguments: Sequence[str]) -> int:
    """The program. Exit 0: it was told to end · 1: the server died · 78: it cannot be run as things are."""
    options = _PARSER.parse_args(arguments)
    os.umask(0o077)
    if "FUSIOND_HOOK" in os.environ:
        beside("hook").run("redis", find=lambda _: sys.modules[__name__])
    link, output = program.Link.from_environment(), ServerOutput()
    watch = Watch(link, output)
    try:
        return serve(options, link, watch, output)
    except Ended:
        return 0
    except CannotRun as error:
        link.say({"is": "failed", "reason": str(error)})
        if not log.handlers:
            begin_log(options, link)
        log.error("%s", error)
        return int(program.EX_CONFIG)
    finally:
        for handler in log.handlers:
            handler.stop(LAST_LINES)  # type: ignore[attr-defined]  # of logs.py


if __name__ == "__main__":
    sys.exit(entry_point())
