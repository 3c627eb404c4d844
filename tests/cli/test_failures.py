"""`fusiond failures`."""

from tests.support.running import until


def test_failed_jobs_are_grouped_by_task_and_error(desk):
    """The number, the error and the queue; only those of a task or an owner, if asked."""
    for _ in range(2):
        desk.enqueued("send", "1")
        desk.fail()
    until(lambda: desk.run(desk.verbs.counts("default")).failed == 2)
    lines = desk.fusiond("failures", "--wide").out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["2", "send"]]
    assert lines[1].endswith("default  ValueError: no stock")
    [row] = desk.fusiond("errors", "--json", "--task", "send").json
    assert (row["count"], row["type"], row["queues"]) == (2, "ValueError", ["default"])
    assert desk.fusiond("failures", "--json", "--task", "report").json == []
    assert desk.fusiond("failures", "--json", "--owner", "nobody").json == []
