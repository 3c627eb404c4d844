"""
Forks daemons, programs and commands that would otherwise be new interpreters: it has loaded their modules, as the
daemon's own program server has, so that each takes a third of a second of a processor less. `warm.py` starts it; it
ends with its socket.

A request is a JSON object, with descriptors: the three standard streams, where the exit status is written, then those
that the program keeps, by the numbers that the request gives. The reply is the pid. A daemon that was forked asks in
the same way, over a connection of its own, for the helper that reads its file.
"""

import contextlib
import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from fusiond.config.load import load
from fusiond.supervise.reload import helper
from fusiond.supervise.wanted_programs import LOADED

#: the module of the helper that reads a daemon's file
_HELPER = "fusiond.config.candidate"
#: what a daemon loads besides, and what its helper and commands do
_MODULES = (*LOADED, "fusiond.supervise.start", "fusiond.cli.daemon", _HELPER, "jsonschema")
_FILE = "{version: 1, tasks: {t: {run: a.b}}, cron: {c: {task: t, schedule: '@daily'}}, workers: {main: {}}}"
_PACKET, _DESCRIPTORS = 1 << 18, 8


def main():
    """Serve until the socket ends, as no child of the test: a test of the pool ends every child that it has."""
    if os.fork():
        return
    asked = socket.socket(fileno=int(sys.argv[1]))
    for name in _MODULES:
        if callable(found := pkgutil.resolve_name(name)):
            found()
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(_FILE)
        file.flush()
        load(Path(file.name), environ={})  # so that the schema has been read
    gc.collect()
    gc.freeze()
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.bind(_door(os.getpid()))
    door.listen()
    ended, ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ends)
    #: pid of a program -> where its exit status is written, and who is woken by a signal then; 0: nobody
    programs = {}
    while True:
        ready, _, _ = select.select([asked, ended, door], [], [])
        if ended in ready:
            os.read(ended, 1024)
            reap(programs)
        if asked in ready and not begin(asked, programs):
            return
        if door in ready:
            with door.accept()[0] as daemon:
                begin(daemon, programs)


def begin(asked, programs):
    """Start what is asked for; false: nobody asks any more."""
    packet, descriptors, *_ = socket.recv_fds(asked, _PACKET, _DESCRIPTORS)
    if not packet:
        return False
    request, server = json.loads(packet), os.getpid()
    *streams, status = descriptors[:4]
    kept = descriptors[4:]
    pid = os.fork()
    if not pid:
        become(request, streams, kept, server)
    programs[pid] = status, request["woken"]
    for number in (*streams, *kept):
        os.close(number)
    with contextlib.suppress(BrokenPipeError):  # a daemon that was killed meanwhile
        asked.send(str(pid).encode())
    return True


def reap(programs):
    """Write how each program has ended that has."""
    while programs:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        writer, woken = programs.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # nobody asks any more
            os.write(writer, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(writer)
        if woken:
            with contextlib.suppress(ProcessLookupError):
                os.kill(woken, signal.SIGCHLD)


def _door(pid):
    """Where the server of this pid listens: a name that is not a file."""
    return f"\0fusiond-warm-{pid}"


class Forked:
    """A program that was forked."""

    def __init__(self, pid, ended):
        """`ended`: descriptor from which its exit status can be read once it has one."""
        self.pid, self._ended = pid, ended
        self.returncode = None

    def poll(self):
        """Its exit status, or minus the signal that has ended it; None: it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout=None):
        """The same; raises TimeoutExpired where it runs for so many seconds still."""
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a warm program", timeout)
            self.returncode = int(os.read(self._ended, 32))
            os.close(self._ended)
        return self.returncode

    def send_signal(self, number):
        """Nothing if it has ended; its status may come a moment after its pid is gone."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self):
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self):
        """End it."""
        self.send_signal(signal.SIGKILL)


class Helpers:
    """What a daemon has in place of `subprocess` where it reads its file: the helper is a fork of the server too."""

    DEVNULL = subprocess.DEVNULL

    def __init__(self, server):
        self._server = server

    def Popen(self, command, *, stdout, stderr, **_):  # noqa: N802
        """Start the helper."""
        *_, asked = command
        ended, status = os.pipe()
        request = {
            "entry": f"{_HELPER}:main", "arguments": [_HELPER, asked], "environment": dict(os.environ),
            "directory": str(Path.cwd()), "kept": [], "session": True, "woken": os.getpid(),
        }  # fmt: skip
        with Path(os.devnull).open() as null, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            server.connect(_door(self._server))
            streams = [null.fileno(), stdout.fileno(), stderr.fileno()]
            socket.send_fds(server, [json.dumps(request).encode()], [*streams, status])
            os.close(status)
            return Forked(int(server.recv(32)), ended)


def become(request, streams, kept, server):
    """Run the program in this process, and end with its status."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        helper.subprocess = Helpers(server)
        for source, target in (*zip(streams, (0, 1, 2), strict=True), *zip(kept, request["kept"], strict=True)):
            os.dup2(source, target)
        wanted = {0, 1, 2, *request["kept"]}
        for number in range(3, 256):
            if number not in wanted:
                try:
                    os.close(number)
                except OSError:
                    continue
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["directory"])
        if request["session"]:
            os.setsid()
        sys.argv, entry = request["arguments"], request["entry"]
        if entry.endswith(".py"):
            runpy.run_path(entry, run_name="__main__")
        else:
            status = pkgutil.resolve_name(entry)()  # None, as of a main that returns nothing, is 0
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status if isinstance(status, int) else status is not None)


if __name__ == "__main__":
    main()
