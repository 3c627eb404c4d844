"""A slice of `python -m tests.chaos.rollout`: a roll-out whose host is killed, and a roll-back under another name."""

from tests.chaos import rollout
from tests.chaos.rollout import NEW, OLD, Ack


def test_no_job_is_stranded_by_a_roll_out_that_is_taken_back():
    """I13, and what was left behind is moved by a command that was killed twice."""
    assert rollout.violations(seed=1) == []


def test_the_judge_sees_a_job_that_nothing_serves():
    """A job is put into a queue long after its last group has ended, and is said to be served."""
    periods = [[OLD, 0.0, float("inf")], [NEW, 10.0, 20.0]]
    acks = [Ack(OLD, "a", True, 5.0), Ack(NEW, "b", True, 21.0), Ack(NEW, "c", False, 60.0), Ack(NEW, "d", True, 60.0)]
    assert [violation.split()[2] for violation in rollout.judge(acks, periods)] == ["fast/d"]
