"""
A lean process that has the task modules loaded and forks the children.

1. preload  every dotted path of the group, once; say what failed
2. fork     a child for a slot, when the dispatcher sends its socket
3. reap     children, their process groups and what they left behind; report each death
4. end      when the control socket is closed, and kill all processes below this one

Each message on the control socket is one packet. `fork` comes with three descriptors for each slot (its socket, its
output pipe, its page), or with four if the group has a `slot_variable` (of a file whose offset is the slot's number);
`table` with one:

    fork SLOT …   kill SLOT   table   ask NUMBER                      (from the dispatcher)
    loading                                                           (to the dispatcher, once a second)
    positional TASK NAMES   unloaded JSON   ready LOADED
    answer NUMBER   unforked SLOT REASON
    died SLOT PID STATUS CPU PEAK, …                                  (a line for each death; STATUS as wait gives it,
                                                                      CPU seconds, KiB at its peak)
    left SLOT NAMES                                                   (what a dead child left, and was killed)

`positional` says how a task's function names what calls pass by position, `unloaded` why a task does not load, and
`ready` how many tasks do.

The modules of the tasks may replace what other modules have: gevent replaces `os.fork` and `os.waitpid`, eventlet
`posix.read`. So this package takes each function that it needs from `posix`, `_signal` and `time` before it imports a
task's module, and keeps it.

A child's object is made before the fork, since each page that the child writes to is copied for it. The fork server has
the descriptors of a slot only while it forks the slot's child, and only that child maps the slot's page: a child
inherits nothing that belongs to another one.

Knows task code. No Redis, no asyncio, no YAML: each fork has to copy what is loaded here. A module that is written in
C has five memory areas, which cost a fork 0.01 ms. So mmap(2) and poll(2) are called by way of ctypes, which prctl(2)
needs anyway, and not by the modules `mmap` and `select`.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import ctypes
import errno
import gc
import json
import os
import posix
import struct
import sys
import time

from . import (
    child,
    child_start,
    command,
    hugepages,
    leftovers,
    load_warnings,
    one_job_child,
    refusals,
    run,
    startup,
    task,
    tasklog,
    usage,
    wire,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Kept from before a task's module may replace them; and each look-up of a name in a module would have pages copied in
# each child.
_getpid, _getppid, _setpgid, _fork = posix.getpid, posix.getppid, posix.setpgid, posix.fork
_read, _dup2, _close, _set_blocking, _exit = posix.read, posix.dup2, posix.close, posix.set_blocking, posix._exit
_set_handler, _DEFAULT, _WNOHANG = _signal.signal, _signal.SIG_DFL, posix.WNOHANG
_SIGTERM, _SIGINT, _SIGCHLD = _signal.SIGTERM, _signal.SIGINT, _signal.SIGCHLD
_sleep, _open_file = time.sleep, open
_INT = struct.Struct("i")
# From <linux/prctl.h>, <sys/mman.h> and <poll.h>.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PROT_READ, PROT_WRITE, MAP_SHARED, MAP_FIXED, MAP_ANONYMOUS = 1, 2, 1, 16, 32
MAP_FAILED = ctypes.c_void_p(-1).value
POLLIN = 1
#: bytes of a command, forks that it may ask for, and descriptors that come with each at most
PACKET, AT_ONCE, LENT = 1024, 32, 4
#: ms; between two looks while a resource tracker of a dead child has not ended
_LOOK = 50


def main(control: int, setup: dict[str, Any]) -> None:
    """
    Serve the dispatcher until it is gone.

    Args:
        control: descriptor of the control socket.
        setup: group, directory, umask, one_job, executor, concurrency, on_start, nice, slot_variable, preload [task],
            table (of a TABLE frame).
    """
    startup.set_name(setup["group"])
    sock = startup.enter(control, setup, setup["one_job"])
    if setup["executor"] != "sync":
        from . import concurrent_child, job_output

        job_output.install()
    tasks = task.Tasks(json.dumps(setup["table"]).encode())
    refusals.begin()
    loaded = startup.preload(tasks, setup["preload"], setup["directory"], sock.send)
    if setup["executor"] != "sync" and (reason := concurrent_child.replaced_by()):
        loaded = 0
        for name in setup["preload"]:
            startup.say_unloaded(name, "IMPORT_ERROR", reason, sock.send)
    if setup["on_start"]:
        startup.load_ahead(tasks, setup["on_start"])
    refusals.close()
    tasklog.install(tasks.level)
    load_warnings.warn_of_hidden(setup["directory"])
    load_warnings.warn_of_threads()
    if not setup["one_job"]:
        load_warnings.warn_of_memory(tasks.max_memory)
    run.flush()  # otherwise each child would print an unfinished line again
    server = ForkServer(sock, tasks, setup)
    gc.collect()
    if setup["one_job"]:
        # After the collection: a child's objects then take the places of the rehearsed ones, on pages that it writes
        # to anyway.
        one_job_child.rehearse()
    # What is alive now is shared with every child; unfrozen, one collection in a child would copy all of its pages.
    gc.freeze()
    if setup["one_job"]:
        hugepages.collapse()
    sock.send(b"ready %d" % loaded)
    server.serve()


class _Polled(ctypes.Structure):
    """`struct pollfd` of poll(2)."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


