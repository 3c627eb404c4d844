"""A sink's loop on a real Redis: at least once, in order, each gap told; one daemon at a time."""

import asyncio
import contextlib
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from fusiond.broker.event_records import DAEMONS
from fusiond.broker.records import EventsOf, NewJob, Outcome
from fusiond.config.model import Broker, Config, Task
from fusiond.config.model.event_log import Events, Sink
from fusiond.errors import BrokerUnavailable
from fusiond.program import Link
from fusiond.sinks import delivery as module
from fusiond.sinks.delivery import Delivery
from fusiond.sinks.outlets import DeliveryError, RefusedTogetherError
from fusiond.tasks.webhooks import CALLBACK_HOSTS
from tests.support.receiver import Receiver
from tests.support.running import until


class Outlet:
    """Takes documents, after as many failures as it is told."""

    def __init__(self, most=3):
        self.most, self.taken, self.failures = most, [], []
        self.enough, self.goal = threading.Event(), 0

    def deliver(self, documents):
        if self.failures:
            raise self.failures.pop(0)
        self.taken += documents
        if len(self.taken) >= self.goal:
            self.enough.set()

    def close(self):
        pass

    @property
    def jobs(self):
        return [document.get("job_id") for document in self.taken]


class Station:
    """A namespace with a queue that keeps events, and daemons with a sink `s` each."""

    def __init__(self, run, broker, server, directory, monkeypatch):
        self.run, self.broker, self.server, self.directory = run, broker, server, directory
        self.outlet = Outlet()
        monkeypatch.setattr(module, "outlet", lambda _: self.outlet)
        monkeypatch.setattr(module, "_LONGEST", 0.01)
        run(broker.declare(["q"]))
        run(broker.keep_events("q", "1000 0"))
        run(broker.keep_events(DAEMONS, "1000 0"))

    def enqueue(self, *ids):
        self.run(self.broker.enqueue("q", [NewJob(id_, "t", b"[[],{}]") for id_ in ids]))

    def snapshot(self, only):
        events = Events(1000, sinks={"s": Sink("file", "/none", only=only)})
        settings = Broker(url=f"unix://{self.server.path}", namespace="test")
        config = Config(broker=settings, tasks={"t": Task("t", "a.b", log_tag="bill", owner="ada")}, events=events)
        return SimpleNamespace(config=config, path=self.directory / "snapshot.json")

    def deliver(self, goal, only=(), beside=int):
        """Run a sink, and `beside` in a thread, until so many events are delivered in all; then end the sink."""

        async def serve():
            delivery = Delivery(self.snapshot(only), "s", Link(), Path("/"))
            serving = asyncio.create_task(delivery.serve())
            await asyncio.gather(asyncio.to_thread(beside), asyncio.to_thread(self.outlet.enough.wait, 60))
            delivery.end()
            await serving

        self.outlet.goal = goal
        self.outlet.enough.clear()
        asyncio.run(serve())
        return self.outlet.jobs


@pytest.fixture
def station(run, broker, redis, redis_server, tmp_path, monkeypatch):
    station = Station(run, broker, redis_server, tmp_path, monkeypatch)
    station.redis = redis
    return station


def test_it_goes_on_where_it_was(station):
    """Each event once, in its order, over an end; the tag of the task with each."""
    station.enqueue("a", "b", "c", "d")
    assert station.deliver(4) == ["a", "b", "c", "d"]
    station.enqueue("e")
    assert station.deliver(5) == ["a", "b", "c", "d", "e"]
    assert {(said["task_type"], said["owner"]) for said in station.outlet.taken} == {("bill", "ada")}
    assert len({document["id"] for document in station.outlet.taken}) == 5


def test_what_is_down_delays_and_loses_nothing(station):
    """The same batch again until it is taken; and the daemons' stream says so."""
    station.outlet.failures = [DeliveryError("it is away", retry_after=0.01) for _ in range(4)]
    station.enqueue("a", "b")
    assert station.deliver(4)[:2] == ["a", "b"]
    told = [(said["event"], said["about"], said.get("message")) for said in station.outlet.taken[2:]]
    assert told == [("sink.fails", "s", "it is away"), ("sink.delivers", "s", None)]


def test_how_far_it_is_behind_is_known(station):
    """The age of the oldest event that is not delivered, and why; nothing of sinks that no file has."""

    def state():
        return station.run(station.broker.sinks(["s"], ["q"]))["s"]

    def look():
        # The third failure is told as an event, and so is the end of it: with the job's, three are delivered.
        until(lambda: state().failing and len(station.outlet.failures) < 10**6 - 3)
        seen.append(state())
        station.outlet.failures.clear()

    seen = []
    station.enqueue("a")
    assert state().failing == ""
    station.outlet.failures = [DeliveryError("it is away", retry_after=0.01) for _ in range(10**6)]
    station.deliver(3, beside=look)
    assert (seen[0].failing, seen[0].is_late) == ("it is away", True)
    assert 0 < seen[0].delay < 3600
    assert state() == (0, "", 0)
    station.enqueue("b")
    assert state().delay >= 0
    assert station.run(station.broker.sinks([], ["q"])) == {}


