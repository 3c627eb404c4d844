"""What the sink of a load does at its edges; tests/scenarios/test_live_load.py has what a whole daemon records."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from fusiond.broker.event_records import DAEMONS
from fusiond.broker.records import NewJob
from fusiond.config.model import Broker, Config, Queue
from fusiond.config.model.event_log import Events, Sink
from fusiond.program import Link
from fusiond.sinks.delivery import Delivery
from fusiond.sinks.load_outlet import LoadOutlet
from fusiond.sinks.outlets import DeliveryError
from tests.support.running import until

ARRIVAL = {"event": "enqueued", "log_time": "2026-11-30T06:00:00.500Z", "queue": "q", "job_id": "a", "task": "t"}


def test_a_job_that_is_gone_has_no_keys(run, broker, redis, redis_server, tmp_path):
    """Its arrival is recorded all the same, as are those behind it."""
    run(broker.declare(["q", "default"]))
    run(broker.keep_events("q", "1000 0"))
    run(broker.keep_events(DAEMONS, "1000 0"))
    run(broker.configure("q", tasks={}, fair_by=["kwargs.user"]))
    run(broker.enqueue("q", [NewJob(id_, "t", b'[[],{"user":"ada"}]') for id_ in ("gone", "there")]))
    redis("DEL", "test:{q}:job:gone")
    path = tmp_path / "load.jsonl"
    settings = Broker(url=f"unix://{redis_server.path}", namespace="test")
    events = Events(sinks={"s": Sink("load", str(path))})
    config = Config(broker=settings, queues={"q": Queue("q", fair_by=("kwargs.user",))}, events=events)

    async def serve():
        snapshot = SimpleNamespace(config=config, path=tmp_path / "snapshot.json")
        delivery = Delivery(snapshot, "s", Link(), Path("/"))
        serving = asyncio.create_task(delivery.serve())
        await asyncio.to_thread(until, lambda: path.exists() and path.read_text().count("\n") == 3)
        delivery.end()
        await serving

    asyncio.run(serve())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [("fair_by" in line) for line in lines[1:]] == [False, True]


def test_a_gap_is_said_in_the_log(tmp_path, caplog):
    """The recording has no place for it, and would pass for a whole one."""
    lost = {"event": "events.lost", "log_time": ARRIVAL["log_time"], "queue": "q", "message": "9 events were dropped"}
    LoadOutlet(Sink("load", str(tmp_path / "load"))).deliver([lost])
    assert caplog.messages == ["the recording has a gap in the queue 'q': 9 events were dropped"]


def test_nothing_is_recorded_without_a_secret(tmp_path):
    """An HMAC with an empty key hides nothing; the file that is wrong is named."""
    (tmp_path / "load.secret").touch()
    with pytest.raises(DeliveryError, match=r"load\.secret: it is empty"):
        LoadOutlet(Sink("load", str(tmp_path / "load"))).deliver([ARRIVAL])
    assert not (tmp_path / "load").read_text()
