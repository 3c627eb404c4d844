"""A callback that calls a URL, and whose child is killed while it waits for the answer."""

import json
import os
import signal

import pytest

from fusiond.callbacks import CALLBACKS, WEBHOOK_TASK, follow_text
from fusiond.config.model import RetryPolicy
from fusiond.job import JobStatus
from tests.support.receiver import Receiver
from tests.support.running import until

ENDED = [status for status in JobStatus if status.ended]


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver
        receiver.may_answer.set()
        receiver.shutdown()


def ask_and_kill(place, receiver, *, isolation, max_crashes):
    """A job whose end calls the receiver, and the death of the child that does so; the job's id."""
    policy = RetryPolicy(max_attempts=1, delay=0.0, jitter_share=0.0, max_crashes=max_crashes)
    webhook = {"run": "fusiond.tasks.webhook", "queue": CALLBACKS, "pass_job": "job", "retry": "p"}
    environment = {"FUSION_WEBHOOK_HOSTS": "127.0.0.1"}
    queues = ("default", CALLBACKS)
    tasks = {WEBHOOK_TASK: webhook}
    program = place.start(
        isolation=isolation, queues=queues, tasks=tasks, policies={"p": policy}, environment=environment, processes=1
    )
    receiver.may_answer.clear()
    called = {"queue": CALLBACKS, "task": WEBHOOK_TASK, "priority": 1, "url": f"{receiver.url}/ended"}
    id_ = place.enqueue("add", 1, 2, header={"follow": follow_text({"on_success": called})})
    until(lambda: receiver.requests, program.text)
    for pid in program.children():
        os.kill(pid, signal.SIGKILL)
    return id_


def callback(place):
    """The one job of the callback, once it has ended."""
    [job] = until(
        lambda: [job for status in ENDED for job in place.run(place.broker.jobs(CALLBACKS, status))], place.logs
    )
    return job


@pytest.mark.parametrize("isolation", ["fork", "process"])
def test_the_url_is_called_again_under_the_same_id(place, receiver, isolation):
    """At least once, by one job that ends once; `webhook-id` tells the receiver that it has seen it."""
    id_ = ask_and_kill(place, receiver, isolation=isolation, max_crashes=2)
    until(lambda: len(receiver.requests) == 2, place.logs)
    receiver.may_answer.set()
    job = callback(place)
    assert (job.status, job.crashes) == ("finished", 1)
    assert len(receiver.requests) == 2
    (_, _, first, body), (_, _, second, again) = receiver.requests
    assert first["webhook-id"] == second["webhook-id"] == job.id
    assert body == again
    assert json.loads(body)["event"]["id"] == id_
    assert (place.job(id_).status, place.job(id_).attempts) == ("finished", 1)