def test_an_answer_that_never_ends_is_told(station, monkeypatch):
    """As failures are, though no time limit is reached: a server may send a byte now and then."""
    monkeypatch.setattr(module, "HOLD", 0.01)
    monkeypatch.setattr(module, "_SLOW", 0.02)
    gate, deliver = threading.Event(), station.outlet.deliver

    def slowly(documents):
        gate.wait(60)
        deliver(documents)

    def look():
        until(lambda: station.run(station.broker.sinks(["s"], ["q"]))["s"].failing == "no whole answer for 0.02 s")
        # What comes behind it may be taken as slowly as the machine is.
        monkeypatch.setattr(module, "_SLOW", 60.0)
        gate.set()

    station.outlet.deliver = slowly
    station.enqueue("a")
    station.deliver(3, beside=look)
    assert [said["event"] for said in station.outlet.taken[1:]] == ["sink.fails", "sink.delivers"]


def test_a_batch_is_not_sent_again_while_it_is_being_sent(station, monkeypatch):
    """Redis does not answer for a moment while an outlet waits: an outlet does one thing at a time."""
    monkeypatch.setattr(module, "HOLD", 0.01)
    gate, deliver, hold, inside, most = threading.Event(), station.outlet.deliver, Delivery._hold, [], []
    failures = [BrokerUnavailable("it is away")]

    async def hold_or_fail(self, ms):
        if inside and failures:
            raise failures.pop()
        await hold(self, ms)

    def slowly(documents):
        inside.append(1)
        most.append(len(inside))
        gate.wait(60)
        inside.pop()
        deliver(documents)

    def look():
        until(lambda: inside and not failures)
        # Longer than the pause after which Redis is asked again.
        with contextlib.suppress(AssertionError):
            until(lambda: len(most) > 1, timeout=1.5)
        gate.set()

    monkeypatch.setattr(Delivery, "_hold", hold_or_fail)
    station.outlet.deliver = slowly
    station.enqueue("a")
    station.deliver(1, beside=look)
    assert set(most) == {1}
    assert set(station.outlet.jobs) == {"a"}


def test_whatever_an_outlet_raises_delays_it_only(station):
    """A library may raise anything on an odd answer."""
    station.outlet.failures = [ZeroDivisionError("odd"), RuntimeError("odd")]
    station.enqueue("a", "b")
    assert station.deliver(2) == ["a", "b"]


def test_what_is_busy_is_never_given_up(station):
    """However often it is tried, beside what is refused: only that is set aside, and counted."""
    take, busy = station.outlet.deliver, 30

    def deliver(documents):
        nonlocal busy
        refused = ["400"] * any(document["job_id"] == "b" for document in documents)
        left = [document for document in documents if document["job_id"] != "b"]
        if busy:
            busy -= 1
            raise DeliveryError("429", refused=refused, left=left)
        take(left)

    station.outlet.deliver = deliver
    station.enqueue("a", "b", "c")
    assert station.deliver(2, only=("enqueued",)) == ["a", "c"]
    state = station.run(station.broker.sinks(["s"], ["q"]))["s"]
    assert (state.failing, state.refused) == ("", 1)


def test_the_pauses_start_over_once_a_batch_has_moved(station, monkeypatch):
    """An event that is refused now and then slows down no other, whatever was busy before."""
    monkeypatch.setattr(module, "_LONGEST", 60.0)
    take, seen = station.outlet.deliver, []

    def deliver(documents):
        seen.append(documents[0]["job_id"])
        if len(seen) < 3:
            raise DeliveryError("429", left=documents, retry_after=0)
        if len(documents) > 1:
            raise DeliveryError("429 to all but one", left=documents[1:])
        take(documents)

    monkeypatch.setattr(module, "_FIRST", 0.001)
    failures, note = [], Delivery._note_failure

    async def note_failure(self, error):
        await note(self, error)
        failures.append(self._failures)

    monkeypatch.setattr(Delivery, "_note_failure", note_failure)
    station.outlet.deliver = deliver
    station.enqueue("a", "b", "c")
    station.deliver(1, only=("enqueued",))
    assert failures == [1, 2, 1, 1]


def test_an_event_that_is_refused_with_others_is_set_aside_alone(station, caplog):
    """The others of its batch are taken at once; it is said once, with the reason."""
    take = station.outlet.deliver

    def deliver(documents):
        if any(document.get("job_id") == "b" for document in documents):
            raise RefusedTogetherError("it answered 413")
        take(documents)

    station.outlet.deliver = deliver
    station.enqueue("a", "b", "c", "d")
    assert station.deliver(3)[:3] == ["a", "c", "d"]
    assert [said for said in caplog.messages if "refused" in said] == [
        "1 events were refused and are set aside: it answered 413"
    ]


