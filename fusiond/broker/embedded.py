"""
Run a Redis of our own: the program behind `broker: {url: embedded}`.

1. lock    the state directory; the server inherits the lock, so that it is held while any server works on these files
2. clear   a server that a killed daemon left: it is asked to end, and the lock waited for
3. fit     the server to the data; one that cannot read it is not started
4. start   the server: append-only file, no eviction, a private unix socket, no port
5. ready   once it answers PING, however long it reads its file; it is recorded as the one that writes the data
6. stop    it on SIGTERM, or when the supervisor's end of the link is gone; it writes its file before it ends

Killed itself, this process takes the server along: the kernel sends the server SIGTERM, and its file is complete.
Run as `python -I -S embedded.py …`, standard library only: no site-packages, 9 MB. Knows nothing of jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import grp
import json
import os
import queue
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: the supervisor does not start a program again that ends with it
EX_CONFIG = 78
#: seconds that an old server may take to write its file and end
LEAVE = 30.0
#: seconds between two looks at whether something has come about
GLANCE = 0.02
#: what the address of a unix socket can hold, in bytes
LONGEST_PATH = 107
#: lines of the log that wait until they are written, at most
LINES = 1_000
#: seconds that the last lines may take
LAST_WORDS = 2.0
_PR_SET_PDEATHSIG = 1


class CannotRun(Exception):  # noqa: N818
    """The server cannot be started as things are; the sentence says why and what to do."""


class Ended(Exception):  # noqa: N818
    """There is nobody to run the server for any more."""


class Link:
    """This program's end of its socket to the supervisor; `fusiond/program.py` without asyncio."""

    def __init__(self) -> None:
        number = os.environ.pop("FUSIOND_LINK", "")
        self.socket: socket.socket | None = None
        if number:
            os.set_inheritable(int(number), False)
            self.socket = socket.socket(fileno=int(number))
            self.socket.setblocking(False)

    def say(self, **message: Any) -> None:
        """Tell the supervisor; a supervisor that is gone is noticed elsewhere."""
        if self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.send(json.dumps(message).encode())

    def hear(self) -> None:
        """Take what came: `apply` and `answer` are answered, nothing else concerns Redis. Raises Ended at EOF."""
        if self.socket is None:
            return
        with contextlib.suppress(BlockingIOError):
            while packet := self._packet():
                command = json.loads(packet)
                if command.get("do") == "apply":
                    self.say(**{"is": "applied", "generation": command.get("generation")})
                elif command.get("do") == "answer":
                    self.say(**{"is": "alive", "n": command.get("n")})
                    # Whether the server answers, those say who use it.
                    self.say(**{"is": "checked", "n": command.get("n"), "trouble": ""})

    def _packet(self) -> bytes:
        assert self.socket is not None  # noqa: S101 - hear() has looked
        try:
            packet = self.socket.recv(65536)
        except ConnectionError:
            packet = b""
        if not packet:
            raise Ended
        return packet


