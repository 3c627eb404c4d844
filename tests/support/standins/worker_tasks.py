# ruff: noqa: ASYNC110, ASYNC240, ASYNC251, PTH110, PTH123, SIM115
# Task code as people write it.
"""
Task functions for the tests of a worker group. No fusiond here; runs under every interpreter from 3.9 up.

`path` is always a file to which a line is appended: how a test sees what ran, how often and in which process.
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import ctypes
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path


def note(path, *words):
    """One line, in one write, so that lines of several processes never mix."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(fd, (" ".join(map(str, words)) + "\n").encode())
    os.close(fd)


def _wait_for_the_gate(path):
    """Until the file is there; for a module that takes its time to load."""
    while not os.path.exists(path):
        note(f"{path}.waits", os.getpid())
        time.sleep(0.02)


class Upset(ConnectionError):
    """Two steps below OSError."""


class NotReady(Exception):
    """With the seconds after which to ask again, if there are any."""

    def __init__(self, seconds=None):
        if seconds is not None:
            self.retry_after = seconds


class Broken(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def kill_dispatcher(path):
    """At once, so before it has renewed a lease since this job began."""
    note(path, os.getpid())
    with open(f"/proc/{os.getppid()}/stat") as file:
        dispatcher = int(file.read().rpartition(")")[2].split()[1])
    os.kill(dispatcher, signal.SIGKILL)
    time.sleep(60)


# -- plain endings ----------------------------------------------------------------------------------------------------


def echo(*args, **kwargs):
    return {"args": list(args), "kwargs": kwargs}


def wait_for(path, ready, seconds=None):
    """Not ready until the file `ready` is there; what appears once this has left its line is seen the next time."""
    is_ready = os.path.exists(ready)
    note(path, time.monotonic())
    if not is_ready:
        raise NotReady(seconds)
    return "ready"


def say_and_end(path):
    """Prints 2,000 lines in each attempt; the second ends its process, the others raise."""
    note(path, "begun")
    attempt = len(Path(path).read_text().splitlines())
    for number in range(2000):
        print(f"line {number} of attempt {attempt}")
    if attempt == 2:
        os._exit(3)
    raise ValueError(f"attempt {attempt}")


def report(path, go_on, job):
    """Says that it is at a third, and, once the file `go_on` is there, at two thirds; its first attempt fails then."""
    job.progress(1 / 3, "a third")
    note(path, job["attempt"])
    while not os.path.exists(go_on):
        time.sleep(0.01)
    job.progress(2 / 3, "two thirds: \N{GREEK SMALL LETTER PI}")
    if job["attempt"] == 1:
        raise ConnectionError("again")
    while not os.path.exists(go_on + ".end"):
        time.sleep(0.01)


def report_often(path, go_on, job):
    """Says a hundred thousand times how far it is; how long that has taken."""
    note(path, "begun")
    while not os.path.exists(go_on):
        time.sleep(0.01)
    began = time.monotonic()
    for number in range(100_000):
        job.progress(number / 100_000, str(number))
    note(path, time.monotonic() - began)


def report_last(fails, job):
    """Says how far it is, and ends at once."""
    job.progress(0.5, "half")
    job.progress(0.9, "nearly: ü")
    if fails:
        raise ValueError


def add(a, b):
    return a + b


def inner_type_error():
    return "a" + 1


def give_generator():
    yield 1


async def give_async_generator():
    yield 1


class _Awaitable:
    def __await__(self):
        yield


def give_awaitable():
    return _Awaitable()


async def give_coroutine():
    return a_coroutine(1)


def give_map():
    return map(print, [1])


@contextlib.contextmanager
def give_manager():
    yield


def give_future():
    return concurrent.futures.Future()


def give_object():
    return object()


def give_nan():
    return float("nan")


def give_large(size):
    return "x" * size


def stop_other(path, pid, size):
    """The first time only, so that a test in which it runs again comes to an end."""
    note(path, os.getpid())
    if len(Path(path).read_text().splitlines()) == 1:
        os.kill(pid, signal.SIGSTOP)
    return "x" * size


def leave(status):
    sys.exit(status)


def upset(path=None):
    if path:
        note(path, time.time())
    raise Upset("no route")


def wrong():
    raise ValueError("wrong")


def speechless():
    raise Broken


def pid(path=None):
    if path:
        note(path, os.getpid())
    return os.getpid()


async def a_coroutine(x):
    return x


def told(*, job):
    return {**job, "environment": os.environ.get("FUSION_JOB_ID"), "trace": os.environ.get("TRACEPARENT")}


# -- deaths -----------------------------------------------------------------------------------------------------------


def exit_at_once(status, path=None):
    if path:
        note(path, os.getpid())
    os._exit(status)


def kill_self(number, path=None):
    if path:
        note(path, os.getpid())
    os.kill(os.getpid(), number)
    time.sleep(60)


def once_killed(path):
    """Dies the first time."""
    first = not os.path.exists(path)
    note(path, os.getpid())
    if first:
        os.kill(os.getpid(), signal.SIGKILL)
    return "second"


# -- time -------------------------------------------------------------------------------------------------------------


def work(path, seconds=0.0, name="work"):
    note(path, name, os.getpid())
    time.sleep(seconds)
    return name


def share_slots(path, slots=1, seconds=0.0):
    with holding(path, slots):
        time.sleep(seconds)


@contextlib.contextmanager
def holding(path, slots):
    """
    Hold a file by a lock, which ends with the process in any case. Notes how many slots all who do so hold.

    Whoever begins counts the files that are locked; their names have the slots of each.
    """
    folder = Path(path + ".held")
    folder.mkdir(exist_ok=True)
    with (folder / f"{time.monotonic_ns()}-{os.getpid()}.{slots}").open("w") as own:
        with open(path + ".mutex", "w") as mutex:
            fcntl.flock(mutex, fcntl.LOCK_EX)
            fcntl.flock(own, fcntl.LOCK_EX)
            note(path, sum(int(each.suffix[1:]) for each in folder.iterdir() if is_locked(each)))
        yield


def is_locked(path):
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    path.unlink()
    return False


def clean_up(path):
    note(path, "begun")
    try:
        try:
            time.sleep(60)
        except Exception:
            note(path, "swallowed")
    finally:
        note(path, "cleaned")


def defy(path):
    """Swallows everything, ignores what can be ignored, and spins."""
    note(path, os.getpid())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue


def change_group(path):
    """Leaves its process group for the fork server's, and spins."""
    note(path, os.getpid())
    os.setpgid(0, os.getpgid(os.getppid()))
    while True:
        time.sleep(0.01)


def own_alarm(path):
    """Uses SIGALRM for itself, and leaves it so."""
    signal.signal(signal.SIGALRM, lambda *_: note(path, "theirs"))
    signal.setitimer(signal.ITIMER_REAL, 0)


def borrow_alarm(borrow=True):
    """As decorators for timeouts do: a handler and a timer of its own; afterwards the old handler, and no timer."""
    if borrow:
        old = signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 5)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