def test_any_text_of_a_job_can_be_sent(station):
    """Half of a surrogate pair in a name is replaced: no receiver takes it, and it would stop the sink."""
    station.enqueue("a")
    station.run(station.broker.claim("q", 1, dispatcher="d", nonce="n", lease_ms=60_000, max_rescues=2))
    error = b'{"code":"EXCEPTION","type":"E","message":"\\udce9","traceback":""}'
    outcome = Outcome("a", "n", "failed", 60_000, 0, error)
    assert station.run(station.broker.settle("q", [outcome], events=EventsOf("1000 1", "box main"))) == [1]
    station.deliver(1, only=("failed",))
    assert "\udce9" not in str(station.outlet.taken)


def test_a_gap_is_told(station):
    """With the number of events that it has missed."""
    station.enqueue("first")
    station.deliver(1)
    for page in range(8):
        station.enqueue(*(f"{page}.{number}" for number in range(400)))
    kept = len(station.run(station.broker.events_behind("q", 1, 9999)).events)
    station.deliver(2 + kept)
    lost = station.outlet.taken[1]
    assert (lost["event"], lost["message"]) == (
        "events.lost", f"{3200 - kept} events were dropped before they were read"
    )  # fmt: skip
    assert station.outlet.jobs[-1] == "7.399"


def test_a_redis_that_came_back_with_less_is_read_again(station):
    """Its numbers begin again, and their ids are others."""
    station.enqueue("a", "b", "c")
    station.deliver(3)
    station.redis("DEL", "test:{q}:events")
    station.redis("HDEL", "test:{q}:conf", "told")
    station.enqueue("d")
    assert station.deliver(4)[3:] == ["d"]


def test_one_daemon_delivers_at_a_time(station):
    """A second one stands by; it takes over once the first one has ended, or its lease has expired."""
    hold = station.broker.hold_sink
    assert station.run(hold("s", "one", 60_000, {})) == {}
    assert station.run(hold("s", "one", 60_000, {"q": 5})) == {"q": 5}
    assert station.run(hold("s", "two", 60_000, {"q": 9})) is None
    assert station.run(hold("other", "two", 60_000, {})) == {}
    assert station.run(hold("s", "one", 0, {"q": 6})) == {"q": 6}
    assert station.run(hold("s", "two", 60_000, {"q": 1})) == {"q": 6}
    assert station.run(hold("s", "one", 60_000, {})) is None


def test_a_file_has_a_line_for_each_and_may_be_rotated(tmp_path):
    """A half line that a kill has left is ended; a renamed file is opened again."""
    from fusiond.sinks.file_outlet import FileOutlet

    path = tmp_path / "events.jsonl"
    path.write_text('{"half":')
    outlet = FileOutlet(Sink("file", str(path)))
    outlet.deliver([{"id": "1", "message": "zwei\nZeilen"}])
    path.rename(tmp_path / "events.1")
    outlet.deliver([{"id": "2"}, {"id": "3"}])
    outlet.close()
    assert [json.loads(line)["id"] for line in (tmp_path / "events.1").read_text().splitlines()[1:]] == ["1"]
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["2", "3"]


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    """In one sentence, with its name."""
    from fusiond.sinks.file_outlet import FileOutlet

    with pytest.raises(DeliveryError, match=r"gone/events\.jsonl: No such file"):
        FileOutlet(Sink("file", str(tmp_path / "gone" / "events.jsonl"))).deliver([{}])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DeliveryError, match="No such device or address"):
        FileOutlet(Sink("file", str(tmp_path / "pipe"))).deliver([{}])


def test_a_webhook_is_signed_and_names_the_event(tmp_path, monkeypatch):
    """One request for each; 410 refuses it for good, any answer about the server or the address has it tried again."""
    from fusiond.sinks.webhook_outlet import WebhookOutlet

    monkeypatch.setenv(CALLBACK_HOSTS, "")  # the outlet sets it
    (tmp_path / "secret").write_text("a long secret")
    with Receiver() as receiver:
        outlet = WebhookOutlet(Sink("webhook", url=receiver.url, secret_file=str(tmp_path / "secret")))
        outlet.deliver([{"id": "q:1:2", "event": "failed"}])
        _, _, headers, body = receiver.requests[0]
        assert (json.loads(body)["event"], headers["webhook-id"]) == ("failed", "q:1:2")
        assert headers["webhook-signature"].startswith("v1,")
        receiver.status, receiver.headers = 503, {"Retry-After": "7"}
        with pytest.raises(DeliveryError) as busy:
            outlet.deliver([{"id": "q:1:2"}])
        assert (busy.value.left, busy.value.retry_after) == (None, 7)
        for status, refusals in ((400, 1), (410, 1), (422, 1), (301, 0), (401, 0), (403, 0), (404, 0), (429, 0)):
            receiver.status = status
            with pytest.raises(DeliveryError) as refused:
                outlet.deliver([{"id": "q:1:2"}])
            assert (status, len(refused.value.refused)) == (status, refusals)
            assert refused.value.left == (() if refusals else None)
        (tmp_path / "secret").unlink()
        with pytest.raises(DeliveryError) as mine:
            outlet.deliver([{"id": "q:1:2"}])
        assert mine.value.left is None
        receiver.shutdown()
