"""A program's end of its link, over a real socket pair."""

import asyncio
import json
import socket

import pytest

from fusiond import program
from fusiond.program import LINK, NAME, TAIL, Link


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(5)
    yield ours, theirs
    ours.close()


def link_over(theirs, monkeypatch):
    monkeypatch.setenv(LINK, str(theirs.detach()))
    monkeypatch.setenv(NAME, "worker:main@3")
    monkeypatch.setenv(TAIL, "/tmp/tail.log")
    return Link.from_environment()


def test_a_question_is_answered_at_once_and_the_check_follows(pair, monkeypatch):
    """The loop turns: said at once. Questions that come during a check share the next one; one that hangs is cut."""
    link = link_over(pair[1], monkeypatch)
    monkeypatch.setattr(program, "CHECK", 60.0)

    async def run():
        begun, go_on, loop = [], asyncio.Event(), asyncio.get_running_loop()

        async def check():
            begun.append(True)
            await (go_on.wait() if len(begun) == 1 else asyncio.sleep(60))
            return ""

        async def ask(number):
            pair[0].send(json.dumps({"do": "answer", "n": number}).encode())
            assert await hear() == {"is": "alive", "n": number}

        async def hear():
            return json.loads(await asyncio.wait_for(loop.sock_recv(pair[0], 4096), 10))

        pair[0].setblocking(False)
        link.start(lambda _: pytest.fail("a question is not a command"), lambda: None, check)
        for number in (1, 2, 3):
            await ask(number)
        # The first check may take its time; the second one is cut.
        monkeypatch.setattr(program, "CHECK", 0.2)
        go_on.set()
        assert await hear() == {"is": "checked", "n": 1, "trouble": ""}
        late = await hear()
        assert (late["n"], "could not find out" in late["trouble"], len(begun)) == (3, True, 2)
        link.close()

    asyncio.run(run())


def test_say_does_not_block_on_a_stopped_supervisor(pair, monkeypatch):
    """What is not read is dropped once the socket is full; nothing waits and nothing raises."""
    link = link_over(pair[1], monkeypatch)
    for number in range(5000):
        link.say({"is": "busy", "slots": number})
    assert json.loads(pair[0].recv(4096)) == {"is": "busy", "slots": 0}
    link.close()
