"""Callbacks from end to end: tasks and URLs, of the file and of a call."""

import base64
import hashlib
import hmac
import json

import pytest

from fusiond import JobFailed, JobStatus
from tests.support.receiver import Receiver
from tests.support.running import PATIENCE, until

TASKS = """
import json

def good(value): return {"doubled": 2 * value}

def bad(value): raise ValueError(value)

def told(event, log="LOG"):
    with open(log, "a") as file:
        file.write(json.dumps(event) + "\\n")
"""
FILE = """
queues: {mail: {defaults: {on_failure: {task: told}}}}
tasks:
  good: {run: jobs.good, on_success: {task: told}}
  bad: {run: jobs.bad, on_failure: {webhook: '{url}/failed'}}
  letter: {run: jobs.bad, queue: mail}
  told: {run: jobs.told, queue: mail}
cron: {often: {task: letter, every: 1s, args: [7]}}
workers: {main: {queues: '*', directory: {app}, processes: 2, isolation: process}}
webhooks: {secret_file: {secret}}
"""


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver
        receiver.shutdown()


def test_callbacks_of_tasks_queues_calls_schedules_and_pushes(daemons, receiver, tmp_path):
    """Each end calls what its file or call says, once; a host that a call alone names must not be private."""
    client, log, secret = daemons.client(), tmp_path / "log", tmp_path / "secret"
    secret.write_text("s3cret\n")
    daemons.start(FILE.replace("{url}", receiver.url).replace("{secret}", str(secret)), TASKS.replace("LOG", str(log)))

    def events(task):
        """What the task `told` was called with for jobs of this task."""
        # Whole lines alone: the last may be in the writing.
        found = [json.loads(line) for line in (log.read_text() if log.exists() else "").split("\n")[:-1]]
        return [event for event in found if event["task"] == task]

    good = client.enqueue("good", 21)
    bad = client.enqueue("bad", value="x")
    here = client.options(on_success={"webhook": f"{receiver.url}/called"}).enqueue("good", 1)
    quiet = client.options(on_success={}).enqueue("good", 2)
    elsewhere = client.options(on_failure={"webhook": receiver.url.replace("127.0.0.1", "localhost")}).enqueue("bad", 3)
    for job in (good, here, quiet):
        job.result(timeout=PATIENCE)
    for job in (bad, elsewhere):
        with pytest.raises(JobFailed):
            job.result(timeout=PATIENCE)

    until(lambda: len(receiver.requests) == 2 and events("letter") and events("good"), "callbacks are missing")
    [event] = events("good")
    assert (event["id"], event["result"], event["args"]) == (good.id, {"doubled": 42}, [21])
    assert events("letter")[0]["id"].startswith("cron:often:")
    assert events("letter")[0]["error"]["type"] == "ValueError"
    requests = {path: (headers, body) for _, path, headers, body in receiver.requests}
    headers, body = requests["/failed"]
    assert json.loads(body)["event"]["id"] == bad.id
    assert json.loads(body)["event"]["kwargs"] == {"value": "x"}
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = base64.b64encode(hmac.new(b"s3cret", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"
    assert json.loads(requests["/called"][1])["event"]["id"] == here.id

    [refused] = until(lambda: client.failed("callbacks"), "the callback to a private host has not failed")
    assert "not a public address" in json.loads(refused.error)["message"]
    assert elsewhere.status() is JobStatus.FAILED
