"""When a dispatcher hears what its children send."""

import asyncio
import contextlib
import os
import socket
import time

import pytest

from fusiond.worker.pool.attempt import Attempt, KillReason
from fusiond.worker.pool.children import Children
from fusiond.worker.pool.slots import ChildKind
from fusiond.worker.runtime import wire

#: from <asm-generic/socket.h>
SO_SNDBUFFORCE = 32


class Forks:
    """Takes the children's sockets, as a fork server does; the test speaks for the children."""

    silent = False

    def __init__(self):
        self.sockets = []

    def fork(self, _slot, sock, _output, _page):
        self.sockets.append(sock)


async def turn():
    """Let the loop do what is due, and what comes of that."""
    for _ in range(4):
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def one_child(**keys):
    """The Children of one child with a job, its end of the socket, the job's serial, and the serials that are heard."""
    heard, forks = asyncio.Queue(), Forks()
    kind = ChildKind(**{"one_job": True, "concurrency": 1, "is_concurrent": False, "tells_start": False, **keys})
    children = Children(
        "main", lambda _: None, lambda _, outcome: heard.put_nowait(outcome.serial), lambda _: {},
        on_printed=pytest.fail, kind=kind,
    )  # fmt: skip
    children.fork_from(forks)
    children.resize(1)
    try:
        [child], [sock] = children.living.values(), forks.sockets
        attempt = Attempt("a", b"one", "t0", b"t", b"[]", b"", 1, 0, 0, 1 << 62, time.monotonic_ns())
        child.send_jobs([attempt], b"")
        [serial] = child.outstanding
        yield children, sock, serial, heard
    finally:
        for sock in forks.sockets:
            sock.close()
        children.close()


def outcome_of(serial, size=1000):
    """A frame that says that the job has finished, with a result of this size."""
    return wire.one_outcome_frame(b"0" * size, serial, wire.FINISHED, wire.GIVE_UP, 0.0, -1.0, 0)


def test_a_child_that_says_when_it_may_be_sent_jobs_is_heard_at_once():
    """Otherwise it would stand idle meanwhile, beside jobs that wait."""

    async def story():
        async with one_child(tells_start=True) as (children, sock, _, _):
            children.reader.read_at_once(on=False)
            sock.send(wire.frame(wire.STARTED, b""))
            await turn()
            [child] = children.living.values()
            return child.started

    assert asyncio.run(story())


def test_the_last_word_of_a_dead_child_may_be_that_it_takes_no_more_jobs():
    """It says so as it begins its last job, and that job may end the process. Its slot is for another child."""

    async def story():
        async with one_child(one_job=False, is_concurrent=True) as (children, sock, _, _):
            sock.send(wire.frame(wire.ENDING, b""))
            children.on_died(1, 7)
            return list(children.slots)

    assert asyncio.run(story()) == [1]


def test_no_more_outcomes_are_read_than_break_the_protocol():
    """A frame may have millions, which would keep the dispatcher from everything else for seconds."""

    async def story():
        async with one_child() as (children, sock, serial, heard):
            body = outcome_of(serial, 0)[len(wire.frame(wire.OUTCOMES, b"")) :]
            sock.send(wire.frame(wire.OUTCOMES, body * 1000))
            [child] = children.living.values()
            read = len(child.receive())
            sock.send(wire.frame(wire.OUTCOMES, body * 1000))
            await turn()
            return read, heard.get_nowait() == serial, child.kill.reason

    assert asyncio.run(story()) == (2, True, KillReason.PROTOCOL_ERROR)


def test_the_largest_result_of_a_dead_child_is_read():
    """All of it is in the socket where the host's sockets have that much room."""

    async def story():
        async with one_child() as (children, sock, serial, heard):
            frame = outcome_of(serial, wire.MAX_RESULT)
            # As `net.core.wmem_default` would have it; without privileges as much as `net.core.wmem_max` allows.
            sock.setsockopt(
                socket.SOL_SOCKET, SO_SNDBUFFORCE if os.geteuid() == 0 else socket.SO_SNDBUF, 4 * len(frame)
            )
            sock.setblocking(False)
            if sock.send(frame) < len(frame):
                pytest.skip("this host's sockets have less room")
            children.on_died(1, 0)
            return heard.get_nowait() == serial

    assert asyncio.run(story())
