"""
A proxy between programs and Redis, on unix sockets, that breaks what goes through it.

    BEFORE   a request is not passed on, the connection ends: Redis has done nothing
    AFTER    a request is passed on, and at its reply the connection ends: Redis has done it, and nobody is told
    WITHIN   half of a reply is passed on, then the connection ends
    LATE     a reply comes later
    NEVER    a request is passed on, its reply and all that follow are swallowed; the connection stays
"""

import contextlib
import random
import socket
import threading
import time
from collections import Counter

BEFORE, AFTER, WITHIN, LATE, NEVER = "before", "after", "within", "late", "never"
_CHUNK = 1 << 16


class Proxy:
    """`Proxy(at, to)`; `chances` may be changed at any time."""

    def __init__(self, at, to, seed=0):
        """`at`: path of its own socket · `to`: of Redis'."""
        self.at, self._to = at, to
        #: what is done to a request or a reply, and how probable that is
        self.chances = {}
        #: s; how late LATE is
        self.late = 0.5
        #: how often each was done
        self.done = Counter()
        self._rand = random.Random(seed)
        self._pairs = set()
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(at))
        self._door.listen(128)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        """What a file or a client is given."""
        return f"unix://{self.at}"

    def cut_all(self):
        """End every connection now."""
        for pair in list(self._pairs):
            _end(pair)

    def close(self):
        """No more."""
        self._door.close()
        self.cut_all()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, server = self._door.accept()[0], socket.socket(socket.AF_UNIX)
                pair = (client, server)
                if server.connect_ex(str(self._to)):
                    _end(pair)
                    continue
                self._pairs.add(pair)
                for work in (self._requests, self._replies):
                    threading.Thread(target=self._pump, args=(work, pair), daemon=True).start()

    def _pump(self, work, pair):
        with contextlib.suppress(OSError):
            work(*pair)
        _end(pair)
        self._pairs.discard(pair)

    def _requests(self, client, server):
        while data := client.recv(_CHUNK):
            if self._draw(BEFORE):
                return
            server.sendall(data)

    def _replies(self, client, server):
        while data := server.recv(_CHUNK):
            if self._draw(AFTER):
                return
            if self._draw(WITHIN):
                client.sendall(data[: len(data) // 2])
                return
            if self._draw(LATE):
                time.sleep(self.late)
            if self._draw(NEVER):
                while server.recv(_CHUNK):
                    pass
                return
            client.sendall(data)

    def _draw(self, what):
        drawn = what in self.chances and self._rand.random() < self.chances[what]
        self.done[what] += drawn
        return drawn


def _end(pair):
    for end in pair:
        with contextlib.suppress(OSError):
            # close() alone would leave the other thread in its recv()
            end.shutdown(socket.SHUT_RDWR)
        end.close()
