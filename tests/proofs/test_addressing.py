"""A slice of `python -m tests.chaos.addressing`, and the bug that it must find."""

from tests.chaos import addressing, hunt


def test_no_command_acts_on_another_files_daemon():
    """I17, where the file, its daemon and its pointers are each in trouble."""
    troubles = ("broken_beside", "killed", "lying_pointer")
    assert addressing.violations(commands=2, troubles=troubles) == []


def test_a_command_that_trusts_whoever_answers_is_found():
    """The invariant can fail."""
    found = hunt.find("a command that trusts whoever answers")
    assert found
    assert {violation.split()[0] for violation in found} == {"I17"}
