"""What a client knows of the daemons' files."""

import pytest

from fusiond import Client, EnqueueError
from tests.support.fusiond_desk import QUEUES, TASKS


def test_a_name_that_the_client_does_not_know_is_looked_up(desk, monkeypatch):
    """A reload has just added it; a client that has looked within the last second says that there is none."""
    with Client(desk.settings.url) as client:
        urgent = client.options(priority="urgent")
        client.enqueue("send")
        priorities = {"high": 2, "urgent": 9}
        desk.run(desk.verbs.publish_catalogue("test", "newer", TASKS, priorities=priorities, queues=(*QUEUES, "night")))
        monkeypatch.setattr("fusiond.producer.new_jobs.UNSERVED_AGE", 3600)
        with pytest.raises(EnqueueError, match="urgent"):
            urgent.enqueue("send")
        monkeypatch.setattr("fusiond.producer.new_jobs.UNSERVED_AGE", 0)
        assert urgent.enqueue("send")
        assert client.options(queue="night").enqueue("send")
        with pytest.raises(EnqueueError, match="slow"):
            client.options(priority="slow").enqueue("send")
