"""
A lean process that has the task modules loaded and forks the children.

1. preload  every dotted path of the group, once; say what failed
2. fork     a child for a slot, when the dispatcher sends its socket
3. reap     children, their process groups and what they left behind; report each death
4. end      when the control socket does, and take everything along

On the control socket, one packet each, `fork` with three descriptors for each slot (its socket, its output pipe, its
page), `table` with one:

    fork SLOT …   kill SLOT   table   ask NUMBER                      (from the dispatcher)
    loading   unloaded JSON   ready LOADED                            (from here; the first for each module, at times)
    answer NUMBER   unforked SLOT REASON   died SLOT PID STATUS, …    (a line a death, STATUS as wait has it)

`unloaded` tells of some of the tasks that do not load, `ready` how many do.

A child is made before the fork, as far as it can be, since each page that it writes to afterwards is copied for it. The
descriptors of a slot are here only while its child is forked, and its page is mapped in that child alone: a child
inherits nothing of its siblings'.

Knows task code. No Redis, no asyncio, no YAML: what is loaded here is what each fork has to copy.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import _socket
import ctypes
import gc
import json
import os
import select
import signal
import struct
import sys

from . import child, one_job_child, refusals, run, startup, task, tasklog, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Union

    AnyChild = Union[child.Child, one_job_child.OneJobChild]

_INT = struct.Struct("i")
# From <linux/prctl.h> and <sys/mman.h>.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PROT_READ, PROT_WRITE, MAP_SHARED, MAP_FIXED = 1, 2, 1, 16
#: bytes of a command, forks that it may ask for, and descriptors that come with each
PACKET, AT_ONCE, LENT = 1024, 32, 3


def main(control: int, setup: dict[str, Any]) -> None:
    """
    Serve the dispatcher until it is gone.

    Args:
        control: descriptor of the control socket.
        setup: group, directory, umask, one_job, preload [task], table (of a TABLE frame).
    """
    startup.set_name(setup["group"])
    sock = _socket.socket(fileno=control)
    os.set_inheritable(control, False)
    startup.set_streams(setup["one_job"])
    if setup["umask"] is not None:
        os.umask(setup["umask"])
    sys.path[:] = [setup["directory"], *(path for path in sys.path if path)]
    tasks = task.Tasks(json.dumps(setup["table"]).encode())
    refusals.begin()
    loaded, problems = startup.preload(tasks, setup["preload"], lambda: sock.send(b"loading"))
    refusals.close()
    tasklog.install(tasks.level)
    run.flush()  # half a line would be printed by each child anew
    if setup["one_job"]:
        one_job_child.rehearse()
    server = ForkServer(sock, tasks, setup["one_job"])
    # What is alive now is shared with every child; unfrozen, one collection in a child would copy all of its pages.
    gc.collect()
    gc.freeze()
    for part in problems:
        sock.send(b"unloaded " + part)
    sock.send(b"ready %d" % loaded)
    server.serve()


class ForkServer:
    """The children of one group, by slot and by pid."""

    def __init__(self, control: _socket.socket, tasks: task.Tasks, one_job: bool) -> None:
        self._control, self._tasks, self._one_job = control, tasks, one_job
        page = wire.Page()
        self._child: AnyChild = (one_job_child.OneJobChild if one_job else child.Child)(page, tasks)
        self._slots: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        self._pid = os.getpid()
        self._strays: set[int] = set()
        libc = ctypes.CDLL(None)
        self._prctl, self._mmap = libc.prctl, libc.mmap
        self._mmap.restype = ctypes.c_void_p
        #: what mmap takes before the descriptor of a page: a child maps its slot's page where this one is
        self._over = (
            ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page.words))),
            ctypes.c_size_t(wire.PAGE_BYTES),
            PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_FIXED,
        )
        self._from_its_start, self._at = ctypes.c_long(0), self._over[0].value
        self._control_fd = control.fileno()
        self._deaths, self._wake = os.pipe()
        self._nowhere = os.open(os.devnull, os.O_WRONLY)
        for fd in (self._deaths, self._wake):
            os.set_blocking(fd, False)
        # Handlers that tell server and child apart: setting them anew in each child would cost it 0.2 ms, and a
        # signal that is ignored here would be so in the programs that task code starts.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGALRM, run.on_alarm)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def _on_signal(self, number: int, _frame: Any) -> None:
        """The server ends when its dispatcher does, not before; a child does what a program does by default."""
        if os.getpid() != self._pid and number != signal.SIGCHLD:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def serve(self) -> None:
        """Until the control socket ends."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._deaths, select.POLLIN)
        while True:
            ready = {fd for fd, _event in poll.poll()}
            if self._deaths in ready:
                os.read(self._deaths, 4096)
                self._reap()
            if self._control.fileno() in ready and not self._command():
                self._end()
                return

    def _command(self) -> bool:
        """Do what one packet asks; False: the dispatcher is gone."""
        try:
            packet, fds = _receive(self._control)
        except ConnectionError:
            return False
        if not packet:
            return False
        verb, _, rest = packet.partition(b" ")
        if verb == b"fork":
            self._fork([int(slot) for slot in rest.split()], fds)
            return True
        if verb == b"kill":
            self._kill(self._slots.get(int(rest)))
        elif verb == b"ask":
            self._say(f"answer {int(rest)}")
        elif verb == b"table":
            with open(fds[0], "rb") as file:
                self._tasks.replace(file.read())
            tasklog.set_level(self._tasks.level)
        return True

    def _fork(self, slots: list[int], fds: list[int]) -> None:
        """
        Fork a child for each slot, by its three descriptors, with as little as can be between two forks.

        After each fork all pages are shared again, and every one that the server writes to costs it a page fault: side
        by side the forks share that price.
        """
        pids = []
        whole = len(fds) // LENT
        for at, slot in enumerate(slots[:whole]):
            try:
                pid = os.fork()
            except OSError as error:
                self._say(f"unforked {slot} {error.strerror}")
                pid = 0
            else:
                if pid == 0:
                    self._become_child(fds, at * LENT)
            pids.append(pid)
        for slot in slots[whole:]:
            self._say(f"unforked {slot} no descriptor was left for its socket")
        for fd in fds:
            os.close(fd)
        for slot, pid in zip(slots, pids):
            if pid:
                self._slots[slot], self._pids[pid] = pid, slot

    def _become_child(self, fds: list[int], at: int) -> None:
        """In the child: close what is not its own, which is at `at`, serve jobs, and never return."""
        status = 1
        sock, out, page = fds[at : at + LENT]
        try:
            # Where the dispatcher is dead, stopped or failing as well, nobody else would end it with the server.
            self._prctl(PR_SET_PDEATHSIG, 9)
            if os.getppid() != self._pid:
                return
            # Before there is a job, so before there is anything in it; a kill finds the child by its pid until then.
            os.setpgid(0, 0)
            # What signals write would wake the server. For less than it costs to have Python forget the descriptor.
            os.dup2(self._nowhere, self._wake, False)
            if self._one_job:
                # What its job orphans stays its own until it ends, then comes to the server: whatever the server
                # adopts is a dead job's. A child that lives on must not gather the dead, it does not reap.
                self._prctl(PR_SET_CHILD_SUBREAPER, 1)
            os.close(self._control_fd)
            os.close(self._deaths)  # who reads there takes news of deaths from the server
            if self._mmap(*self._over, page, self._from_its_start) != self._at:
                return
            os.dup2(out, 1)
            os.dup2(out, 2)
            for fd in fds:
                if fd not in (sock, out):
                    os.close(fd)
            # The slot's pipe outlives its children, and a job, or a program of it, may have made it non-blocking.
            os.set_blocking(1, True)
            self._child.serve(sock, out)
            status = 0
        except OSError:
            status = 0  # the dispatcher hung up; that is how a child's life ends
        except BaseException:  # noqa: BLE001 - nothing may climb into the server's own loop
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)

    def _kill(self, pid: int | None) -> None:
        """Kill a child, which may have left its group, and the group; the pid is ours until it is reaped."""
        if pid is not None:
            _try_to_kill(os.kill, pid)
            _try_to_kill(os.killpg, pid)

    def _reap(self) -> None:
        """Report the dead, each one's group killed first: afterwards its number may be somebody else's."""
        died, strays = [], False
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                found = None
            if found is None:
                break
            pid = found.si_pid
            slot = self._pids.pop(pid, None)
            if slot is not None:
                _try_to_kill(os.killpg, pid)
            status = os.waitpid(pid, 0)[1]
            if pid in self._strays:
                self._strays.discard(pid)
                strays = True
            if slot is not None:
                del self._slots[slot]
                died.append(f"died {slot} {pid} {status}")
        if died:
            self._say("\n".join(died))
        if died or strays:
            self._kill_strays()

    def _kill_strays(self) -> None:
        """
        Kill descendants that left their child's group and were handed to us when it died; then what those leave us.

        With children that are reused, an orphan in the group of a living child is that one's.
        """
        children = _children_of(self._pid)
        if len(children) == len(self._pids):
            return
        for pid in children:
            try:
                if pid not in self._pids and os.getpgid(pid) not in self._pids:
                    os.kill(pid, signal.SIGKILL)
                    self._strays.add(pid)
            except (ProcessLookupError, PermissionError):
                continue  # gone, or another user's by now: sudo, in a job

    def _end(self) -> None:
        """Kill and reap everything."""
        for pid in self._pids:
            self._kill(pid)
        self._pids.clear()
        while True:
            self._kill_strays()
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def _say(self, text: str) -> None:
        try:
            self._control.send(text.encode())
        except OSError:
            pass  # the dispatcher is gone; its end of the socket says so next


def _receive(control: _socket.socket) -> tuple[bytes, list[int]]:
    """A packet, and descriptors that came with it. Not by the module socket: each child would have a copy of that."""
    room = _socket.CMSG_LEN(AT_ONCE * LENT * _INT.size)
    packet, messages, _flags, _address = control.recvmsg(PACKET, room, _socket.MSG_CMSG_CLOEXEC)
    return packet, [fd for _, _, data in messages for (fd,) in _INT.iter_unpack(data)]


def _try_to_kill(kill: Callable[[int, int], None], pid: int) -> None:
    """By os.kill or os.killpg; what is gone, or another user's by now (a job that became sudo), is left as it is."""
    try:
        kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _children_of(pid: int) -> list[int]:
    """Pids of the children, dead and adopted ones included; empty where the kernel does not tell."""
    pids, more = b"", b" "
    try:
        # Bare reads: what open() makes of a file would have 30 pages copied, since each was shared by the last fork.
        fd = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY)
    except OSError:
        return []
    while more:
        more = os.read(fd, 1 << 16)
        pids += more
    os.close(fd)
    return [int(word) for word in pids.split()]
