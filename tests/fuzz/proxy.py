"""A unix socket in front of a Redis: passes on what is asked, and spoils a share of what is answered."""

import contextlib
import random
import re
import socket
import threading
import time

from tests.fuzz import mutate

WRONG = [
    b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b":0\r\n", b":1\r\n", b":-1\r\n", b":9223372036854775807\r\n", b"+OK\r\n",
    b"+\r\n", b"$0\r\n\r\n", b"$2\r\n\xff\xfe\r\n", b"*1\r\n*1\r\n*1\r\n:1\r\n",
    b"*4\r\n:0\r\n:0\r\n:-1\r\n*1\r\n$1\r\na\r\n", b"*4\r\n:0\r\n:0\r\n$1\r\nx\r\n$-1\r\n",
    b"*7\r\n" + b"$1\r\nx\r\n" * 7, b"-ERR spoilt\r\n", b"-NOSCRIPT spoilt\r\n", b"-LOADING spoilt\r\n",
    b"-READONLY spoilt\r\n", b"-MOVED 1 nowhere:1\r\n", b"-BUSY spoilt\r\n", b"-OOM command not allowed\r\n",
    b"-WRONGTYPE spoilt\r\n", b"-\r\n", b"-\xff\r\n", b"*1000000\r\n", b"$1000000\r\n", b"$-5\r\n",
    b"%1\r\n:1\r\n:2\r\n", b"#t\r\n", b",nan\r\n", b"_\r\n", b"(99999999999999999999\r\n", b"!3\r\nERR\r\n",
    b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00",
]  # fmt: skip
_ELEMENT = re.compile(rb"\$\d+\r\n[^\r]*\r\n|:-?\d+\r\n|\*\d+\r\n")


class Proxy(threading.Thread):
    def __init__(self, path, server, rand):
        super().__init__(daemon=True)
        #: the share of replies that are spoilt
        self.spoils, self.count = 0.0, 0
        self._server, self._rand, self._ended = str(server), rand, False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(100)
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while not self._ended:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def close(self):
        self._ended = True
        self._listener.close()

    def _pass(self, source, sink, answers):
        rand = random.Random(self._rand.randrange(1 << 30))
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if answers and rand.random() < self.spoils:
                    self.count += 1
                    data = spoilt(rand, data)
                sink.sendall(data)
                if not data:
                    break
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if answers:
            time.sleep(0.05)
            source.close()
            sink.close()


def spoilt(rand, data):
    """What stands there for one or more replies; nothing: the connection ends."""
    chance = rand.random()
    if chance < 0.05:
        return b""
    if chance < 0.3:
        return mutate.mutated(rand, data)
    if chance < 0.55:
        return rand.choice(WRONG)
    if chance < 0.65:
        return rand.choice((data + rand.choice(WRONG), rand.choice(WRONG) + data, data + data))
    elements = list(_ELEMENT.finditer(data))
    if not elements:
        return rand.choice(WRONG)
    element = rand.choice(elements)
    return data[: element.start()] + rand.choice((b"", *WRONG)) + data[element.end() :]
