"""The end of a fork server, while others live or end beside it: who reaps it, and what is said of it."""

import asyncio
import os
import socket
import subprocess
import sys

import pytest

from fusiond.worker.pool.fork_server import orphans, server_handle
from fusiond.worker.pool.fork_server.launch import Launched, LaunchedFrom
from fusiond.worker.pool.pool_reports import Died, Lost, ServerDied
from tests.support.worker_program import children_of

#: closes its socket, and ends some time later
SLOW_END = "import os, sys, time; os.close(int(sys.argv[1])); time.sleep(0.3); sys.exit(7)"

#: reads nothing
LAST_WORDS = "import os, sys; os.write(int(sys.argv[1]), b'unforked 4 no memory')"


@pytest.fixture
def _alone(monkeypatch):
    """Processes of other tests are neither killed nor reaped, and a slow machine is no reason to kill either."""
    own = set(children_of(os.getpid()))
    orphans.spared.update(own)
    monkeypatch.setattr(server_handle, "_BY_ITSELF", 30.0)
    yield
    orphans.spared.difference_update(own)


def launched(program, asked=()):
    """A fork server of which this was asked before it began."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for packet in asked:
        ours.send(packet)
    output, printed = os.pipe()
    command = [sys.executable, "-S", "-c", program, str(theirs.fileno())]
    with theirs, open(printed, "wb") as file:  # noqa: PTH123
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdout=file, stderr=file)
    ours.setblocking(False)
    os.set_blocking(output, False)
    return Launched(process, ours, output, LaunchedFrom())


@pytest.mark.usefixtures("_alone")
def test_what_a_fork_server_said_last_is_heard():
    """Also where it ended before it had read what it was asked."""

    async def steps():
        heard, ended = [], asyncio.get_running_loop().create_future()

        def report(_server, what):
            heard.append(what)
            if isinstance(what, ServerDied):
                ended.set_result(None)

        server = server_handle.ServerHandle(launched(LAST_WORDS, [b"kill 1"]), report)
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - nothing may be heard before
        async with asyncio.timeout(30):
            await ended
        assert heard[:2] == [Died(4, 1, "no memory"), Lost(hung=False)]

    asyncio.run(steps())


@pytest.mark.usefixtures("_alone")
def test_the_status_of_a_lost_fork_server_is_its_own():
    """Whoever else kills and reaps what a dead one has left."""

    async def steps():
        died = asyncio.get_running_loop().create_future()

        def report(_server, what):
            match what:
                case Lost(hung):
                    assert not hung
                    orphans.kill_children()  # as the end of another fork server does
                case ServerDied():
                    died.set_result(what)

        server = server_handle.ServerHandle(launched(SLOW_END), report)
        async with asyncio.timeout(30):
            assert await died == ("the fork server ended with status 7", False, set())
        assert server.pid not in orphans.spared

    asyncio.run(steps())
