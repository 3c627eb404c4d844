"""Slices of `python -m tests.chaos.frozen` and `python -m tests.chaos.victims`."""

from tests.chaos import frozen, victims
from tests.chaos.package import PACKAGE


def test_a_frozen_fork_server_holds_up_no_job():
    """I10: no started job outlives its hard timeout and two leases; the others are frozen in the longer run."""
    assert frozen.violations() == []


def test_a_victim_is_the_job_that_was_meant():
    """I18: of cancels, hard timeouts and signals, though the kill comes late."""
    assert victims.violations(rounds=2) == []


def test_a_victim_among_many_at_once_is_the_job_that_was_meant():
    """I18: those beside it in its process end as if it had not been there."""
    assert victims.violations(rounds=2, many=True) == []


def test_what_is_quicker_in_the_copy_still_fits_the_code():
    """A patience that is not shortened would be longer than what the copy's jobs are allowed."""
    for edit in frozen.QUICKER:
        assert (PACKAGE / edit.file).read_text().count(edit.right) == 1, edit