class Log:
    """
    What this program and the server print, passed on by a thread, as text or as JSON objects, a line each.

    Neither of the two ever waits for who reads the log: a server that did would answer nobody. Where LINES lines wait,
    further ones are dropped and counted.
    """

    def __init__(self, *, as_json: bool) -> None:
        sys.stdout.flush()
        self._out, self._errors = os.dup(1), os.dup(2)
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        for number in (1, 2):
            os.dup2(writer, number)
        os.close(writer)
        self._as_json = as_json
        self._rest = b""
        self._dropped = 0
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)

    def begin(self) -> None:
        """Write from now on. Not before the server is started: a process with threads must not fork."""
        self._thread.start()

    def pass_on(self) -> None:
        """Queue what was printed so far."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.reader, 1 << 16):
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in filter(None, lines):
                    self._queue(line)

    def close(self) -> None:
        """Write the rest, within LAST_WORDS seconds; what is printed from now on goes where it went before."""
        sys.stdout.flush()
        self.pass_on()
        if self._rest:
            self._queue(self._rest)
        self._lines.put(None)
        if not self._thread.ident:
            self.begin()
        self._thread.join(LAST_WORDS)
        os.dup2(self._out, 1)
        os.dup2(self._errors, 2)

    def _queue(self, raw: bytes) -> None:
        if self._lines.qsize() >= LINES:
            self._dropped += 1
            return
        if self._dropped:
            lost, self._dropped = self._dropped, 0
            self._lines.put(self._line(b"%d log lines were dropped: the log was not read fast enough" % lost))
        self._lines.put(self._line(raw))

    def _line(self, raw: bytes) -> bytes:
        if not self._as_json:
            return raw + b"\n"
        text = raw.decode(errors="backslashreplace")
        now = time.time()
        moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}Z"
        # The server's own mark of a warning, behind its pid, role and time.
        level = "warning" if " # " in text[:50] else "info"
        line = {"time": moment, "level": level, "program": "redis", "logger": "redis", "message": text}
        return json.dumps(line).encode() + b"\n"

    def _write(self) -> None:
        """Until `close`, in the thread."""
        while (line := self._lines.get()) is not None:
            view = memoryview(line)
            with contextlib.suppress(OSError):  # a closed pipe or a full disk costs lines
                while view:
                    try:
                        view = view[os.write(self._out, view) :]
                    except BlockingIOError:  # others write to the same pipe, and have made it non-blocking
                        select.select([], [self._out], [])


class Watch:
    """Wakes on signals, on the link and on the server's end."""

    def __init__(self, link: Link, log: Log | None = None) -> None:
        self._link, self._log = link, log
        self._stop = False
        self._selector = selectors.DefaultSelector()
        awake, alarm = socket.socketpair()
        for end in (awake, alarm):
            end.setblocking(False)
        self._awake, self._alarm = awake, alarm
        signal.set_wakeup_fd(alarm.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._selector.register(awake, selectors.EVENT_READ)
        if link.socket is not None:
            self._selector.register(link.socket, selectors.EVENT_READ)
        if log is not None:
            self._selector.register(log.reader, selectors.EVENT_READ)

    def wait(self, seconds: float | None) -> None:
        """Wait until something happens, `seconds` at most. Raises Ended if this program is to stop."""
        self._selector.select(seconds)
        with contextlib.suppress(BlockingIOError):
            self._awake.recv(4096)
        if self._log is not None:
            self._log.pass_on()
        self._link.hear()
        if self._stop:
            raise Ended

    def every_glance(self, seconds: float) -> Iterator[None]:
        """Come back each `GLANCE` until the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            yield
            self.wait(GLANCE)

    def _on_stop(self, *_: object) -> None:
        self._stop = True


def lock(state: Path, watch: Watch) -> int:
    """
    Lock the state directory, after an old server has left it.

    Returns:
        the descriptor that holds the lock, for the server to inherit.
    """
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    asked = False
    for _ in watch.every_glance(LEAVE):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            asked = asked or ask_to_end(state)
        else:
            return descriptor
    raise CannotRun(f"{state} is in use by another server that does not end; end it (fuser {state}/lock shows its pid)")


def ask_to_end(state: Path) -> bool:
    """Send SIGTERM to the server that works in `state`, as `server.pid` tells; whether there was one."""
    try:
        pid = int((state / "server.pid").read_text())
        # the number may be another process' by now; a server's working directory is its state directory
        if not Path(f"/proc/{pid}/cwd").samefile(state):
            return False
        os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError):
        return False
    print(f"ended server {pid}, which an earlier daemon had left in {state}", flush=True)
    return True


def command(server: str, state: Path, path: Path, group: str | None) -> list[str]:
    """The server's command line; no file of options, so that nothing of the machine's own Redis slips in."""
    # fmt: off
    return [
        server, "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "660" if group else "600",
        "--dir", str(state), "--daemonize", "no", "--logfile", "",
        "--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--aof-load-truncated", "yes",
        "--maxmemory-policy", "noeviction",
        # arguments and results up to so many bytes stay in the compact form of a hash: a third of the memory
        "--hash-max-listpack-value", "512",
    ]
    # fmt: on


def start(words: Sequence[str], state: Path, held: int) -> subprocess.Popen[bytes]:
    """Start the server, holding the lock, and note its pid."""
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        # a group of its own: Ctrl-C in a terminal is for the supervisor, which stops Redis last
        server = subprocess.Popen(
            words,
            cwd=state,
            env=environment,
            pass_fds=(held,),
            process_group=0,
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - this process has one thread still
        )
    except OSError as error:
        raise CannotRun(f"{words[0]} cannot be started: {error.strerror}; install redis-server 7.0 or newer") from None
    (state / "server.pid").write_text(str(server.pid))
    return server


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
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise CannotRun(f"{path}: a socket's path can have {LONGEST_PATH} bytes; set a shorter runtime_directory")
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


def serve(options: argparse.Namespace, link: Link, watch: Watch, log: Log) -> int:
    """Run the server until it ends or is to end; this program's exit status."""
    state, path, group = options.state, options.socket, options.group
    held = lock(state, watch)
    known = beside("redis_server")
    binary = known.identify(options.server)
    # The binary may have been replaced since the supervisor chose it.
    if binary is not None and (why := known.misfit(state, binary)):
        raise CannotRun(why)
    # not before the lock is ours: until then the socket may be another server's
    prepare(path, group)
    server = start(command(options.server, state, path, group), state, held)
    log.begin()
    ready = False
    try:
        while server.poll() is None:
            if not ready and answers(path):
                share(path, 0o660 if group else 0o600, group)
                if binary is not None:
                    known.record(state, binary)
                link.say(**{"is": "ready"})
                ready = True
            watch.wait(None if ready else GLANCE)
    finally:
        stop(server)
    print(f"the server ended by itself, status {server.returncode}; its last words are above", flush=True)
    return 1


def beside(name: str) -> Any:
    """A module of the package's ground floor, by its file's path: the package itself is not to be found."""
    from importlib import util

    spec = util.spec_from_file_location(name, Path(__file__).parent.parent / f"{name}.py")
    assert spec is not None  # noqa: S101 - it is in the package
    assert spec.loader is not None  # noqa: S101
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_hook() -> None:
    """Run the file that FUSIOND_HOOK names, in this program too."""
    if "FUSIOND_HOOK" in os.environ:
        beside("hook").run("redis", find=lambda _: sys.modules[__name__])


def main(arguments: Sequence[str]) -> int:
    """The program. Exit 0: it was told to end · 1: the server died · 78: it cannot be run as things are."""
    parser = argparse.ArgumentParser(description="Run a Redis of our own.")
    parser.add_argument("--state", type=Path, required=True, help="where its files are")
    parser.add_argument("--socket", type=Path, required=True, help="where it listens")
    parser.add_argument("--group", help="the system group that may connect")
    parser.add_argument("--json", action="store_true", help="each line of the log as a JSON object")
    parser.add_argument("--server", required=True, help="path of redis-server or valkey-server")
    options = parser.parse_args(arguments)
    os.umask(0o077)
    run_hook()
    link = Link()
    log = Log(as_json=options.json)
    watch = Watch(link, log)
    try:
        return serve(options, link, watch, log)
    except Ended:
        return 0
    except CannotRun as error:
        link.say(**{"is": "failed", "reason": str(error)})
        print(error, flush=True)
        return EX_CONFIG
    finally:
        log.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
