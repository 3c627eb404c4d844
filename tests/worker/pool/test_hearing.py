"""When a dispatcher hears what its children send."""

import asyncio
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


def test_a_child_that_waits_to_send_the_rest_of_its_outcome_does_not_wait_until_it_has_died():
    """It never would: its socket is full until somebody reads from it. The next large outcomes are heard at once."""

    async def story():
        heard, forks = [], Forks()
        kind = ChildKind(one_job=True, concurrency=1, is_concurrent=False, tells_start=False)
        children = Children("main", lambda _: None, lambda _, outcome: heard.append(outcome), lambda _: {}, kind)
        children.fork_from(forks)
        children.resize(1)
        try:
            [child], [sock] = children.living.values(), forks.sockets
            attempt = Attempt("a", b"one", "t0", b"t", b"[]", b"", 1, 0, 0, 1 << 62, time.monotonic_ns())
            child.send_jobs([attempt], b"")
            [serial] = child.outstanding
            outcome = wire.one_outcome_frame(serial, wire.FINISHED, wire.GIVE_UP, 0.0, b'"' + b"x" * 1000 + b'"')

            children.listen(on=False)
            sock.send(outcome[:100])
            await turn()
            assert not child.socket.is_halfway

            children.listen(on=True)
            children.listen(on=False)
            await turn()
            assert child.socket.is_halfway
            children.listen(on=False)
            sock.send(outcome[100:])
            await turn()
            assert [each.serial for each in heard] == [serial]
        finally:
            for sock in forks.sockets:
                sock.close()
            children.close()

    asyncio.run(story())
