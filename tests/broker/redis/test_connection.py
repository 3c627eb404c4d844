"""Connections: what reaches the caller when Redis forgets, refuses, hangs or is not there."""

import asyncio
import contextlib
import dataclasses
import gc
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hiredis import Reader

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob
from fusiond.broker.redis.address import shown
from fusiond.broker.redis.connection import connect, connect_async
from fusiond.broker.redis.server_requirements import check_server
from fusiond.config import model
from fusiond.errors import BrokerError, BrokerFull, BrokerUnavailable, BrokerUnfit

PING = plain(as_is, "PING")
WRONG = plain(as_is, "INCR", "a-list")


def ping(kind, settings, runtime, times=1, **options):
    """By a connection of its own, for threads or for asyncio."""

    async def attempt():
        async with connect_async(settings, runtime, **options) as connection:
            return await connection.run_many([PING] * times)

    replies = (
        asyncio.run(attempt()) if kind == "asyncio" else connect(settings, runtime, **options).run_many([PING] * times)
    )
    assert replies == [b"PONG"] * times


def enqueue(broker, name):
    return broker.enqueue("q", [NewJob(name, "t", b"[]")])


# Scripts that were forgotten


@pytest.mark.parametrize("calls", [1, 3])
def test_a_forgotten_script_is_sent_again(connection, run, broker, calls):
    """After SCRIPT FLUSH, a restart or a failover: alone and in a pipeline, each exactly once."""
    run(plain(as_is, "SCRIPT", "FLUSH"))
    replies = connection.run_many([enqueue(broker, f"j{n}") for n in range(calls)])
    assert replies == [["stored"]] * calls
    run(plain(as_is, "SCRIPT", "FLUSH"))
    assert run(enqueue(broker, "last")) == ["stored"]
    assert run(broker.counts("q")).queued == calls + 1


async def forgotten_async(settings, directory, broker):
    async with connect_async(settings, directory) as connection:
        await connection.run(plain(as_is, "SCRIPT", "FLUSH"))
        assert await connection.run_many([enqueue(broker, "a"), PING, enqueue(broker, "b")]) == [
            ["stored"],
            b"PONG",
            ["stored"],
        ]
        await connection.run(plain(as_is, "SCRIPT", "FLUSH"))
        assert await connection.run(enqueue(broker, "a")) == ["same"]
        return await connection.run(broker.catalogue())


def test_a_forgotten_script_is_sent_again_with_asyncio(broker_settings, tmp_path, broker):
    """The same."""
    assert asyncio.run(forgotten_async(broker_settings, tmp_path, broker)).tasks == {}


# Errors


def test_an_error_does_not_hide_the_other_replies(connection, run):
    """In a pipeline each Call has its own reply; alone, the error is raised."""
    run(plain(as_is, "LPUSH", "a-list", 1))
    before, error, after = connection.run_many([PING, WRONG, PING])
    assert (before, after) == (b"PONG", b"PONG")
    assert isinstance(error, BrokerError)
    with pytest.raises(BrokerError, match=r"key .a-list. is of another type"):
        run(WRONG)
    assert run(PING) == b"PONG"


def test_a_plan_raises_the_first_error_of_a_pipeline(run):
    """As if the command had been alone."""
    run(plain(as_is, "LPUSH", "a-list", 1))

    def plan():
        yield [PING, WRONG]

    with pytest.raises(BrokerError, match=r"key .a-list. is of another type"):
        run(plan())


def test_a_full_redis_is_told_apart(run):
    """BrokerFull, so that a producer can act on it."""
    run(plain(as_is, "CONFIG", "SET", "maxmemory", 1))
    with pytest.raises(BrokerFull, match="maxmemory"):
        run(plain(as_is, "SET", "a", "b"))


