"""What is not shown of a job with secret arguments; pages and commands have tests of their own."""

import json

from fusiond.masking import HIDDEN, masked_body

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
