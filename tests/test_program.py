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


def test_commands_are_heard_one_by_one_and_answers_are_said(pair, monkeypatch):
    """One JSON object a packet, both ways, in order."""
    link = link_over(pair[1], monkeypatch)

    async def run():
        heard, done = [], asyncio.Event()

        def hear(command):
            heard.append(command)
            if command == {"do": "drain"}:
                done.set()

        link.start(hear, lambda: None)
        for command in ({"do": "leave", "slots": 2}, {"do": "go"}, {"do": "drain"}):
            pair[0].send(json.dumps(command).encode())
        await asyncio.wait_for(done.wait(), 5)
        link.say(**{"is": "busy", "slots": 2})
        link.close()
        return heard

    assert asyncio.run(run()) == [{"do": "leave", "slots": 2}, {"do": "go"}, {"do": "drain"}]
    assert json.loads(pair[0].recv(4096)) == {"is": "busy", "slots": 2}


def test_a_question_is_answered_at_once_and_the_check_follows(pair, monkeypatch):
    """The loop turns: said at once. Questions that come during a check share the next one; one that hangs is cut."""
    link = link_over(pair[1], monkeypatch)
    monkeypatch.setattr(program, "CHECK", 0.2)

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
        link.start(lambda _: pytest.fail("a question is no command"), lambda: None, check)
        for number in (1, 2, 3):
            await ask(number)
        go_on.set()
        assert await hear() == {"is": "checked", "n": 1, "trouble": ""}
        late = await hear()
        assert (late["n"], "could not find out" in late["trouble"], len(begun)) == (3, True, 2)
        link.close()

    asyncio.run(run())


def test_a_dead_supervisor_is_noticed_once(pair, monkeypatch):
    """EOF: whatever came before is heard, then `on_lost` is called, once."""
    link = link_over(pair[1], monkeypatch)

    async def run():
        seen, lost = [], asyncio.Event()

        def on_lost():
            seen.append("lost")
            lost.set()

        link.start(lambda command: seen.append(command["do"]), on_lost)
        pair[0].send(b'{"do": "go"}')
        pair[0].close()
        await asyncio.wait_for(lost.wait(), 5)
        await asyncio.sleep(0)
        return seen

    assert asyncio.run(run()) == ["go", "lost"]
    assert link.socket is None
    link.say(**{"is": "ready"})


def test_say_does_not_block_on_a_stopped_supervisor(pair, monkeypatch):
    """What is not read is dropped once the socket is full; nothing waits and nothing raises."""
    link = link_over(pair[1], monkeypatch)
    for number in range(5000):
        link.say(**{"is": "busy", "slots": number})
    assert json.loads(pair[0].recv(4096)) == {"is": "busy", "slots": 0}
    link.close()