def test_an_unreachable_redis_is_one_sentence_with_the_remedy(tmp_path):
    """No exception of Python's, and no password."""
    settings = model.Broker(url="redis://:secret@127.0.0.1:1/0")
    with pytest.raises(BrokerUnavailable) as caught, connect(settings, tmp_path) as connection:
        connection.run(PING)
    assert "redis://:***@127.0.0.1:1/0 cannot be reached" in str(caught.value)
    assert "broker.url" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)

    async def attempt():
        async with connect_async(settings, tmp_path) as connection:
            await connection.run(PING)

    with pytest.raises(BrokerUnavailable, match="cannot be reached"):
        asyncio.run(attempt())


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_of_a_host_with_several_addresses_one_reason_is_told(tmp_path, kind):
    """In the words of the system, not with the number and the address of each attempt."""
    with pytest.raises(BrokerUnavailable, match=r"cannot be reached: Connection refused; is it running"):
        ping(kind, model.Broker(url="redis://localhost:1"), tmp_path)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_host_that_there_is_not_is_one_sentence(tmp_path, kind):
    """Also if its name can be none."""
    for host in ("nowhere.invalid", "x" * 70 + ".invalid"):
        with pytest.raises(BrokerUnavailable, match=r"cannot be reached: .*; is it running"):
            ping(kind, model.Broker(url=f"redis://{host}:1"), tmp_path)


@pytest.mark.parametrize(
    "url", ["http://x", "redis", "redis+nothing://x", "redis://x?socket_timeout=5", "redis://[::1"]
)
def test_a_url_that_cannot_be_used_is_refused(tmp_path, url):
    """With the URL, at once."""
    with pytest.raises(BrokerUnavailable, match=r"broker\.url"):
        connect(model.Broker(url=url), tmp_path)


def test_a_password_is_not_shown():
    """Whatever else the URL has."""
    assert shown("rediss://me:pw@host:6379/1?x=y") == "rediss://me:***@host:6379/1?x=y"
    assert shown("unix:///run/a:b@redis.sock") == "unix:///run/a:b@redis.sock"
    assert shown("me:pw@host:6379") == "me:***@host:6379"
    assert shown("unix://me:pw@/run/a@b.sock") == "unix://me:***@/run/a@b.sock"
    for password in ("se#cret", "se/cret", "se?cret", "se@cret"):
        assert shown(f"redis://me:{password}@[::1") == "redis://me:***@[::1"
        with pytest.raises(BrokerUnavailable) as told:
            connect(model.Broker(url=f"redis://me:{password}/2@host/0"), Path("/"))
        assert "cret" not in str(told.value)


# Connections that come and go


def test_a_restarted_server_is_found_again(redis_server, connection, run):
    """The call during its absence fails, the next one connects anew."""
    assert run(PING) == b"PONG"
    redis_server.kill()
    with pytest.raises(BrokerUnavailable):
        run(PING)
    redis_server.start()
    assert run(PING) == b"PONG"


def test_a_connection_may_repeat_once(redis_server, broker_settings, tmp_path, broker):
    """A producer's call over a connection that has died meanwhile succeeds, over a new one."""
    with connect(broker_settings, tmp_path, repeats=1) as connection:
        connection.run(PING)
        redis_server.restart()
        assert connection.run(enqueue(broker, "a")) == ["stored"]


