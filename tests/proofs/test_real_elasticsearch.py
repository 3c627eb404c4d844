"""
The sink against a real Elasticsearch, where ELASTICSEARCH_URL names one, such as http://127.0.0.1:9200.

docs/proofs/results.md says where one was had from, and how it was started.
"""

import json
import os
import urllib.request

import pytest

from fusiond.config.model.event_log import Sink
from fusiond.job import new_token
from fusiond.sinks.elastic_outlet import ElasticOutlet
from fusiond.sinks.outlets import DeliveryError

URL = os.environ.get("ELASTICSEARCH_URL", "")
pytestmark = pytest.mark.skipif(not URL, reason="ELASTICSEARCH_URL names no server")


class Index:
    """An index of its own, and a sink that fills it."""

    def __init__(self):
        self.name = f"fusiond-test-{new_token().lower().replace(':', '-').strip('_-')}"
        self.outlet = ElasticOutlet(Sink("elasticsearch", url=URL, index=self.name))

    def ask(self, method, path):
        with urllib.request.urlopen(urllib.request.Request(f"{URL}/{self.name}{path}", method=method)) as answer:
            return json.loads(answer.read())

    def stored(self):
        """Id → document."""
        self.ask("POST", "/_refresh")
        hits = self.ask("GET", "/_search?size=1000")["hits"]["hits"]
        return {hit["_id"]: hit["_source"] for hit in hits}


@pytest.fixture
def index():
    index = Index()
    yield index
    index.outlet.close()
    index.ask("DELETE", "")


def documents(*numbers, **more):
    known = {"log_time": "2026-11-23T08:00:00.000Z", "event": "finished", "duration": 1.5}
    return [{"id": f"q:{number}:7", **known, **more} for number in numbers]


def test_each_event_is_there_once(index):
    """Under its id, whatever is sent again."""
    index.outlet.deliver(documents(1, 2))
    index.outlet.deliver(documents(2, 3))
    found = index.stored()
    assert sorted(found) == ["q:1:7", "q:2:7", "q:3:7"]
    assert found["q:1:7"]["@timestamp"] == "2026-11-23T08:00:00.000Z"


def test_what_it_does_not_take_keeps_no_other_event(index):
    """A field of another type than the index has."""
    index.outlet.deliver(documents(1))
    with pytest.raises(DeliveryError, match="1 of 3 events not stored, 400") as refused:
        index.outlet.deliver([*documents(2), *documents(3, duration="long"), *documents(4)])
    assert (refused.value.refused, [each["id"] for each in refused.value.left]) == (True, ["q:3:7"])
    assert sorted(index.stored()) == ["q:1:7", "q:2:7", "q:4:7"]


def test_a_batch_as_large_as_a_sink_sends(index):
    """500 events with arguments and a result of 4 kB each."""
    index.outlet.deliver(documents(*range(500), args="a" * 4096, result="r" * 4096))
    assert len(index.stored()) == 500
