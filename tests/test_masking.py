"""What is not shown of a job with secret arguments; pages and commands have tests of their own."""

import json

from fusiond.job import JobRecord, JobStatus
from fusiond.masking import ALL, HIDDEN, masked_body, masked_job

SECRET = {"pay": ["kwargs.password"]}


def shown(args):
    return json.loads(masked_body(json.dumps(args).encode(), SECRET))


def test_a_callback_s_event_has_the_value_nowhere():
    """Neither as the argument of the job that has ended nor in its error and its result."""
    event = {
        "task": "pay", "kwargs": {"password": "hunter2-x", "user": "bob"},
        "error": {"message": "bad password hunter2-x for bob"}, "result": {"got": ["hunter2-x"]},
    }  # fmt: skip
    [_, kwargs] = shown([[], {"event": event}])
    assert "hunter2-x" not in json.dumps(kwargs)
    assert kwargs["event"]["error"] == {"message": f"bad password {HIDDEN} for bob"}


def test_the_event_of_a_flow_has_no_inputs():
    """Where the event is shown, nobody knows which of them a step passes on."""
    [_, kwargs] = shown([[], {"event": {"flow": "monthly", "run": "1", "inputs": {"pw": "hunter2-x"}}}])
    assert kwargs["event"]["inputs"] == {"pw": HIDDEN}


def test_all_arguments_of_all_tasks_can_be_hidden():
    """By place and by name, whatever the task: also in the names of a limit, a tenant and a lock."""
    record = JobRecord(
        queue="q", id="1", status=JobStatus.HELD, task="pay", args=b'[["a1"],{"account":"ac","n":7}]',
        limit='pay kwargs.account="ac",args.0="a1"', tenant='kwargs.account="ac"', lock='pay:"a1",7',
    )  # fmt: skip
    shown = masked_job(record, ALL)
    assert json.loads(shown.args) == [[HIDDEN], {"account": HIDDEN, "n": HIDDEN}]
    assert shown.limit == f"pay kwargs.account={HIDDEN},args.0={HIDDEN}"
    assert (shown.tenant, shown.lock) == (f"kwargs.account={HIDDEN}", f"pay:{HIDDEN},{HIDDEN}")