def test_a_cancelled_call_leaves_no_reply_for_the_next(broker_settings, tmp_path):
    """A connection that was cancelled in mid-reply is closed: what it would read next answers an earlier question."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            for _ in range(20):
                slow = plain(as_is, "EVAL", "local n = 0 while n < 3e5 do n = n + 1 end return 'slow'", 0)
                task = asyncio.create_task(connection.run(slow))
                await asyncio.sleep(0.001)
                task.cancel()
                assert await connection.run(plain(as_is, "ECHO", "mine")) == b"mine"

    asyncio.run(story())


class FullSocket:
    """A server that reads nothing until it may, and then answers each PING and ECHO."""

    def __init__(self):
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.settings = model.Broker(url=f"redis://127.0.0.1:{self._listening.getsockname()[1]}")
        self.reads = threading.Event()
        self._serving = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._serving.start()
        return self

    def __exit__(self, *_):
        self.reads.set()
        self._listening.close()

    async def hold(self, connection):
        """Have it answer once, so that there is a connection, and read nothing from now on."""
        self.reads.set()
        await connection.run(PING)
        self.reads.clear()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._answer, args=self._listening.accept()[:1], daemon=True).start()

    def _answer(self, peer):
        reader = Reader()
        with peer, contextlib.suppress(OSError):
            while self.reads.wait(10) and (data := peer.recv(1 << 20)):
                reader.feed(data)
                while (words := reader.gets()) is not False:
                    peer.sendall(b"+%s\r\n" % words[-1][:9])


def test_a_call_that_is_cancelled_while_it_is_sent_leaves_no_reply_for_the_next():
    """Nor does it cancel who waits for the same buffer to become empty."""

    async def story():
        async with connect_async(server.settings, Path("/"), timeout=5) as connection:
            await server.hold(connection)
            sending = asyncio.create_task(connection.send_at_once(plain(as_is, "ECHO", b"theirs" * 4_000_000)))
            await asyncio.sleep(0)
            other = asyncio.create_task(connection.run(plain(as_is, "ECHO", b"other")))
            await asyncio.sleep(0)
            assert not sending.done()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            server.reads.set()
            return [await other, await connection.run(plain(as_is, "ECHO", b"mine"))]

    with FullSocket() as server:
        assert asyncio.run(story()) == [b"other", b"mine"]


def test_what_cannot_be_sent_at_once_is_given_up_in_time():
    """As any call to a server that hangs."""

    async def story():
        async with connect_async(server.settings, Path("/"), timeout=0.2) as connection:
            await server.hold(connection)
            return await connection.send_at_once(plain(as_is, "ECHO", b"x" * 20_000_000))

    with FullSocket() as server:
        assert asyncio.run(story()) is None


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def until_closed(most):
    """Until at most so many descriptors are open."""
    async with asyncio.timeout(5):
        while open_descriptors() > most:  # noqa: ASYNC110 - the loop closes them later, and tells nobody
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_a_connection_that_is_given_up_while_it_is_made_is_ended(broker_settings, tmp_path, end):
    """At any of its steps, by a cancellation or by `close`."""
    settings = dataclasses.replace(broker_settings, url=f"{broker_settings.url}?db=1")

    async def story():
        before = open_descriptors()
        for steps in [*range(1, 12)] * 3:
            connection = connect_async(settings, tmp_path)
            asking = asyncio.create_task(connection.run(PING))
            for _ in range(steps):
                await asyncio.sleep(0)
            if end == "cancel":
                asking.cancel()
            else:
                await connection.close()
            await asyncio.wait([asking])
            assert asking.cancelled() or asking.exception() is None or isinstance(asking.exception(), BrokerUnavailable)
            await connection.close()
        await until_closed(before)

    asyncio.run(story())


def test_a_call_ends_with_the_connection_that_is_made_for_it():
    """It does not go on over a connection of which `close` did not know."""

    async def story():
        connection = connect_async(settings, Path("/"), timeout=5)
        asking = asyncio.create_task(connection.run(PING))
        peer, _ = await asyncio.get_running_loop().sock_accept(listening)
        with peer:
            assert b"AUTH" in await asyncio.get_running_loop().sock_recv(peer, 4096)
            await connection.close()
            peer.sendall(b"+OK\r\n")
            with pytest.raises(BrokerUnavailable, match="broken off"):
                await asking
            return await asyncio.get_running_loop().sock_recv(peer, 4096)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        settings = model.Broker(url=f"redis://:secret@127.0.0.1:{listening.getsockname()[1]}")
        assert asyncio.run(story()) == b""


def test_a_connection_that_is_forgotten_is_ended(broker_settings, tmp_path):
    """Also one that listens, and of which nobody has read a message."""

    async def story():
        before = open_descriptors()
        for _ in range(5):
            await connect_async(broker_settings, tmp_path).run(PING)
        async with connect_async(broker_settings, tmp_path) as connection:
            for _ in range(5):
                messages = await connection.subscribe(["x"])
                await messages.aclose()
            del messages
            gc.collect()
            await until_closed(before + 1)

    asyncio.run(story())


def test_one_event_loop_after_the_other(broker_settings, tmp_path):
    """As in an application's tests: what belongs to the old loop is made anew. Time limits hold as before."""
    connection = connect_async(broker_settings, tmp_path, timeout=0.3)

    async def together():
        return await asyncio.gather(*(connection.run(PING) for _ in range(3)))

    assert [asyncio.run(together()) for _ in range(4)] == [[b"PONG"] * 3] * 4
    with pytest.raises(BrokerUnavailable, match="no answer in time"):
        asyncio.run(connection.run(plain(as_is, "BLPOP", "nothing", 5)))


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_server_that_does_not_answer_is_given_up(tmp_path, kind):
    """After the time that a reply may take; the connection is not used again."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = model.Broker(url=f"redis://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(BrokerUnavailable, match="cannot be reached"):
            ping(kind, settings, tmp_path, timeout=0.1)


@contextlib.contextmanager
def no_descriptor():
    """This process can open nothing, whatever it closes meanwhile: each new descriptor must be below the limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_without_a_descriptor_it_is_unavailable(broker_settings, tmp_path):
    """What tries again for as long as it takes must not end of it."""
    connection = connect(broker_settings, tmp_path)
    with no_descriptor(), pytest.raises(BrokerUnavailable):
        connection.run(PING)
    assert connection.run(PING) == b"PONG"


