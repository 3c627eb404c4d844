"""Connections: what reaches the caller when Redis forgets, refuses, hangs or is not there."""

import asyncio
import contextlib
import dataclasses
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.keys import LAYOUT
from fusiond.broker.records import NewJob
from fusiond.broker.redis.address import shown
from fusiond.broker.redis.connection import connect, connect_async
from fusiond.broker.redis.server_requirements import check_server
from fusiond.config import model
from fusiond.errors import BrokerError, BrokerFull, BrokerUnavailable, BrokerUnfit
from tests.support.asking import KINDS, ask

PING = plain(as_is, "PING")
WRONG = plain(as_is, "INCR", "a-list")


def ping(kind, url, runtime, times=1, **options):
    assert ask(kind, model.Broker(url=url), runtime, [PING] * times, **options) == [b"PONG"] * times


def say_nothing(peer):
    while peer.recv(65536):
        pass


@contextlib.contextmanager
def another_server(serve, *, scheme="redis"):
    """The URL of a server of any kind; `serve` has its only connection, in a thread."""

    def run():
        with listening.accept()[0] as peer:
            serve(peer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=run)
        serving.start()
        yield f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"
        serving.join(10)


def enqueue(broker, name):
    return broker.enqueue("q", [NewJob(name, "t", b"[]")])


# Scripts that were forgotten


@KINDS
def test_a_forgotten_script_is_sent_again(run, broker_settings, tmp_path, broker, kind):
    """After SCRIPT FLUSH, a restart or a failover: alone and in a pipeline, each exactly once."""
    run(plain(as_is, "SCRIPT", "FLUSH"))
    calls = [enqueue(broker, "a"), PING, enqueue(broker, "b")]
    assert ask(kind, broker_settings, tmp_path, calls) == [["stored"], b"PONG", ["stored"]]
    run(plain(as_is, "SCRIPT", "FLUSH"))
    assert ask(kind, broker_settings, tmp_path, [enqueue(broker, "last")]) == [["stored"]]
    assert run(broker.counts("q")).queued == 3


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


def test_a_full_redis_is_told_apart(run):
    """BrokerFull, so that a producer can act on it."""
    run(plain(as_is, "CONFIG", "SET", "maxmemory", 1))
    with pytest.raises(BrokerFull, match="maxmemory"):
        run(plain(as_is, "SET", "a", "b"))


@KINDS
def test_an_unreachable_redis_is_one_sentence_with_the_remedy(tmp_path, kind):
    """No exception of Python's, and no password."""
    with pytest.raises(BrokerUnavailable) as caught:
        ping(kind, "redis://:secret@127.0.0.1:1/0", tmp_path)
    assert "redis://:***@127.0.0.1:1/0 cannot be reached" in str(caught.value)
    assert "broker.url" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


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


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def until_closed(most):
    """Until at most so many descriptors are open."""
    async with asyncio.timeout(5):
        while open_descriptors() > most:  # noqa: ASYNC110 - the loop closes them later, and tells nobody
            await asyncio.sleep(0.01)


def test_one_event_loop_after_the_other(broker_settings, tmp_path):
    """As in an application's tests: what belongs to the old loop is made again. Time limits hold as before."""
    connection = connect_async(broker_settings, tmp_path, timeout=2.0)

    async def together():
        return await asyncio.gather(*(connection.run(PING) for _ in range(3)))

    assert [asyncio.run(together()) for _ in range(4)] == [[b"PONG"] * 3] * 4
    with pytest.raises(BrokerUnavailable, match="no answer in time"):
        asyncio.run(connection.run(plain(as_is, "BLPOP", "nothing", 5)))


@KINDS
def test_a_server_that_does_not_answer_is_given_up(tmp_path, kind):
    """After the time that a reply may take; the connection is not used again."""
    with another_server(say_nothing) as url, pytest.raises(BrokerUnavailable, match="cannot be reached"):
        ping(kind, url, tmp_path, timeout=0.1)


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


@pytest.mark.proof
@KINDS
def test_a_reply_that_keeps_coming_is_waited_for(redis_server, tmp_path, kind):
    """However long a slow link takes for all replies of a pipeline: the time is for each of them."""
    over = threading.Event()

    def drip(peer):
        """As Redis, whose replies come one at a time."""
        with socket.socket(socket.AF_UNIX) as real:
            real.connect(str(redis_server.path))
            while data := peer.recv(65536):
                real.sendall(data)
                for line in real.recv(65536).splitlines(keepends=True):
                    peer.sendall(line)
                    over.wait(0.4 if b"PING" in data else 0)

    with another_server(drip) as url:
        ping(kind, url, tmp_path, times=4, timeout=1.0)
        over.set()


@KINDS
def test_a_server_that_speaks_no_redis_is_given_up(tmp_path, caplog, kind):
    """One sentence, and no traceback in the log: what follows on that connection could be anything."""

    def speak(peer):
        while data := peer.recv(65536):
            peer.sendall(b"!bogus\r\n" if b"PING" in data else b"+OK\r\n" * (data.count(b"\r\n*") + 1))

    with another_server(speak) as url, pytest.raises(BrokerUnavailable, match="Protocol error"):
        ping(kind, url, tmp_path)
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


@KINDS
def test_what_is_larger_than_all_buffers_passes(broker_settings, tmp_path, kind):
    """In both directions, behind and before others."""
    large = plain(len, "ECHO", b"x" * 5_000_000)
    replies = ask(kind, broker_settings, tmp_path, [PING, large, large, PING])
    assert replies == [b"PONG", 5_000_000, 5_000_000, b"PONG"]


