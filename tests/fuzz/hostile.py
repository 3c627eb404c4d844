"""
Task code that turns on the child that runs it: on its sockets, pipes, page, signals, streams, results.

What a process may do to another of the same user by kill(2) or ptrace(2) is left out: no protocol can help there.
Standard library only; the child's own modules are reached as any task could reach them.
"""

import array
import json
import os
import random
import signal
import socket
import stat
import struct
import sys
import time
from pathlib import Path

HEAD, OUTCOME = struct.Struct("<cI"), struct.Struct("<QBBdI")
#: what it returns
ODD = [float("nan"), "\ud800", "x" * (2 << 20), b"bytes", {1: {2: object()}}, {"a": 1}, None, ...]


def honest(number, size=0):
    """A job among them: its own result."""
    return [number, "x" * size]


def attack(kind, seed, forges):
    """`forges`: it may speak for jobs that its child was handed; what runs in one process cannot be told apart."""
    rand = random.Random(seed)
    return globals()[f"_{kind}"](rand, forges)


def _descriptors():
    return [int(path.name) for path in Path("/proc/self/fd").iterdir() if path.exists()]


def _sockets():
    found = []
    for fd in _descriptors():
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            sock = socket.socket(fileno=os.dup(fd))
            sock.settimeout(0.5)
            found.append(sock)
    return found


def _send(data):
    for sock in _sockets():
        try:
            sock.sendall(data)
        except OSError:
            continue


def _serial():
    """Of this very job."""
    return sys.modules["_fusiond_worker.run"].serving.page.begun


def _outcome(serial, kind, payload, retry=0, duration=0.1):
    return OUTCOME.pack(serial, kind, retry, duration, len(payload)) + payload


def _frame(body, kind=b"O"):
    return HEAD.pack(kind, len(body)) + body


def _garbage(rand, forges):
    _send(rand.randbytes(rand.choice((1, 4, 5, 100, 100_000))))
    return _linger(rand)


def _linger(rand):
    time.sleep(rand.choice((0, 0, 0.01, 0.3)))
    return "lingered"


def _frames(rand, forges):
    """Outcomes of jobs that were, are or will be handed to whoever; of all kinds."""
    low, high = (0, 500) if forges else (0, _serial())
    serials = [
        rand.choice((rand.randint(low, high), (1 << 63) + 5, (1 << 64) - 1)) for _ in range(rand.choice((1, 5, 500)))
    ]
    durations = (0.0, 1e-9, 1e8, -1.0, float("nan"), float("inf"), 1e308)
    payloads = (b"", b"null", b'"forged"', b"\xff", b"{", b"[" * 100_000, b'{"code":1}', b"x" * (1 << 20))
    body = b"".join(
        _outcome(serial, rand.choice((0, 1, 2, 2, 7)), rand.choice(payloads), rand.randrange(3), rand.choice(durations))
        for serial in serials
    )
    _send(_frame(body, rand.choice((b"O", b"O", b"O", b"J", b"T", b"\xff"))))
    return _linger(rand)


def _errors(rand, forges):
    """Its own failure, in words of its own."""
    good = {"code": "EXCEPTION", "type": "a.B", "message": "m", "traceback": ""}
    odd = [0, None, [], {}, "\ud800", "x" * 900_000, "\x1b[31m\n\r\0", 1e999, "\u202e"]
    document = {**good, **{rand.choice(list(good)): rand.choice(odd) for _ in range(rand.randrange(3))}}
    payload = rand.choice((json.dumps(document).encode(), b"[" * 100_000, b"\xff\xfe{\0}\0", b"", b"1" * 5000, b"null"))
    _send(_frame(_outcome(_serial(), rand.choice((0, 1, 1)), payload, rand.randrange(2))))
    return _linger(rand)