def test_without_a_descriptor_it_is_unavailable_with_asyncio(broker_settings, tmp_path):
    """The same; a subscription makes a connection of its own."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            with no_descriptor():
                with pytest.raises(BrokerUnavailable):
                    await connection.run_many([PING])
                with pytest.raises(BrokerUnavailable):
                    await connection.subscribe(["channel"])
            assert await connection.run(PING) == b"PONG"

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_reply_that_keeps_coming_is_waited_for(redis_server, tmp_path, kind):
    """However long a slow link takes for all replies of a pipeline: the time is for each of them."""
    over = threading.Event()

    def drip():
        """Another Redis, whose replies come one at a time."""
        with other.accept()[0] as peer, socket.socket(socket.AF_UNIX) as real:
            real.connect(str(redis_server.path))
            while data := peer.recv(65536):
                real.sendall(data)
                for line in real.recv(65536).splitlines(keepends=True):
                    peer.sendall(line)
                    over.wait(0.4 if b"PING" in data else 0)

    with socket.create_server(("127.0.0.1", 0)) as other:
        dripping = threading.Thread(target=drip)
        dripping.start()
        ping(kind, model.Broker(url=f"redis://127.0.0.1:{other.getsockname()[1]}"), tmp_path, times=4, timeout=1.0)
        over.set()
        dripping.join(10)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_server_that_speaks_no_redis_is_given_up(tmp_path, caplog, kind):
    """One sentence, and no traceback in the log: what follows on that connection could be anything."""

    def speak():
        peer = other.accept()[0]
        with peer:
            while data := peer.recv(65536):
                peer.sendall(b"!bogus\r\n" if b"PING" in data else b"+OK\r\n" * (data.count(b"\r\n*") + 1))

    with socket.create_server(("127.0.0.1", 0)) as other:
        speaker = threading.Thread(target=speak)
        speaker.start()
        settings = model.Broker(url=f"redis://127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(BrokerUnavailable, match="Protocol error"):
            ping(kind, settings, tmp_path)
        speaker.join(10)
    assert caplog.records == []


def test_a_child_of_fork_has_a_connection_of_its_own(connection, run):
    """Parent and child never read each other's replies, though a thread of the parent is in mid-reply at the fork."""
    slow = plain(as_is, "BLPOP", "nothing", 0.5)
    asking = threading.Thread(target=run, args=(slow,))
    asking.start()
    time.sleep(0.05)
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = all(connection.run(plain(as_is, "ECHO", f"c{n}")) == f"c{n}".encode() for n in range(200))
        finally:
            os._exit(0 if good else 1)  # an exception must not run the rest of the tests in this child
    asking.join()
    assert all(run(plain(as_is, "ECHO", f"p{n}")) == f"p{n}".encode() for n in range(200))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_of_fork_has_a_connection_of_its_own_with_asyncio(broker_settings, tmp_path):
    """What it does leaves the parent's connection and its event loop alone."""

    async def story():
        async with connect_async(broker_settings, tmp_path, timeout=1) as connection:
            await connection.run(PING)
            child = os.fork()
            if child == 0:
                good = False
                try:
                    asyncio.events._set_running_loop(None)
                    good = asyncio.run(connection.run(PING)) == b"PONG"
                    gc.collect()
                finally:
                    os._exit(0 if good else 1)  # an exception must not run the rest of the tests in this child
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222 - no other task here
            return [await connection.run(PING) for _ in range(2)]

    assert asyncio.run(story()) == [b"PONG"] * 2