class ForkServer:
    """The children of one group, by slot and by pid."""

    def __init__(self, control: _socket.socket, tasks: task.Tasks, setup: dict[str, Any]) -> None:
        self._control, self._tasks, self._one_job = control, tasks, setup["one_job"]
        self._variable = setup["slot_variable"]
        #: descriptors that come with each fork
        self._lent = LENT if self._variable else LENT - 1
        size = wire.page_bytes(setup["concurrency"])
        libc = ctypes.CDLL(None)
        self._prctl, self._mmap, self._wait4 = libc.prctl, libc.mmap, libc.wait4
        self._status, self._usage = ctypes.c_int(), usage.RUsage()
        # The others are called in each child, where to keep errno would have pages copied.
        self._poll = ctypes.CDLL(None, use_errno=True).poll
        self._mmap.restype = ctypes.c_void_p
        self._from_its_start = ctypes.c_long(0)
        #: where a child maps its slot's page
        self._at = self._map_page(size)
        page = wire.Page((ctypes.c_ubyte * size).from_address(self._at))
        served: Any
        if setup["executor"] != "sync":
            from . import concurrent_child

            in_threads = setup["executor"] == "thread"
            served = concurrent_child.ConcurrentChild(page, tasks, setup["concurrency"], all_in_threads=in_threads)
        else:
            served = (one_job_child.OneJobChild if self._one_job else child.Child)(page, tasks)
        # Bound here, since what a child binds, it has pages copied for.
        self._serve = served.serve
        needs_start = setup["executor"] != "sync" or setup["on_start"] or setup["nice"]
        #: what a child does before it takes jobs; None: nothing
        self._start = child_start.ChildStart(served, tasks, setup["on_start"], setup["nice"]) if needs_start else None
        #: pid → slot of each child that is not reaped yet
        self._pids: dict[int, int] = {}
        self._pid = _getpid()
        self._leftovers = leftovers.Leftovers(self._say)
        #: the arguments of mmap before the descriptor
        self._over = (
            ctypes.c_void_p(self._at),
            ctypes.c_size_t(size),
            PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_FIXED,
        )
        self._control_fd = control.fileno()
        self._deaths, self._wake = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        self._nowhere = posix.open(os.devnull, posix.O_WRONLY)
        numbers = (_SIGTERM, _SIGINT, _SIGCHLD)
        for number in numbers:
            _set_handler(number, self._on_signal)
        _set_handler(_signal.SIGALRM, run.on_alarm)
        # A module may have blocked them, and so does not hear of its own programs; the children inherit the mask.
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (*numbers, _signal.SIGALRM))
        _signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def _map_page(self, size: int) -> int:
        """Map memory in the place of the children's pages; returns its address. Raises MemoryError."""
        shared, size_ = MAP_SHARED | MAP_ANONYMOUS, ctypes.c_size_t(size)
        at: int = self._mmap(None, size_, PROT_READ | PROT_WRITE, shared, -1, self._from_its_start)
        if at == MAP_FAILED:
            raise MemoryError("there is no memory for the page of a child")
        return at

    def _on_signal(self, number: int, _frame: Any) -> None:
        """The server ends when its dispatcher does, not before; a child that was just forked has the default action."""
        if _getpid() != self._pid and number != _SIGCHLD:
            _set_handler(number, _DEFAULT)
            posix.kill(_getpid(), number)

    def serve(self) -> None:
        """Do what the dispatcher asks, until it closes the control socket."""
        polled = (_Polled * 2)(_Polled(self._control_fd, POLLIN), _Polled(self._deaths, POLLIN))
        control, deaths = polled
        count, for_ever, left = ctypes.c_ulong(len(polled)), -1, self._leftovers
        while True:
            if (found := self._poll(polled, count, _LOOK if left.waiting else for_ever)) < 0:
                if (error := ctypes.get_errno()) != errno.EINTR:
                    raise OSError(error, os.strerror(error))
                continue  # the signal is in the pipe of deaths
            if deaths.revents:
                _read(self._deaths, 4096)
                self._reap()
            elif not found:
                left.kill(self._pids, {})
            if control.revents and not self._command():
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
            for pid in [pid for pid, slot in self._pids.items() if slot == int(rest)]:
                leftovers.kill(pid)
        elif verb == b"ask":
            self._say(f"answer {int(rest)}")
        elif verb == b"table":
            with _open_file(fds[0], "rb") as file:
                self._tasks.replace(file.read())
            tasklog.set_level(self._tasks.level)
        return True

    def _fork(self, slots: list[int], fds: list[int]) -> None:
        """
        Fork a child for each slot, which has its part of the descriptors; do as little as possible between two forks.

        After each fork all pages are shared again, and each page that the server then writes to costs it a page fault.
        If it forks several children in a row, it pays for these page faults once.
        """
        pids, lent = [], self._lent
        whole = len(fds) // lent
        become_child = self._become_child
        for slot, *own in zip(slots, *(fds[at::lent] for at in range(lent))):
            try:
                pid = _fork()
            except OSError as error:
                self._say(f"unforked {slot} {error.strerror}")
                pid = 0
            else:
                if pid == 0:
                    become_child(fds, *own)
            pids.append(pid)
        for slot in slots[whole:]:
            self._say(f"unforked {slot} no descriptor was left for its socket")
        for fd in fds:
            _close(fd)
        for slot, pid in zip(slots, pids):
            if pid:
                self._pids[pid] = slot

    def _become_child(self, fds: list[int], sock: int, out: int, page: int, number: int = -1) -> None:
        """In the child: keep the descriptors of its slot, serve jobs, and never return."""
        status = 1
        try:
            # If the dispatcher is dead or stopped too, nobody else would end this child when the server dies.
            self._prctl(PR_SET_PDEATHSIG, 9)
            if _getppid() != self._pid:
                return
            # Before there is a job, so that all its processes are in the group.
            _setpgid(0, 0)
            # As in any program, for the job and for the processes that it forks. A handler that did nothing would still
            # interrupt system calls of C libraries.
            _set_handler(_SIGTERM, _DEFAULT)
            _set_handler(_SIGINT, _DEFAULT)
            _set_handler(_SIGCHLD, _DEFAULT)
            # A signal here must not wake the server. This costs less than signal.set_wakeup_fd(-1).
            _dup2(self._nowhere, self._wake, False)
            if self._one_job:
                # The child inherits its job's orphans, and when it ends the server does: all orphans that the server
                # gets belong to a job that has ended. A child that runs many jobs reaps nothing, and inherits none.
                self._prctl(PR_SET_CHILD_SUBREAPER, 1)
            _close(self._control_fd)
            _close(self._deaths)  # only the server may read from it
            if self._mmap(*self._over, page, self._from_its_start) != self._at:
                return
            _dup2(out, 1)
            _dup2(out, 2)
            for fd in fds:
                if fd != sock and fd != out and fd != number:  # noqa: PLR1714 - a tuple would be made for each
                    _close(fd)
            # The slot's pipe outlives its children, and a job, or a program of it, may have made it non-blocking.
            _set_blocking(1, True)
            if number >= 0:
                # Programs that it executes keep the file locked, too.
                posix.set_inheritable(number, True)
                command.kept_open = (number,)
                os.environ[self._variable] = str(posix.lseek(number, 0, os.SEEK_CUR))
            if self._start is not None:
                self._start.run(sock)
            self._serve(sock, out)
            status = 0
        except OSError:
            status = 0  # the dispatcher has closed the socket, as it does to end a child
        except BaseException:  # noqa: BLE001 - no exception may reach the server's own loop
            sys.excepthook(*sys.exc_info())
        finally:
            _exit(status)

    def _reap(self) -> bool:
        """Reap and report dead children, once what they have left is killed; False: no process is left."""
        died: dict[int, tuple[int, int]] = {}
        reports, is_leftover, pid = [], False, 1
        while pid:
            pid, status = self._wait4(-1, ctypes.byref(self._status), _WNOHANG, self._usage), self._status.value
            if pid < 0:  # there is no child
                break
            slot = self._pids.pop(pid, None)
            if slot is not None:
                died[pid] = slot, status
                reports.append(f"died {slot} {pid} {status} {usage.cpu_seconds(self._usage):.3f} {self._usage[4]}")
            elif pid and self._leftovers.reaped(pid, self._pids):
                is_leftover = True
        if died or is_leftover:
            self._leftovers.kill(self._pids, died)
        if reports:
            self._say("\n".join(reports))
        return not pid

    def _end(self) -> None:
        """Kill and reap everything."""
        for pid in self._pids:
            leftovers.kill(pid)
        self._leftovers.end()
        while self._reap():
            self._leftovers.kill(self._pids, {})
            _sleep(0.002)

    def _say(self, text: str) -> None:
        try:
            # A module may have given SIGPIPE its default action.
            self._control.send(text.encode(), _socket.MSG_NOSIGNAL)
        except OSError:
            pass  # the dispatcher is gone; the next read of the socket shows it


def _receive(control: _socket.socket) -> tuple[bytes, list[int]]:
    """A packet and its descriptors. Without the module socket, of which each child would have a copy."""
    room = _socket.CMSG_LEN(AT_ONCE * LENT * _INT.size)
    packet, messages, _flags, _address = control.recvmsg(PACKET, room, _socket.MSG_CMSG_CLOEXEC)
    return packet, [fd for _, _, data in messages for (fd,) in _INT.iter_unpack(data)]
