"""
Requests on the daemon's control socket: malformed, huge, slow, half closed, of unknown verbs and wrong types.

Promise: while all that goes on `fusiond status` is answered within a second, and afterwards nothing is left of it. On a
machine that is busy with other things, that second is one of the daemon's own processor time.
"""

import contextlib
import os
import random
import socket
import threading
import time
import xmlrpc.client
from pathlib import Path

from fusiond.errors import ControlError
from fusiond.locate.control import ask
from tests.fuzz import mutate
from tests.fuzz.ground import Ground
from tests.fuzz.run import Target
from tests.support.running import until

FILE = """
broker: {url: embedded}
defaults: {workers: {directory: "{app}", processes: 1}}
tasks: {echo: {run: harmless.echo}}
workers: {main: {queues: "*", isolation: fork}}
"""
#: s; for an answer to `status`, whatever else is asked; and however busy the machine is
PROMPT, EVER = 1.0, 15.0
#: s; between two looks
LOOK = 0.05
#: none that ends a program, or the daemon
VERBS = (
    "fusion.status", "fusion.plan", "fusion.history", "fusion.reload", "fusion.rollback", "fusion.identity",
    "fusion.nothing",
    "system.listMethods", "system.methodHelp", "system.methodSignature", "system.multicall", "supervisor.getState",
    "supervisor.getAllProcessInfo", "supervisor.getProcessInfo", "supervisor.startProcess", "supervisor.getPID",
    "supervisor.tailProcessStdoutLog", "supervisor.readProcessLog", "supervisor.readProcessStdoutLog",
    "supervisor.tailProcessLog", "supervisor._update", "supervisor.supervisord.options", "fusion.__init__",
    "fusion._fleet", "a", ".", "..", "fusion.", "\u00fc.\u00fc",
)  # fmt: skip
#: no name of a group: its code would be taken again
VALUES = (
    "", "redis", "scheduler", "worker:main", "worker:*", "nothing", "x" * 5000, "\u00fc", "../../etc/passwd", "%s", 0,
    -1, 1, 2**31 - 1, -(2**31), 1e308, True, [], {}, [[]], ["x"] * 100, {"a": {"b": []}},
    xmlrpc.client.Binary(b"\xff\x00"), xmlrpc.client.DateTime("20300101T00:00:00"),
)  # fmt: skip
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BOMBS = [
    f'<!DOCTYPE x [<!ENTITY l0 "ha">{LAUGHS}]><methodCall><methodName>&l9;</methodName></methodCall>',
    f'<!DOCTYPE x [<!ENTITY a "{"a" * 50_000}">]><methodCall><methodName>{"&a;" * 20_000}</methodName></methodCall>',
    '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///dev/zero">]><methodCall><methodName>&a;</methodName></methodCall>',
    "<methodCall><methodName>fusion.status</methodName><params>" + "<param><value><array><data>" * 50_000,
    "<a>" * 200_000,
    "<methodCall " + "".join(f'a{n}="" ' for n in range(50_000)) + "/>",
    "<methodCall><methodName>" + "fusion." * 100_000 + "</methodName></methodCall>",
]


class Fuzz(Target):
    def __init__(self, rand):
        super().__init__(rand)
        self.ground = Ground(FILE, "harmless.py")
        self.open = []
        self.watch = None

    def begin(self):
        self.watch = Watch(self.ground.control, self.ground.process.pid)

    def __exit__(self, *_):
        self._close_all()
        if self.watch:
            self.watch.stop()
        super().__exit__()

    def round(self):
        for _ in range(30):
            attack = self.rand.choice(ATTACKS)
            self.seen[attack.__name__.lstrip("_").replace("_", " ")] += 1
            self.watch.during = attack.__name__
            with contextlib.suppress(OSError):
                attack(self)
            self.watch.check()
        self._close_all()
        # On a busy machine a program may take longer than its second to find out whether it can serve.
        until(lambda: self.ground.status()["ready"], self.ground.text)

    # -- on the way ---------------------------------------------------------------------------------------------------

    def connect(self):
        sock = socket.socket(socket.AF_UNIX)
        self.open.append(sock)
        sock.settimeout(0.3)
        sock.connect(str(self.ground.control))
        return sock

    def send(self, data, sock=None):
        """Send it in some number of pieces, and then do with the connection what a client may do."""
        rand, sock = self.rand, sock or self.connect()
        pieces = rand.choice((1, 1, 1, 2, 5, min(200, len(data) or 1)))
        step = len(data) // pieces + 1
        for at in range(0, len(data), step):
            sock.sendall(data[at : at + step])
        match rand.randrange(6):
            case 0:
                sock.close()
            case 1:
                sock.shutdown(socket.SHUT_WR)
            case 2:
                sock.shutdown(socket.SHUT_RDWR)
            case 3:
                pass  # it stays open until the round is over
            case _:
                with contextlib.suppress(TimeoutError):
                    sock.recv(1 << 16)

    def _close_all(self):
        for sock in self.open:
            sock.close()
        self.open.clear()


