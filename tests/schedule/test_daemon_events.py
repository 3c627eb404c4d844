"""What a daemon tells of itself reaches Redis, whoever is killed."""

import asyncio
import socket
from pathlib import Path

import pytest

from fusiond.broker.event_records import DAEMONS
from fusiond.broker.redis.connection import connect_async
from fusiond.config.model import Broker
from fusiond.errors import BrokerUnavailable
from fusiond.schedule import daemon_events
from fusiond.schedule.daemon_events import DaemonEvents


class Place:
    """A namespace that keeps the events of daemons, and the state directory of one."""

    def __init__(self, run, broker, redis_server, directory):
        self.run, self.broker, self.server, self.directory = run, broker, redis_server, directory
        run(broker.keep_events(DAEMONS, "1000 0"))

    def scheduler(self, work, url=None):
        """What a scheduler does that starts, does this work and is killed."""

        async def live():
            connection = connect_async(Broker(url=url or f"unix://{self.server.path}", namespace="test"), Path("/"))
            events = DaemonEvents(self.broker, connection, "daemon", self.directory)
            events.is_on = True
            await work(events)
            await connection.close()

        asyncio.run(live())

    @property
    def told(self):
        return [event.document() for event in self.run(self.broker.events_behind(DAEMONS, 0, 99)).events]


@pytest.fixture
def place(run, broker, redis_server, tmp_path):
    return Place(run, broker, redis_server, tmp_path)


async def note(events):
    events.note("reload.refused", "line 3: no", who="kim@box")
    events.note("cron.overdue", about="nightly", once=("overdue nightly", "7"))
    events.note("drain.begun", who="kim@box")


async def tell(events):
    await events.run_once()


def test_a_kill_before_they_are_told_loses_none(place):
    """The next scheduler tells them, in their order, with the host; each once."""
    place.scheduler(note)
    assert place.told == []
    place.scheduler(tell)
    place.scheduler(tell)
    assert [said["event"] for said in place.told] == ["reload.refused", "cron.overdue", "drain.begun"]
    assert (place.told[0]["asked_by"], place.told[0]["message"]) == ("kim@box", "line 3: no")
    assert {said["host"] for said in place.told} == {socket.gethostname()}


def test_a_redis_that_is_away_loses_none(place, tmp_path, monkeypatch):
    """The scheduler that could not tell them is killed; it is said when they happened."""
    # More than a busy machine takes from the note to the second scheduler's word.
    monkeypatch.setattr(daemon_events, "_LATE", 600_000)

    async def try_to_tell(events):
        await note(events)
        with pytest.raises(BrokerUnavailable):
            await events.run_once()

    place.scheduler(try_to_tell, url=f"unix://{tmp_path}/nobody.sock")
    directory = tmp_path / "untold-events"
    first = min(directory.iterdir())
    first.rename(directory / "01600000000000000000.1.1")
    place.scheduler(tell)
    assert [said.get("happened_at", "")[:10] for said in place.told] == ["2020-09-13", "", ""]


def test_where_nobody_wants_events_none_are_kept(place, tmp_path):
    """Nor told later."""

    async def off(events):
        await note(events)
        events.is_on = False
        await events.run_once()
        await note(events)

    place.scheduler(off)
    place.scheduler(tell)
    assert place.told == []