# -- processes --------------------------------------------------------------------------------------------------------

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(300)"]


def spawn(path, seconds=0.0):
    """Grandchildren: in the same group, in a session of its own, and orphaned in a session of its own."""
    note(path, subprocess.Popen(SLEEP).pid)
    note(path, subprocess.Popen(SLEEP, start_new_session=True).pid)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note(path, os.getpid())
            time.sleep(300)
        os._exit(0)
    while len(open(path).readlines()) < 3:
        time.sleep(0.005)
    time.sleep(seconds)


def spawn_chain(path):
    """A shell in its own session that waits for a program in yet another one: an orphan's orphan."""
    program = (
        f"import subprocess, sys, time; p = subprocess.Popen({SLEEP!r}, start_new_session=True); "
        f"open({path!r}, 'a').write(str(p.pid) + '\\n'); p.wait()"
    )
    subprocess.Popen([sys.executable, "-S", "-c", program], start_new_session=True)
    while not os.path.exists(path) or not open(path).read().endswith("\n"):
        time.sleep(0.005)


def orphan(path, seconds):
    """Leaves an orphan behind and needs it to live for so long."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note(path, os.getpid())
            time.sleep(300)
        os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        # The file is there a moment before its line.
        if os.path.exists(path) and (line := open(path).read()):
            os.kill(int(line), 0)
        time.sleep(0.01)
    return "lives"


def fork_back(path):
    """The fork returns into whoever called this function."""
    if os.fork() == 0:
        note(path, "copy", os.getpid())
        return "copy"
    os.wait()
    note(path, "original", os.getpid())
    return "original"


def close_everything(path):
    note(path, os.getpid())
    os.closerange(0, 1024)
    return "closed"


# -- output -----------------------------------------------------------------------------------------------------------


def speak(word):
    print(word, "printed")
    sys.stderr.write(word + " complained\n")
    os.system("echo " + word + " echoed")
    os.write(1, (word + " unended").encode())


def shout(lines):
    """More than a pipe holds."""
    for n in range(lines):
        print(n, "x" * 1000)
    return lines


def shout_at_start():
    for n in range(100):
        print("start", n, "x" * 50)


def tick_from_start_on():
    import threading

    def tick():
        while True:
            print(f"tick of {os.getpid()}")
            time.sleep(0.01)

    threading.Thread(target=tick, daemon=True).start()


def unblock_output(unblock=True):
    """As programs in other languages do to what they print to."""
    if unblock:
        os.set_blocking(1, False)


def burst(lines):
    """Prints so many short lines at once, and then nothing."""
    os.write(1, b"y\n" * lines)
    time.sleep(600)


def chatter_behind(path):
    """Leaves a process that prints without end, in its own group, and returns."""
    note(path, os.getpid())
    subprocess.Popen(["yes"])
    return "returned"


# -- hostile to its own worker ----------------------------------------------------------------------------------------


def _child():
    return sys.modules["_fusiond_worker.run"].serving


def _write(data):
    while data:
        data = data[os.write(_child()._fd, data) :]


def send(raw, stay=0.0):
    """Raw bytes, given as latin-1, into the socket of its child."""
    _write(raw.encode("latin-1"))
    time.sleep(stay)
    return "sent"


def flood(seconds):
    """Frames that say nothing, as fast as they go."""
    frame = sys.modules["_fusiond_worker.wire"].outcomes_frame([]) * 5000
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _write(frame)
    return "flooded"


def speak_for(others):
    """Say that it has ended; then live on, and answer for the next ones of its slot, with a socket found anywhere."""
    wire, page = sys.modules["_fusiond_worker.wire"], _child().page
    fds = [int(path.name) for path in Path("/proc/self/fd").iterdir() if path.exists()]
    fd = next(fd for fd in fds if stat.S_ISSOCK(os.fstat(fd).st_mode))
    serial = page.begun
    for each in range(serial, serial + others + 1):
        page.begin(each, time.monotonic_ns())
        os.write(fd, wire.outcomes_frame([wire.OutcomeMessage(each, wire.FINISHED, False, 0.0, b'"forged"')]))
        time.sleep(0.02)
    time.sleep(60)


def scribble(word, value, path=None, stay=0.0):
    """A number into the shared page; then it dies, or stays."""
    if path:
        note(path, os.getpid())
    _child().page.words[word] = value
    if not stay:
        os._exit(1)
    time.sleep(stay)


def _fill(fd):
    os.set_blocking(fd, False)
    for _ in range(1000):
        os.write(fd, b"x" * 4096)


def _shut(fd):
    with socket.socket(fileno=os.dup(fd)) as sock:
        sock.shutdown(socket.SHUT_RDWR)


def _send_descriptors(fd):
    with socket.socket(fileno=os.dup(fd)) as sock:
        for _ in range(50):
            socket.send_fds(sock, [b"x"], [1, 1, 1])


def _lock(fd):
    fcntl.flock(fd, fcntl.LOCK_EX)
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_DIRECT | os.O_ASYNC | os.O_NONBLOCK)
    fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 4096)


_ABUSES = {
    "truncate": lambda fd: os.ftruncate(fd, 0),
    "enlarge": lambda fd: os.ftruncate(fd, 1 << 40),
    "close": os.close,
    "garbage": lambda fd: os.write(fd, os.urandom(4096)),
    "fill": _fill,
    "shutdown": _shut,
    "descriptors": _send_descriptors,
    "flags": _lock,
}


def abuse(how, path, stay=0.0):
    """Do this to each descriptor that the job has inherited."""
    note(path, os.getpid())
    for fd in sorted(int(entry.name) for entry in Path("/proc/self/fd").iterdir()):
        try:
            _ABUSES[how](fd)
        except OSError:
            continue
    time.sleep(stay)


# -- who and where it is ----------------------------------------------------------------------------------------------


def interpreter():
    try:
        import fusiond  # noqa: F401
    except ImportError:
        found = False
    else:
        found = True
    return {"version": list(sys.version_info[:2]), "fusiond": found, "path0": sys.path[0]}


def environment(*names):
    return {name: os.environ.get(name) for name in names}


_kept = []


def burn(seconds):
    """Keep the processor busy: this process, and then one below it."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    if child := os.fork():
        os.waitpid(child, 0)
        return
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    os._exit(0)


