"""A real Redis that a test can kill, stop, start with other options, and whose clock it can set."""

import mmap
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.connection import connect
from fusiond.config import model
from fusiond.errors import BrokerError
from fusiond.supervise.server import choose_server
from tests.support.running import end_with_parent, until

#: as the embedded one is run, and settings that a fault wants to change. But it leaves syncs to the system: while one
#: goes on, for seconds on a busy disk, Redis answers before it writes, and a kill loses that, as the docs say
OPTIONS = {
    "save": "",
    "appendonly": "yes",
    "appendfsync": "no",
    "maxmemory-policy": "noeviction",
    "auto-aof-rewrite-percentage": "0",
    "enable-protected-configs": "yes",
    "enable-debug-command": "yes",
}

#: shifts the wall clock of the process that loads it by the ns that the file in $CLOCK holds
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *shift;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
  real = dlsym(RTLD_NEXT, "clock_gettime");
  shift = mmap(0, 8, PROT_READ, MAP_SHARED, open(getenv("CLOCK"), O_RDONLY), 0);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, at);
  int wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (!failed && shift && wall) at->tv_sec += *shift / 1000000000;
  return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
"""


class Clock:
    """The clock of one server, set from outside while it runs; needs gcc."""

    def __init__(self, directory):
        self._file = directory / "clock"
        self._file.write_bytes(bytes(8))
        with self._file.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": compiled(SHIM, directory), "CLOCK": str(self._file)}

    def shift(self, seconds):
        """So many seconds off the truth."""
        self._map[:] = struct.pack("q", int(seconds) * 10**9)


def has_compiler():
    """Whether there can be a Clock."""
    return shutil.which("gcc") is not None


def compiled(source, directory):
    """The path of a library of this C."""
    path = directory / "library.so"
    words = ["gcc", "-shared", "-fPIC", "-O1", "-x", "c", "-o", path, "-", "-ldl"]
    subprocess.run(words, input=source.encode(), check=True)
    return str(path)


class Server:
    """On a unix socket in `directory`, its files there too; it dies with this process."""

    def __init__(self, directory, *, clocked=False, port=0, name="redis"):
        """`clocked`: its clock can be set · `port`: on loopback too, for replicas."""
        self.directory = directory / name
        self.directory.mkdir(parents=True)
        self.path = self.directory / "r.sock"
        self.url, self.port = f"unix://{self.path}", port
        self.clock = Clock(self.directory) if clocked else None
        #: what its process has more than this one
        self.environment = self.clock.environment if self.clock else {}
        self.process = None

    def start(self, **options):
        """Start it, or again; returns when it accepts connections, though it may be loading."""
        words = [
            choose_server().path,
            "--port",
            str(self.port),
            "--unixsocket",
            str(self.path),
            "--dir",
            str(self.directory),
        ]
        for name, value in (OPTIONS | {each.replace("_", "-"): value for each, value in options.items()}).items():
            words += [f"--{name}", str(value)]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                words, cwd=self.directory, stdout=log, stderr=log,
                env={**os.environ, **self.environment},
                preexec_fn=end_with_parent,  # noqa: PLW1509
            )  # fmt: skip
        until(self._accepts, self.text)
        return self

    def _accepts(self):
        assert self.process.poll() is None, self.text()
        with socket.socket(socket.AF_UNIX) as door:
            return door.connect_ex(str(self.path)) == 0

    def text(self):
        """Its log."""
        return (self.directory / "log").read_text()

    def kill(self):
        """Kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        """End it, in whatever state it is."""
        if self.process and self.process.poll() is None:
            self.kill()

    def connect(self):
        """Past every proxy."""
        return connect(model.Broker(url=self.url), self.directory)

    def ask(self, *words):
        """One command, and its reply."""
        with self.connect() as connection:
            return connection.run(plain(as_is, *words))

    def set(self, name, value):
        """CONFIG SET."""
        self.ask("CONFIG", "SET", name, value)

    def shift(self, seconds):
        """Set its clock so many seconds off the truth; returns when scripts see it, which takes up to 0.1 s."""
        self.clock.shift(seconds)
        until(lambda: abs(int(self.ask("EVAL", "return redis.call('TIME')", 0)[0]) - time.time() - seconds) < 2)

    def answers(self):
        """Whether it answers PING: not while it is gone, loading or busy."""
        try:
            return bool(self.ask("PING"))
        except BrokerError:
            return False


def own_server(stack):
    """A server on files of its own and their directory, both gone with the ExitStack."""
    # not tmp_path: a socket's path can have 107 bytes
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fd-", dir="/tmp")))
    server = Server(directory)
    stack.callback(server.close)
    return server.start(), directory


class RedisServer(Server):
    """One for many tests: in a directory of its own, without files."""

    def __init__(self):
        # not tmp_path: a socket's path can have 107 bytes
        super().__init__(Path(tempfile.mkdtemp(prefix="fu")))
        self.start()

    def start(self, **options):
        return super().start(**{"appendonly": "no", **options})

    def kill(self):
        """Like a crash, and the socket's file is gone too."""
        super().kill()
        self.path.unlink(missing_ok=True)

    def restart(self, **options):
        self.kill()
        self.start(**options)

    def remove(self):
        self.kill()
        shutil.rmtree(self.directory.parent)

    def connect(self, namespace="test"):
        return connect(model.Broker(url=self.url, namespace=namespace), self.directory)