def _huge(rand, forges):
    """One frame as long as is allowed, or longer; or a part of it."""
    length = rand.choice((64 << 20, (64 << 20) + 1, (1 << 32) - 1, 10 << 20))
    piece = rand.choice((b"\0" * (1 << 20), _outcome(1 << 40, 2, b"") * 40_000))
    for sock in _sockets():
        sock.sendall(HEAD.pack(b"O", length))
        for _ in range(min(length, 64 << 20) // len(piece)):
            sock.sendall(piece)
    return "sent"


def _flood(rand, forges):
    """Frames that say nothing, without end."""
    end, data = time.monotonic() + 0.5, _frame(b"") * 10_000
    while time.monotonic() < end:
        _send(data)
    return "flooded"


def _print(rand, forges):
    """Lines and marks of other jobs, without end; and bytes that are not text."""
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        os.write(1, b"".join(b"\0%x\n" % rand.randrange(1 << 70) for _ in range(100)) + rand.randbytes(1000))
    os.write(2, b"\0" * rand.randrange(20_000))
    return "printed"


def _forge(rand, forges):
    """Say that it has ended, live on, and answer for whoever comes next."""
    payload = b'"forged"'
    _send(_frame(_outcome(_serial(), 0, payload)))
    end = time.monotonic() + rand.choice((0.05, 0.5, 1.0))
    while time.monotonic() < end and forges:
        for serial in range(_serial() + 1, _serial() + 30):
            sys.modules["_fusiond_worker.run"].serving.page.begin(serial, time.monotonic_ns())
            _send(_frame(_outcome(serial, 0, payload)))
        time.sleep(0.02)
    time.sleep(0.1)
    return "unheard"


def _marks(rand, forges):
    """Whatever page it can write to."""
    for fd in _descriptors():
        if "fusiond-page" in str(Path(f"/proc/self/fd/{fd}").readlink()):
            os.pwrite(
                fd, struct.pack("<QQ", rand.choice((0, 1, 1 << 63, rand.randrange(300))), rand.choice((0, 1 << 63))), 0
            )
    page = sys.modules["_fusiond_worker.run"].serving.page
    page.words[0] = rand.choice((0, 1 << 63, (1 << 64) - 1, page.words[0] + 1))
    page.words[1] = rand.choice((0, (1 << 64) - 1))
    return _linger(rand)


def _steal(rand, forges):
    """Read whatever can be read: the socket, pipes of the server's; and write to what can be written to."""
    end = time.monotonic() + rand.choice((0.05, 0.5))
    for fd in _descriptors():
        os.set_blocking(fd, False)
    while time.monotonic() < end:
        for fd in _descriptors():
            try:
                os.read(fd, 1 << 16)
            except OSError:
                continue
        time.sleep(0.0005)
    for fd in _descriptors():
        try:
            os.write(fd, rand.randbytes(3))
        except OSError:
            continue
    return "stole"


def _close(rand, forges):
    """Its descriptors: all of them, or some."""
    for fd in _descriptors():
        if rand.random() < rand.choice((0.3, 1.0)):
            try:
                os.close(fd)
            except OSError:
                continue
    return "closed"


def _shut(rand, forges):
    for sock in _sockets():
        sock.shutdown(rand.choice((socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR)))
    return _linger(rand)


def _pass(rand, forges):
    """Descriptors to the other side, hundreds of them."""
    fds = array.array("i", [os.open("/dev/null", os.O_RDONLY)] * rand.choice((1, 250)))
    for sock in _sockets():
        for _ in range(rand.choice((1, 50))):
            try:
                sock.sendmsg([rand.choice((b"O\0\0\0\0", b"x"))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            except OSError:
                break
    return _linger(rand)


def _die(rand, forges):
    how = rand.randrange(5)
    if how == 0:
        os._exit(rand.choice((0, 1, 255)))
    os.kill(os.getpid(), (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGSTOP, signal.SIGABRT)[how])
    time.sleep(5)


def _deaf(rand, forges):
    """No signal that can be ignored ends it; it takes nothing, and stays."""
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(rand.choice((0.1, 5)))
    return "deaf"


def _alarms(rand, forges):
    """The child's own alarm, rung at the wrong moments."""
    for _ in range(50):
        os.kill(os.getpid(), signal.SIGALRM)
    signal.setitimer(signal.ITIMER_REAL, 0.001, rand.choice((0, 0.001)))
    return _linger(rand)


def _spawn(rand, forges):
    """Children that outlive it, in a session of their own, with all its descriptors."""
    for _ in range(rand.choice((1, 5))):
        if os.fork() == 0:
            if rand.random() < 0.5:
                os.setsid()
            if rand.random() < 0.5 and os.fork():
                os._exit(0)
            time.sleep(0.2)
            _send(_frame(b"") + b"O" * rand.randrange(100))
            time.sleep(30)
            os._exit(0)
    return _linger(rand)


def _return(rand, forges):
    value = rand.choice(ODD)
    for _ in range(rand.choice((0, 1, 3000))):
        value = [value]
    return value


class _Odd(BaseException):
    def __str__(self):
        raise _Odd

    def __repr__(self):
        return "\ud800"


def _raise(rand, forges):
    long = "\ud800\x1b" * 100_000
    plain = (_Odd(), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), RecursionError(), StopIteration(1))
    raise rand.choice((*plain, ValueError(long), OSError(5, long), ExceptionGroup(long, [ValueError(_Odd())] * 50)))


def _streams(rand, forges):
    """Streams that cannot be flushed, or are none."""
    sys.stdout = rand.choice((None, 5, os.fdopen(os.open("/dev/full", os.O_WRONLY), "w"), object()))
    if sys.stdout not in (None, 5) and hasattr(sys.stdout, "write"):
        sys.stdout.write("x")
    return "streams"


def _limits(rand, forges):
    import resource

    name = rand.choice((resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_AS))
    resource.setrlimit(name, (0, 0))
    return "limited"


KINDS = (
    "garbage", "frames", "errors", "huge", "flood", "print", "forge", "marks", "steal", "close", "shut", "pass", "die",
    "deaf", "alarms", "spawn", "return", "raise", "streams",
    "limits",  # the last: of a fresh child alone
)  # fmt: skip
