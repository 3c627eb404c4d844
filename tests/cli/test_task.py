"""`fusiond task list`, `suspend` and `resume`."""

import re

import pytest

from fusiond.broker.event_records import DAEMONS


@pytest.fixture
def heard(desk):
    """Commands whose acts are kept."""
    desk.run(desk.verbs.keep_events(DAEMONS, "1000 0"))
    return desk


def test_a_task_is_suspended_everywhere_and_everything_says_so(heard):
    """The list and the job say by whom; status how many jobs are held; resumed, nothing says anything."""
    name = heard.enqueued("send")
    assert heard.fusiond("task", "suspend", "send").out == "send: suspended\n"
    with pytest.raises(ValueError, match="got 0"):
        heard.claim()
    [report, send] = heard.fusiond("task", "list", "--json").json
    assert report == {"name": "report", "queue": "reports", "held": 0, "suspended_by": None}
    assert send == {"name": "send", "queue": "default", "held": 1, "suspended_by": "operator"}
    assert re.search(r"^send +default +1 +\S+@\S+, ", heard.fusiond("task", "list").out, re.MULTILINE)
    assert (
        "task 'send' is suspended by the operator; fusiond task resume send" in heard.fusiond("job", "show", name).out
    )
    status = heard.fusiond("status")
    assert "task 'send' is suspended by the operator; 1 job is held; fusiond task resume send" in status.out
    assert heard.fusiond("status", "--json").json["suspended_tasks"] == [
        {"task": "send", "jobs": 1, "suspended_by": "operator"}
    ]
    assert heard.fusiond("task", "resume", "send").out == "send: resumed\n"
    assert heard.fusiond("status", "--json").json["suspended_tasks"] == []
    assert [act["what"] for act in heard.fusiond("audit", "--json").json] == ["task.resumed", "task.suspended"]


def test_what_the_file_says_a_resume_does_not_undo(desk):
    """And a task that does not exist is one sentence with the nearest name."""
    desk.run(desk.verbs.suspend_tasks("default", ["send"], by="file", on=None))
    assert desk.fusiond("task", "resume", "send").out == "send: stays suspended, by the file\n"
    done = desk.fusiond("task", "suspend", "sand")
    assert (done.status, "no task 'sand'" in done.err, "send" in done.err) == (1, True, True)
