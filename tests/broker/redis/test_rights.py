"""A user of Redis who may not do all that fusiond does: what is missing is named."""

import asyncio
import dataclasses
import re
from pathlib import Path

import pytest

import fusiond
from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob
from fusiond.broker.redis.connection import connect, connect_async
from fusiond.broker.redis.outage import trouble
from fusiond.errors import BrokerUnavailable, BrokerUnfit

HERE = Path(fusiond.__file__).parent
LUA = HERE / "broker" / "lua"
ALL = ("~test:*", "&test:*", "+@all")


@pytest.fixture
def user(run, broker_settings, tmp_path):
    """`user(right, …)` makes one with these; gives connections of it."""

    def make(*rights, kind=connect):
        run(plain(as_is, "ACL", "SETUSER", "limited", "reset", "on", "nopass", *rights))
        settings = dataclasses.replace(broker_settings, url=broker_settings.url.replace("//", "//limited@"))
        return kind(dataclasses.replace(settings, namespace="test"), tmp_path)

    yield make
    run(plain(as_is, "ACL", "DELUSER", "limited"))


def check(user, *rights):
    """What the check of a daemon's programs says."""

    async def main():
        async with user(*rights, kind=connect_async) as connection:
            await connection.check()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("taken", "missing"),
    [
        ("-time", r"denies its user \+time; grant it with ACL SETUSER"),
        ("-zadd -hset", r"denies its user \+hset \+zadd;"),
        ("resetchannels", r"denies its user &test:\*;"),
        ("-publish", r"denies its user \+publish;"),
        ("-subscribe", r"'?subscribe"),
        ("-@pubsub", r"denies its user \+publish;"),
        ("-@scripting", r"'?evalsha"),
        ("-info", r"'?info"),
        ("resetkeys ~other:*", r"keys?"),
    ],
)
def test_what_is_missing_is_named_by_the_check_of_the_start(user, taken, missing):
    """One command, a category, the channels, the keys; with all rights the check passes."""
    check(user, *ALL)
    with pytest.raises(BrokerUnfit, match=missing):
        check(user, *ALL, *taken.split())


def test_the_readiness_names_it_as_long_as_it_is_so(user, broker):
    """A right that is taken while the daemon runs, and given back."""

    async def main():
        found = []
        async with user(*ALL, kind=connect_async) as connection:
            for change in ((), ("-time", "-hget"), ("+@all",)):
                user(*ALL, *change)
                found.append(await trouble(connection, broker.keys))
        return found

    before, during, after = asyncio.run(main())
    assert (before, after) == ("", "")
    assert "denies its user +hget +time" in during


def test_the_check_changes_nothing(user, redis):
    """Not a key stays, with all rights or with few."""
    keys = set(redis("KEYS", "*"))
    check(user, *ALL)
    with pytest.raises(BrokerUnfit):
        check(user, *ALL, "-set", "-mset")
    assert {*redis("KEYS", "*")} - keys <= {b"test:meta"}


def test_a_job_is_stored_whose_wake_up_may_not_be_published(user, run, broker):
    """The enqueue succeeds, so that nobody enqueues it twice."""
    for name in ("a", "b"):
        run(broker.claim("q", 1, dispatcher="d", nonce=name, lease_ms=60_000, max_rescues=2, reservation=name))
        with user(*ALL, "resetchannels") as connection:
            assert connection.run(broker.enqueue("q", [NewJob(name, "t", b"[[],{}]")])) == ["stored"]


def test_who_may_not_is_told_in_a_sentence(user, broker):
    """A producer too: it is not an outage, which would be waited for."""
    with user("~test:*", "+@all", "-evalsha") as connection, pytest.raises(BrokerUnfit, match="denies this user"):
        connection.run(broker.enqueue("q", [NewJob("a", "t", b"[[],{}]")]))
    assert not issubclass(BrokerUnfit, BrokerUnavailable)


def test_the_check_tries_each_command_that_is_used():
    """What scripts and programs ask of Redis is in rights.lua; INFO and SUBSCRIBE are asked by the check itself."""
    used = set()
    for file in LUA.rglob("*.lua"):
        if file.name != "rights.lua":
            used |= set(re.findall(r"redis\.p?call\('([A-Z]+)'", file.read_text()))
    for file in (HERE / "broker").rglob("*.py"):
        used |= set(re.findall(r'plain\(\w+, "([A-Z]+)"', file.read_text()))
    tried = set(re.findall(r"'([A-Z]+)\b", (LUA / "rights.lua").read_text()))
    assert used - tried - {"INFO", "SUBSCRIBE", "ASKING", "CONFIG"} == set()