def grow(mebibytes):
    _kept.append(b"x" * (mebibytes << 20))
    return os.getpid()


# -- many at once -----------------------------------------------------------------------------------------------------


def meet(path, count):
    """End once so many jobs have begun; returns how many there were."""
    note(path, os.getpid())
    while len(Path(path).read_text().splitlines()) < count:
        time.sleep(0.01)
    return len(Path(path).read_text().splitlines())


async def meet_awaiting(path, count):
    note(path, os.getpid())
    while len(Path(path).read_text().splitlines()) < count:
        await asyncio.sleep(0.01)
    return len(Path(path).read_text().splitlines())


def held(path, seconds=30.0, ignore=False):
    """Sleep in short steps; notes how it ended, and goes on after an exception where it is to `ignore` that."""
    _until_over(path, seconds, ignore, time.monotonic(), is_first=True)
    note(path, "done")
    return "held"


def _until_over(path, seconds, ignore, began, *, is_first=False):
    """What stops it may come between any two byte codes: all that takes time is inside, and so is the first line."""
    try:
        if is_first:
            note(path, "begun", os.getpid())
        while time.monotonic() < began + seconds:
            time.sleep(0.01)
    except BaseException as error:
        note(path, type(error).__name__)
        if not ignore:
            raise
        _until_over(path, seconds, ignore, began)


