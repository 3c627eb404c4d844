"""When a dispatcher hears what its children send."""

import asyncio
import contextlib
import time

from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.children import Children
from fusiond.worker.pool.slots import ChildKind
from fusiond.worker.runtime import wire


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
async def one_child():
    """The hearing of one child that has a job, its end of the socket, its outcome, and the serials that are heard."""
    heard, forks = asyncio.Queue(), Forks()
    kind = ChildKind(one_job=True, concurrency=1, is_concurrent=False, tells_start=False)
    children = Children("main", lambda _: None, lambda _, outcome: heard.put_nowait(outcome.serial), lambda _: {}, kind)
    children.fork_from(forks)
    children.resize(1)
    try:
        [child], [sock] = children.living.values(), forks.sockets
        attempt = Attempt("a", b"one", "t0", b"t", b"[]", b"", 1, 0, 0, 1 << 62, time.monotonic_ns())
        child.send_jobs([attempt], b"")
        [serial] = child.outstanding
        yield (
            children.hearing,
            sock,
            wire.one_outcome_frame(serial, wire.FINISHED, wire.GIVE_UP, 0.0, b"0" * 1000),
            heard,
        )
    finally:
        for sock in forks.sockets:
            sock.close()
        children.close()


def test_an_outcome_is_heard_though_nobody_listens_again():
    """The dispatcher may wait for Redis for seconds, and the child may live on for as long."""

    async def story():
        async with one_child() as (hearing, sock, outcome, heard):
            hearing.listen(on=False)
            sock.send(outcome)
            await turn()
            assert heard.empty()
            async with asyncio.timeout(30):
                await heard.get()

    asyncio.run(story())


def test_what_has_come_is_heard_when_it_is_asked_for():
    """Before a round trip, which settles what has ended."""

    async def story():
        async with one_child() as (hearing, sock, outcome, heard):
            hearing.listen(on=False)
            sock.send(outcome)
            hearing.hear()
            assert not heard.empty()

    asyncio.run(story())


def test_a_child_that_waits_to_send_the_rest_of_its_outcome_is_heard_at_once():
    """It cannot die before somebody has read the first part. The next outcomes may be as large."""

    async def story():
        async with one_child() as (hearing, sock, outcome, heard):
            hearing.listen(on=False)
            sock.send(outcome[:100])
            hearing.hear()
            hearing.listen(on=False)
            sock.send(outcome[100:])
            await turn()
            assert not heard.empty()

    asyncio.run(story())
