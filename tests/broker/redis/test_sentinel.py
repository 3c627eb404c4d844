"""Real Sentinels: which server a connection leads to, who is let in, and what is said where there is none."""

import signal

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.redis import protocol
from fusiond.broker.redis.connection import connect
from fusiond.config import model
from fusiond.errors import BrokerUnavailable, BrokerUnfit
from tests.support.asking import KINDS, ask
from tests.support.replicas import Servers

WHO = plain(bytes.decode, "GET", "who")
PASSWORD = "open:sesame"


class Watched(Servers):
    """Two servers that each are a primary, and a Sentinel that can be told which of them is to be used."""

    def __init__(self):
        super().__init__()
        self.one, self.two = self.add(), self.add()
        for name, server in (("one", self.one), ("two", self.two)):
            server.do("SET", "who", name)
        self.sentinel = self.add(f"sentinel monitor shop 127.0.0.1 {self.one.port} 1", mode="sentinel")

    def name(self, server):
        """Have the Sentinel name this one."""
        self.sentinel.do("SENTINEL", "REMOVE", "shop")
        self.sentinel.do("SENTINEL", "MONITOR", "shop", "127.0.0.1", server.port, 1)


@pytest.fixture(scope="module")
def _watched():
    with Watched() as watched:
        yield watched


@pytest.fixture
def watched(_watched, monkeypatch):
    monkeypatch.setattr(protocol, "LOOK", 0.0)
    _watched.name(_watched.one)
    return _watched


def broker(watched, path="/shop", login="", **more):
    return model.Broker(url=f"redis+sentinel://{login}127.0.0.1:1,{watched.sentinel.name}{path}", **more)


@KINDS
def test_a_primary_that_was_given_up_is_left_though_it_still_answers(watched, tmp_path, kind):
    """It would acknowledge what nobody will ever see."""
    again = lambda: watched.name(watched.two)  # noqa: E731
    assert ask(kind, broker(watched), tmp_path, [WHO], again) == ["one", "two"]


@KINDS
def test_a_connection_that_works_outlives_the_sentinels(watched, tmp_path, kind):
    """Without them nobody knows better."""
    try:
        assert ask(kind, broker(watched), tmp_path, [WHO], watched.sentinel.kill) == ["one", "one"]
    finally:
        watched.sentinel.start()


def test_a_replica_is_not_taken_for_the_primary_that_a_sentinel_calls_it(watched, tmp_path):
    """The Sentinel is late; the sentence says who names whom."""
    watched.two.do("REPLICAOF", "127.0.0.1", watched.one.port)
    try:
        watched.name(watched.two)
        with pytest.raises(
            BrokerUnavailable, match=f"{watched.sentinel.name} names {watched.two.name}, which is a slave"
        ):
            connect(broker(watched), tmp_path).run(WHO)
    finally:
        watched.two.do("REPLICAOF", "NO", "ONE")
        watched.two.do("SET", "who", "two")


@KINDS
def test_a_primary_that_hangs_is_given_up(watched, tmp_path, kind):
    """Also before it has said that it is the primary."""
    watched.one.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(BrokerUnavailable, match="no answer in time"):
            ask(kind, broker(watched), tmp_path, [WHO], timeout=0.5)
    finally:
        watched.one.process.send_signal(signal.SIGCONT)


def test_what_is_wrong_is_one_sentence(watched, tmp_path):
    """Each Sentinel's own answer, and no password."""
    with pytest.raises(BrokerUnavailable) as caught:
        connect(broker(watched, "/nobody", login=f":{PASSWORD}@"), tmp_path).run(WHO)
    text = str(caught.value)
    assert "127.0.0.1:1: " in text
    assert f"{watched.sentinel.name}: it knows none that is up" in text
    assert PASSWORD not in text
    assert "\n" not in text


def test_user_and_password_are_the_servers_and_the_sentinel_may_have_none(watched, tmp_path):
    """From the URL, and from a file."""
    watched.one.do("ACL", "SETUSER", "app", "reset", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    (tmp_path / "password").write_text(PASSWORD)
    whoami = plain(as_is, "ACL", "WHOAMI")
    assert connect(broker(watched, login=f"app:{PASSWORD}@"), tmp_path).run(whoami) == b"app"
    from_file = broker(watched, login="app@", password_file=str(tmp_path / "password"))
    assert connect(from_file, tmp_path).run(whoami) == b"app"
    with pytest.raises(BrokerUnavailable, match=r"not accept the log-in: .*username-password"):
        connect(broker(watched, login="app:wrong@"), tmp_path).run(whoami)


def test_a_sentinel_may_have_the_same_password(watched, tmp_path):
    """It lets nobody in without."""
    for server in (watched.one, watched.sentinel):
        server.do("ACL", "SETUSER", "app", "reset", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    watched.sentinel.do("ACL", "SETUSER", "default", "off")
    try:
        settings = broker(watched, login=f"app:{PASSWORD}@")
        assert connect(settings, tmp_path).run(WHO) == "one"
        with pytest.raises(BrokerUnavailable, match=r"not accept the log-in: .*: log-in refused"):
            connect(broker(watched), tmp_path).run(WHO)
    finally:
        watched.sentinel.kill()
        watched.sentinel.start()


def test_another_kind_of_url_is_told_apart_at_the_check(watched, tmp_path):
    """A Sentinel is no Redis for jobs, and no Cluster."""
    with pytest.raises(BrokerUnfit, match=r"is a Sentinel; write redis\+sentinel"):
        connect(model.Broker(url=f"redis://{watched.sentinel.name}"), tmp_path).check()
    with pytest.raises(BrokerUnfit, match="is not a node of a Cluster; write redis://"):
        connect(model.Broker(url=f"redis+cluster://{watched.one.name}"), tmp_path).check()
    connect(broker(watched), tmp_path).check()