def test_one_server_is_spoken_to_without_redis_py(redis_server):
    """Its modules take 8 MB, and longer than the call."""
    code = (
        "import sys; from fusiond import Client\n"
        f"with Client({redis_server.url!r}) as client: client.counts()\n"
        "assert 'redis' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Fitness


def test_a_redis_that_evicts_is_refused(connection, run):
    """It would lose jobs."""
    run(plain(as_is, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru"))
    with pytest.raises(BrokerUnfit, match=r"evicts keys \(allkeys-lru\).*noeviction"):
        connection.check()


@pytest.mark.parametrize(
    ("layout", "remedy"),
    [
        (LAYOUT + 1, "upgrade fusiond"),
        (LAYOUT - 1, "no release has written it: delete these keys"),
        ("x", "upgrade fusiond"),
    ],
)
def test_another_layout_is_refused(connection, run, layout, remedy):
    """With the remedy; another fusiond never writes into it."""
    run(plain(as_is, "HSET", "test:meta", "layout", layout))

    with pytest.raises(
        BrokerUnfit,
        match=rf"layout {layout} under 'test', this fusiond knows {LAYOUT}; {remedy} or use another namespace",
    ):
        connection.check()


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


@KINDS
def test_the_url_names_user_password_and_database(redis_server, broker_settings, tmp_path, run, kind):
    """What has a meaning in a URL is escaped in it. The database is its path, or the option `db`."""
    run(plain(as_is, "ACL", "SETUSER", "a/b", "reset", "on", ">p@s:s/", "~*", "&*", "+@all"))
    who, where = plain(bytes.decode, "ACL", "WHOAMI"), plain(bytes.decode, "CLIENT", "INFO")
    there = broker_settings.url.replace("//", "//a%2Fb:p%40s%3As%2F@")
    user, client = ask(kind, model.Broker(url=f"{there}?db=3"), tmp_path, [who, where])
    assert user == "a/b"
    assert " db=3 " in client
    with pytest.raises(BrokerUnavailable, match="DB index is out of range"):
        ping(kind, f"{there}?db=99", tmp_path)
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
            file.write_bytes(f"\ufeff{password} \r\n".encode())
            assert connection.run(plain(as_is, "ACL", "WHOAMI")) == b"app"
        connection.close()
        file.write_text(" \n")
        with pytest.raises(BrokerUnavailable, match="password: it is empty"):
            connection.run(PING)
        file.write_text("wrong")
        with pytest.raises(BrokerUnavailable, match="does not accept the log-in"):
            connection.run(PING)


@KINDS
def test_without_a_password_where_one_is_needed(broker_settings, tmp_path, run, kind):
    """The same remedy, though it is the first command that is refused."""
    run(plain(as_is, "CONFIG", "SET", "requirepass", "secret"))
    try:
        with pytest.raises(BrokerUnavailable, match=r"does not accept the log-in: NOAUTH .*; check the user"):
            ping(kind, broker_settings.url, tmp_path)
    finally:
        run(plain(as_is, "CONFIG", "SET", "requirepass", ""))


@KINDS
def test_a_server_that_takes_no_more_clients_is_away(tmp_path, kind):
    """So that the call is tried again. Redis says so in place of the first reply, and ends the connection."""

    def refuse(peer):
        peer.recv(4096)
        peer.sendall(b"-ERR max number of clients reached\r\n")

    with another_server(refuse) as url, pytest.raises(BrokerUnavailable, match="max number of clients reached"):
        ping(kind, url, tmp_path)


@KINDS
def test_a_wrong_password_is_told_from_a_redis_that_is_away(redis_server, broker_settings, tmp_path, run, kind):
    """The remedy is the password, not whether Redis runs."""
    run(plain(as_is, "ACL", "SETUSER", "lodger", "reset", "on", ">right", "~*", "&*", "+@all"))
    url = broker_settings.url.replace("//", "//lodger:wrong@")
    with pytest.raises(BrokerUnavailable, match=r"not accept the log-in: .*; check the user and the password") as told:
        ping(kind, url, tmp_path)
    assert "is it running" not in str(told.value)
    assert "wrong@" not in str(told.value)
    run(plain(as_is, "ACL", "DELUSER", "lodger"))


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@KINDS
def test_a_socket_that_this_user_may_not_use_is_told_from_a_redis_that_is_away(tmp_path, kind):
    """The remedy is another user or group."""
    path = tmp_path / "redis.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        with pytest.raises(BrokerUnavailable, match="refused"):
            ping(kind, f"unix://{path}", tmp_path)  # imports now what `nobody` may not read
        listener.listen()
        os.seteuid(65534)
        try:
            with pytest.raises(
                BrokerUnavailable, match=r"this user may not connect to the socket; .*socket_group"
            ) as told:
                ping(kind, f"unix://{path}", tmp_path)
        finally:
            os.seteuid(0)
    assert "is it running" not in str(told.value)


@KINDS
def test_a_server_without_tls_is_asked_about(tmp_path, kind):
    """A Redis without TLS waits for the end of what it takes for a command, and says nothing."""
    asked = "does it speak TLS at this port"
    with another_server(say_nothing, scheme="rediss") as url, pytest.raises(BrokerUnavailable, match=asked):
        ping(kind, url, tmp_path, timeout=0.1)