def test_an_error_that_only_names_a_log_in_is_one_of_the_call(connection):
    """It does not end the connection of the others."""
    text = "ERR task NOAUTH_check failed, max number of clients reached"
    error = plain(as_is, "EVAL", f"return redis.error_reply('{text}')", 0)
    before, refused, after = connection.run_many([PING, error, PING])
    assert (before, after) == (b"PONG", b"PONG")
    assert not isinstance(refused, BrokerUnavailable)
    assert "NOAUTH_check" in str(refused)


def test_threads_share_a_connection(run):
    """Each has its own replies."""
    wrong = []

    def ask(name):
        wrong.extend(n for n in range(200) if run(plain(as_is, "ECHO", f"{name}{n}")) != f"{name}{n}".encode())

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# Messages


def test_a_message_that_is_no_text_ends_the_subscription(tmp_path):
    """What spoils an answer on its way must not end the program that listens: it subscribes anew."""

    def answer():
        with listening.accept()[0] as peer:
            peer.recv(4096)
            peer.sendall(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n:7\r\n")
            peer.recv(4096)

    async def story():
        async with connect_async(settings, tmp_path) as connection:
            messages = await connection.subscribe(["x"])
            with pytest.raises(BrokerUnavailable):
                await anext(messages)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        settings = model.Broker(url=f"redis://127.0.0.1:{listening.getsockname()[1]}")
        answering = threading.Thread(target=answer)
        answering.start()
        asyncio.run(story())
        answering.join(10)


def test_messages_are_heard(broker_settings, tmp_path, broker):
    """What is published after `subscribe` has returned is not missed, however long the silence before."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            channels = [broker.keys.wake("a"), broker.keys.wake("b")]
            subscription = await connection.subscribe(channels)
            for channel in reversed(channels):
                await connection.run(plain(as_is, "PUBLISH", channel, "ready"))
            heard = [await anext(subscription) for _ in channels]
            await subscription.aclose()
            return heard

    assert asyncio.run(story()) == [("test:{b}:wake", b"ready"), ("test:{a}:wake", b"ready")]


def test_a_lost_subscription_says_so(redis_server, broker_settings, tmp_path):
    """The caller is not left waiting for ever."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            subscription = await connection.subscribe(["x"])
            redis_server.kill()
            with pytest.raises(BrokerUnavailable):
                await anext(subscription)
            with pytest.raises(BrokerUnavailable):
                await connection.subscribe(["x"])

    asyncio.run(story())


def test_who_reads_slowly_makes_redis_wait(broker_settings, tmp_path):
    """Messages of which nobody has read the last ones stay in Redis, which has a limit, not in this process."""
    text, count = b"x" * 100_000, 80

    def unsent(reply):
        client = dict(word.partition(b"=")[::2] for word in reply.split())
        sent = client.get(b"tot-net-out")  # newer ones share a message among clients, and do not count it in omem
        return count * len(text) - int(sent) if sent else int(client[b"omem"])

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            subscription = await connection.subscribe(["x"])
            for _ in range(count):
                await connection.run(plain(as_is, "PUBLISH", "x", text))
            waiting = await connection.run(plain(unsent, "CLIENT", "LIST", "TYPE", "pubsub"))
            heard = [await anext(subscription) for _ in range(count)]
            await subscription.aclose()
            return waiting, heard

    waiting, heard = asyncio.run(story())
    assert waiting > count * len(text) // 2
    assert heard == [("x", text)] * count


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_what_is_larger_than_all_buffers_passes(broker_settings, tmp_path, kind):
    """In both directions, behind and before others."""
    large = plain(len, "ECHO", b"x" * 5_000_000)

    async def ask():
        async with connect_async(broker_settings, tmp_path) as connection:
            return await connection.run_many([PING, large, large, PING])

    def by_thread():
        return connect(broker_settings, tmp_path).run_many([PING, large, large, PING])

    assert (asyncio.run(ask()) if kind == "asyncio" else by_thread()) == [b"PONG", 5_000_000, 5_000_000, b"PONG"]


def test_one_server_is_spoken_to_without_redis_py(redis_server):
    """Its modules take 6 MB, and longer than the call."""
    code = (
        "import sys; from fusiond import Client\n"
        f"with Client({redis_server.url!r}) as client: client.counts()\n"
        "assert 'redis' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Fitness


def test_a_fit_redis_passes_and_has_our_layout(connection, run):
    """Again and again."""
    connection.check()
    connection.check()
    assert run(plain(as_is, "HGET", "test:meta", "layout")) == b"3"


def test_a_redis_that_evicts_is_refused(connection, run):
    """It would lose jobs."""
    run(plain(as_is, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru"))
    with pytest.raises(BrokerUnfit, match=r"evicts keys \(allkeys-lru\).*noeviction"):
        connection.check()


@pytest.mark.parametrize(
    ("layout", "remedy"),
    [(4, "upgrade fusiond"), (2, "no release has written it: delete these keys"), ("x", "upgrade fusiond")],
)
def test_another_layout_is_refused(broker_settings, tmp_path, run, layout, remedy):
    """With the remedy; another fusiond never writes into it."""
    run(plain(as_is, "HSET", "test:meta", "layout", layout))

    async def check():
        async with connect_async(broker_settings, tmp_path) as connection:
            await connection.check()

    with pytest.raises(
        BrokerUnfit, match=rf"layout {layout} under 'test', this fusiond knows 3; {remedy} or use another namespace"
    ):
        asyncio.run(check())


@pytest.mark.parametrize(
    ("info", "fit"),
    [
        ({"redis_version": "6.0.16"}, False),
        ({"redis_version": "5.0.7"}, False),
        ({"redis_version": "6.2.0"}, True),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.0", "maxmemory_policy": "noeviction"}, True),
        ({"redis_version": "255.255.255"}, True),
        ({"redis_version": "8.0-rc1"}, True),
        ({"redis_version": "7.4.1", "maxmemory_policy": "volatile-ttl"}, False),
        ({}, False),
    ],
)
def test_which_servers_are_fit(info, fit):
    """6.2 and newer that do not evict; hosted ones may leave the policy out."""
    with contextlib.nullcontext() if fit else pytest.raises(BrokerUnfit):
        check_server(info, "redis://here", cluster=False)


# Logging in


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_the_url_names_user_password_and_database(redis_server, broker_settings, tmp_path, run, kind):
    """What has a meaning in a URL is escaped in it. The database is its path, or the option `db`."""
    run(plain(as_is, "ACL", "SETUSER", "a/b", "reset", "on", ">p@s:s/", "~*", "&*", "+@all"))
    who, where = plain(bytes.decode, "ACL", "WHOAMI"), plain(bytes.decode, "CLIENT", "INFO")
    there = broker_settings.url.replace("//", "//a%2Fb:p%40s%3As%2F@")
    settings = model.Broker(url=f"{there}?db=3")

    async def ask():
        async with connect_async(settings, tmp_path) as connection:
            return await connection.run_many([who, where])

    user, client = asyncio.run(ask()) if kind == "asyncio" else connect(settings, tmp_path).run_many([who, where])
    assert user == "a/b"
    assert " db=3 " in client
    with pytest.raises(BrokerUnavailable, match="DB index is out of range"):
        ping(kind, model.Broker(url=f"{there}?db=99"), tmp_path)
    run(plain(as_is, "ACL", "DELUSER", "a/b"))


def test_the_password_file_is_read_at_each_connection(redis_server, broker_settings, tmp_path, run):
    """A password can be changed under a running daemon; a file that is not there is one sentence."""
    file = tmp_path / "password"
    settings = dataclasses.replace(
        broker_settings, password_file=str(file), url=broker_settings.url.replace("//", "//app@")
    )
    with connect(settings, tmp_path) as connection:
        with pytest.raises(BrokerUnavailable, match="password_file"):
            connection.run(PING)
        for password in ("one", "two"):
            run(plain(as_is, "ACL", "SETUSER", "app", "reset", "on", f">{password}", "~*", "&*", "+@all"))
            connection.close()
            file.write_text(f"{password}\n")
            assert connection.run(plain(as_is, "ACL", "WHOAMI")) == b"app"
        connection.close()
        file.write_text("wrong")
        with pytest.raises(BrokerUnavailable, match="does not accept the log-in"):
            connection.run(PING)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_without_a_password_where_one_is_needed(broker_settings, tmp_path, run, kind):
    """The same remedy, though it is the first command that is refused."""
    run(plain(as_is, "CONFIG", "SET", "requirepass", "secret"))
    try:
        with pytest.raises(BrokerUnavailable, match=r"does not accept the log-in: NOAUTH .*; check the user"):
            ping(kind, broker_settings, tmp_path)
    finally:
        run(plain(as_is, "CONFIG", "SET", "requirepass", ""))


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_user_may_need_no_password(broker_settings, tmp_path, run, kind):
    """It is that user all the same who asks."""
    run(plain(as_is, "ACL", "SETUSER", "open", "reset", "on", "nopass", "+ping"))
    settings = dataclasses.replace(broker_settings, url=broker_settings.url.replace("//", "//open@"))
    ping(kind, settings, tmp_path)
    with pytest.raises(BrokerError, match="NOPERM"):
        connect(settings, tmp_path).run(plain(as_is, "ACL", "WHOAMI"))
    run(plain(as_is, "ACL", "DELUSER", "open"))


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_server_that_takes_no_more_clients_is_away(tmp_path, kind):
    """So that the call is tried again. Redis says so in place of the first reply, and ends the connection."""

    def refuse():
        with other.accept()[0] as peer:
            peer.recv(4096)
            peer.sendall(b"-ERR max number of clients reached\r\n")

    with socket.create_server(("127.0.0.1", 0)) as other:
        refusing = threading.Thread(target=refuse)
        refusing.start()
        with pytest.raises(BrokerUnavailable, match="max number of clients reached"):
            ping(kind, model.Broker(url=f"redis://127.0.0.1:{other.getsockname()[1]}"), tmp_path)
        refusing.join(10)


def test_a_password_file_that_holds_no_text(broker_settings, tmp_path):
    """It is named, and none of its bytes is shown."""
    (tmp_path / "password").write_bytes(b"\xff\xfe")
    settings = dataclasses.replace(broker_settings, password_file=str(tmp_path / "password"))
    with pytest.raises(BrokerUnavailable, match=r"password is not UTF-8 text$"):
        connect(settings, tmp_path).run(PING)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_wrong_password_is_told_from_a_redis_that_is_away(redis_server, broker_settings, tmp_path, run, kind):
    """The remedy is the password, not whether Redis runs."""
    run(plain(as_is, "ACL", "SETUSER", "lodger", "reset", "on", ">right", "~*", "&*", "+@all"))
    url = broker_settings.url.replace("//", "//lodger:wrong@")
    with pytest.raises(BrokerUnavailable, match=r"not accept the log-in: .*; check the user and the password") as told:
        ping(kind, dataclasses.replace(broker_settings, url=url), tmp_path)
    assert "is it running" not in str(told.value)
    assert "wrong@" not in str(told.value)
    run(plain(as_is, "ACL", "DELUSER", "lodger"))


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_socket_that_this_user_may_not_use_is_told_from_a_redis_that_is_away(tmp_path, kind):
    """The remedy is another user or group."""
    path = tmp_path / "redis.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        with pytest.raises(BrokerUnavailable, match="refused"):
            ping(kind, model.Broker(url=f"unix://{path}"), tmp_path)  # imports now what `nobody` may not read
        listener.listen()
        os.seteuid(65534)
        try:
            with pytest.raises(
                BrokerUnavailable, match=r"this user may not connect to the socket; .*socket_group"
            ) as told:
                ping(kind, model.Broker(url=f"unix://{path}"), tmp_path)
        finally:
            os.seteuid(0)
    assert "is it running" not in str(told.value)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_server_without_tls_is_asked_about(tmp_path, kind):
    """A Redis without TLS waits for the end of what it takes for a command, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = model.Broker(url=f"rediss://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(BrokerUnavailable, match="does it speak TLS at this port"):
            ping(kind, settings, tmp_path, timeout=0.1)
