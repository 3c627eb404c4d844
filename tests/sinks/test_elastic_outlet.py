"""The sink for Elasticsearch, with the official client, against a server that answers as Elasticsearch does."""

import pytest

from fusiond.config.model.event_log import Sink
from fusiond.sinks.elastic_outlet import ElasticOutlet
from fusiond.sinks.outlets import DeliveryError, deliver_in_parts
from tests.support.bulk_server import BulkServer


@pytest.fixture
def server():
    with BulkServer() as server:
        yield server
        server.shutdown()


@pytest.fixture
def outlet(server, tmp_path):
    (tmp_path / "key").write_text("c2VjcmV0\n")
    outlet = ElasticOutlet(Sink("elasticsearch", url=server.url, index="logs", api_key_file=str(tmp_path / "key")))
    yield outlet
    outlet.close()


def documents(*numbers):
    return [{"id": f"q:{number}:7", "log_time": "2026-11-23T08:00:00.000Z", "event": "failed"} for number in numbers]


def stored(server):
    return list(server.indices.get("logs", {}))


def test_each_event_is_there_once(outlet, server):
    """Under its id; a repeat is not a failure, and changes nothing."""
    outlet.deliver(documents(1, 2))
    outlet.deliver(documents(2, 3))
    assert stored(server) == ["q:1:7", "q:2:7", "q:3:7"]
    assert server.indices["logs"]["q:1:7"]["@timestamp"] == "2026-11-23T08:00:00.000Z"
    assert server.requests[0][1]["authorization"] == "ApiKey c2VjcmV0"


def test_each_document_has_an_answer_of_its_own(outlet, server):
    """Stored; refused for good, whatever the others are; or to be tried again, alone."""
    server.refused = {"q:2:7": 400, "q:3:7": 429, "q:4:7": 503, "q:5:7": 403, "q:6:7": 500}
    with pytest.raises(DeliveryError, match=r"4 of 7 events not stored: .* answered 429 to event q:3:7") as caught:
        outlet.deliver(documents(*range(1, 8)))
    assert caught.value.refused == [f"{server.url} answered 400 to event q:2:7: status 400"]
    assert caught.value.left == documents(3, 4, 5, 6)
    outlet.deliver(caught.value.left)
    assert stored(server) == [f"q:{number}:7" for number in (1, 7, 3, 4, 5, 6)]


def test_a_busy_server_says_when_to_come_again(outlet, server):
    """429 for the whole request."""
    server.faults = [lambda handler: handler.answer(429, {"error": "busy"}, Retry_After="3")]
    with pytest.raises(DeliveryError) as caught:
        outlet.deliver(documents(1))
    assert (caught.value.refused, caught.value.retry_after, caught.value.left) == ((), 3, None)


def test_a_batch_that_is_too_large_is_halved(outlet, server):
    """Until it fits; of documents that do not fit alone, each is refused, and no other."""
    server.largest = 500
    deliver_in_parts(outlet.deliver, documents(*range(9)))
    assert stored(server) == [f"q:{number}:7" for number in range(9)]
    large = [document | {"args": "a" * 500} for document in documents(21, 24)]
    with pytest.raises(DeliveryError, match="413") as caught:
        deliver_in_parts(outlet.deliver, [*documents(20), large[0], *documents(22, 23), large[1], *documents(25)])
    assert (len(caught.value.refused), caught.value.left) == (2, ())
    assert stored(server)[9:] == ["q:20:7", "q:22:7", "q:23:7", "q:25:7"]


def test_a_server_that_goes_away_between_two_halves(outlet, server):
    """What it has not taken is left; what was too large before is refused."""
    server.largest = 500
    large = [document | {"args": "a" * 500} for document in documents(1)]
    busy = {"error": {"reason": "busy"}}
    # both documents, the large one, the other one
    server.faults = [lambda handler: handler.answer(413, {})] * 2 + [lambda handler: handler.answer(429, busy)]
    with pytest.raises(DeliveryError, match="429") as caught:
        deliver_in_parts(outlet.deliver, [*large, *documents(2)])
    assert (len(caught.value.refused), caught.value.left) == (1, documents(2))
    server.faults = [lambda handler: handler.answer(413, {}), lambda handler: handler.answer(429, busy)]
    with pytest.raises(DeliveryError, match="429") as caught:
        deliver_in_parts(outlet.deliver, documents(3, 4))
    assert (caught.value.refused, caught.value.left) == ([], documents(3, 4))
    assert stored(server) == []


LIES = {
    "no JSON": lambda handler: handler.send(200, b"<html>"),
    "half an answer": lambda handler: handler.send(200, b'{"items": [', length=5000),
    "too few items": lambda handler: handler.answer(200, {"errors": False, "items": []}),
    "items of another form": lambda handler: handler.answer(200, {"errors": False, "items": [{"create": 7}]}),
    "nested too deep": lambda handler: handler.send(200, b"[" * 100_000),
    "a status that is no number": lambda handler: handler.send(200, b'{"items": [{"create": {"status": Infinity}}]}'),
    "no list": lambda handler: handler.answer(200, ["what"]),
    "an error of its own": lambda handler: handler.answer(500, {"error": {"reason": "broken"}}),
    "a wrong key": lambda handler: handler.answer(401, {"error": {"reason": "unknown key"}}),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_delays_only_itself(outlet, server, lie):
    """The batch is sent again, and then it is there."""
    server.faults = [LIES[lie]]
    with pytest.raises(DeliveryError) as caught:
        outlet.deliver(documents(1))
    assert not caught.value.refused
    outlet.deliver(documents(1))
    assert stored(server) == ["q:1:7"]


def test_a_server_that_is_older_than_the_package(outlet, server):
    """As Elasticsearch 8.15 answers the client of version 9: the remedy is said."""
    refusal = {"error": {"type": "media_type_header_exception", "reason": "A compatible version is required"}}
    server.faults = [lambda handler: handler.answer(400, refusal | {"status": 400})]
    with pytest.raises(DeliveryError, match=r"older than .* pip install 'elasticsearch<\d+'"):
        outlet.deliver(documents(1))


def test_nobody_there(outlet, server):
    """One sentence, with the address."""
    server.shutdown()
    server.server_close()
    with pytest.raises(DeliveryError, match=server.url):
        outlet.deliver(documents(1))