class Watch(threading.Thread):
    """Asks for the status again and again, and notes the longest wait."""

    def __init__(self, control, pid):
        super().__init__(daemon=True)
        self._control, self._pid, self._ended, self.during, self.late = control, pid, threading.Event(), "", []
        self.start()

    def run(self):
        while not self._ended.wait(LOOK):
            began, used, during = time.monotonic(), _processor_time(self._pid), self.during
            try:
                ask(self._control, "status", timeout=EVER)
            except ControlError as error:
                self.late.append(f"{error} ({during})")
            took = time.monotonic() - began
            if took > PROMPT and _processor_time(self._pid) - used > PROMPT * 0.9:
                self.late.append(f"status took {took:.1f} s, during {during}, then {self.during}")

    def check(self):
        assert not self.late, "; ".join(self.late)

    def stop(self):
        self._ended.set()
        self.join()


def _processor_time(pid):
    """Seconds that a process has used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request(body, path="/RPC2", verb="POST", headers=(), version="1.1"):
    """One of HTTP, as our own client sends it."""
    body = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    lines = [f"{verb} {path} HTTP/{version}", "Host: localhost", "Content-Type: text/xml", *headers]
    if not any(line.lower().startswith("content-length") for line in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def call(rand, verb=None):
    """A verb with some values."""
    values = tuple(rand.choice(VALUES) for _ in range(rand.choice((0, 0, 1, 2, 3))))
    return xmlrpc.client.dumps(values, verb or rand.choice(VERBS))


def _wrong_types(self):
    self.send(request(call(self.rand)))


def _mutated_request(self):
    self.send(mutate.mutated(self.rand, request(call(self.rand))))


def _mutated_body(self):
    self.send(request(mutate.mutated(self.rand, call(self.rand).encode())))


def _random_bytes(self):
    self.send(self.rand.randbytes(self.rand.choice((0, 1, 10, 5000))) + self.rand.choice((b"", b"\r\n\r\n")))


LENGTHS = ("-1", "-100000", "0", "1", "5", "999999999999", "9" * 400, "1e3", "x", "", " 5", "0x10", "5, 5")
HEADERS = (
    "Transfer-Encoding: chunked", "Connection: close", "Connection: keep-alive", "Expect: 100-continue", "nothing", ":",
    " folded", "Authorization: Basic !!!", "X: " + "y" * 100_000, "\r\n".join(f"X{n}: y" for n in range(2000)),
)  # fmt: skip
PATHS = (
    "/", "/RPC2/", "/RPC2?x=%ff&%", "/RPC2x", "*", "", "//", "/%00", "/logtail/redis", "/logtail/redis/stdout",
    "/logtail", "/logtail/scheduler/stderr", "/mainlogtail", "/../etc/passwd", "/" + "a" * 70_000, "http://x/RPC2",
    "/RPC2;x#y?z",
)  # fmt: skip


def _odd_length(self):
    self.send(request(call(self.rand), headers=[f"Content-Length: {self.rand.choice(LENGTHS)}"]))


def _odd_headers(self):
    headers = self.rand.sample(HEADERS, self.rand.randrange(1, 5))
    version = self.rand.choice(("1.0", "1.1", "0.9", "9", "x", ""))
    self.send(request(call(self.rand), headers=headers, version=version))


def _other_path(self):
    verb = self.rand.choice(("GET", "POST", "PUT", "HEAD", "OPTIONS", "X" * 1000, "get", ""))
    self.send(request(self.rand.choice(("", "x")), self.rand.choice(PATHS), verb))


def _bomb(self):
    self.send(request(self.rand.choice(BOMBS)))


def _multicall(self):
    calls = [{"methodName": self.rand.choice(VERBS), "params": []}] * self.rand.choice((1, 10, 3000))
    self.send(request(xmlrpc.client.dumps((calls,), "system.multicall")))


def _endless_head(self):
    sock = self.connect()
    piece = self.rand.choice((b"a" * 65536, b"A: b\r\n" * 10000, b"\r\n" * 30000, b"\r" * 65536))
    for _ in range(self.rand.choice((1, 16, 256))):
        sock.sendall(piece)


def _endless_body(self):
    sock = self.connect()
    sock.sendall(request(b"", headers=["Content-Length: 999999999999"]))
    for _ in range(self.rand.choice((1, 16, 256))):
        sock.sendall(b"<a>" * 20_000)


def _pipelined(self):
    self.send(b"".join(request(call(self.rand)) for _ in range(self.rand.choice((2, 20, 200)))))


def _never_reads(self):
    sock = self.connect()
    sock.settimeout(0.1)
    for _ in range(self.rand.choice((10, 2000))):
        sock.sendall(request(call(random.Random(1), "system.listMethods")))


def _slow(self):
    """The head of a request on many connections, and never its end."""
    for _ in range(self.rand.choice((5, 50, 300))):
        self.connect().sendall(request(call(self.rand))[: self.rand.randrange(200)])


ATTACKS = (
    *[_wrong_types, _mutated_request, _mutated_body] * 4, *[_random_bytes, _odd_length, _odd_headers, _other_path] * 2,
    _bomb, _multicall, _endless_head, _endless_body, _pipelined, _never_reads, _slow,
)  # fmt: skip