async def held_awaiting(path, seconds=30.0, ignore=False):
    note(path, "begun", os.getpid())
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        try:
            await asyncio.sleep(0.01)
        except BaseException as error:
            note(path, type(error).__name__)
            if not ignore:
                raise
    note(path, "done")
    return "held"


async def block(path, seconds=30.0):
    """Keep the event loop."""
    note(path, "begun", os.getpid())
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            time.sleep(0.05)
        except BaseException as error:
            note(path, type(error).__name__)


async def block_until_told(path):
    note(path, "begun", os.getpid())
    time.sleep(30)


def die_beside(path, count):
    """Kill this process once so many jobs have noted that they have begun."""
    note(path, "begun", os.getpid())
    while sum("begun" in line for line in Path(path).read_text().splitlines()) < count:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


async def say_in_turns(path, word, count):
    """Print lines in parts, and log, while another does the same."""
    import logging

    note(path, "begun")
    while len(Path(path).read_text().splitlines()) < count:
        await asyncio.sleep(0.01)
    for number in range(3):
        print(word, end="")
        await asyncio.sleep(0.01)
        print(f" {number}")
        logging.getLogger("app").warning("%s logs %d", word, number)
    await asyncio.gather(_say(f"{word} below"))
    print(f"{word} unfinished", end="")


async def _say(text):
    print(text)


def say_in_a_thread(path, word, count):
    note(path, "begun")
    while len(Path(path).read_text().splitlines()) < count:
        time.sleep(0.01)
    for number in range(3):
        print(word, end="")
        time.sleep(0.01)
        print(f" {number}")
        sys.stderr.write(f"{word} err {number}\n")


def raise_stop():
    raise StopIteration("out")


async def leave_below():
    """A task below this one calls sys.exit."""
    await asyncio.gather(_leave())


async def _leave():
    sys.exit(3)


#: what `start_up` has left
STARTED = []


def start_up():
    STARTED.append(os.getpid())


async def start_up_awaiting():
    await asyncio.sleep(0.3)
    STARTED.append((os.getpid(), asyncio.get_running_loop()))


async def started_in_this_loop():
    return [STARTED[0][0] == os.getpid(), STARTED[0][1] is asyncio.get_running_loop(), len(STARTED)]


def started():
    return [[os.getpid()] == STARTED, os.nice(0)]


def fail_to_start():
    raise ConnectionError("no database here")


async def keep_the_lock(path):
    """The first time: sleep in C for long, with the lock of the interpreter, and hear no alarm."""
    if os.path.exists(path):
        return "let go"
    note(path, "begun")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    ctypes.PyDLL(None).sleep(60)
    return None


WORD = contextvars.ContextVar("word", default="unset")


def set_context():
    found = WORD.get()
    WORD.set("set")
    return found


async def set_context_awaiting():
    found = WORD.get()
    WORD.set("set")
    await asyncio.sleep(0.001)
    return found
