"""What systemd hears of a whole daemon, on a real socket, from its start to its end."""

import socket
import time

import pytest

from tests.support.running import until

#: seconds that systemd would wait for a sign of life
WATCHDOG = 2.0


class Systemd:
    """Listens; keeps each datagram as a dict."""

    def __init__(self, path):
        self.path, self.heard = path, []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)

    def listen(self):
        while True:
            try:
                lines = self.socket.recv(65536).decode().split("\n")
            except BlockingIOError:
                return self.heard
            self.heard.append(dict(line.split("=", 1) for line in lines))

    def states(self):
        """The words in their order, less STATUS and WATCHDOG."""
        return [word for said in self.listen() for word in said if word in ("READY", "RELOADING", "STOPPING")]


@pytest.fixture
def systemd(daemon):
    systemd = Systemd(daemon.directory / "notify")
    yield systemd
    systemd.socket.close()


def test_a_daemons_life_as_systemd_hears_it(daemon, systemd):
    """READY follows each RELOADING, a refused one's too, and pings go on."""
    environment = {"NOTIFY_SOCKET": str(systemd.path), "WATCHDOG_USEC": str(int(WATCHDOG * 1e6))}
    daemon.start(daemon.body("main: {environment: {COLOUR: red}}"), environment=environment)
    until(lambda: systemd.states() == ["READY"], systemd.listen)

    began = time.monotonic_ns() // 1000
    daemon.write(daemon.body("main: {environment: {COLOUR: blue}}"))
    until(lambda: systemd.states() == ["READY", "RELOADING", "READY"], systemd.listen)
    reloading = next(said for said in systemd.heard if "RELOADING" in said)
    # systemd takes a READY for the answer only if it comes after this moment of the monotonic clock.
    assert began < int(reloading["MONOTONIC_USEC"]) < time.monotonic_ns() // 1000

    (daemon.app / "broken.py").write_text("def task(:\n")
    outcome = daemon.reload(daemon.body("main: {}", tasks="  broken: {run: broken.task}\n"))
    assert outcome["result"] == "refused"
    # The file's watcher and the request may have been two reloads, or one: the second may begin at any time.
    states = until(lambda: len(found := systemd.states()) > 3 and found[-1] == "READY" and found, systemd.listen)
    assert states[1:] == ["RELOADING", "READY"] * (len(states) // 2)
    assert "the last reload was refused" in [said for said in systemd.heard if "READY" in said][-1]["STATUS"]

    pings = sum("WATCHDOG" in said for said in systemd.listen())
    until(lambda: sum("WATCHDOG" in said for said in systemd.listen()) > pings, systemd.listen)
    assert daemon.stop() == 0
    assert systemd.states()[-1] == "STOPPING"
