"""A slice of `python -m tests.chaos.capacity`: capacity returns unaided after failures that pass."""

from tests.chaos import capacity
from tests.chaos.package import PACKAGE


def test_capacity_returns_after_failures_that_pass():
    """I14: one daemon through some of them, each a second long."""
    assert capacity.violations(names=("directory", "state", "imports", "frozen"), seconds=1.0) == []


def test_what_is_shorter_in_the_copy_still_fits_the_code():
    """A pause that is not shortened would only make the situation longer."""
    for edit in capacity.SHORTER:
        assert (PACKAGE / edit.file).read_text().count(edit.right) == 1, edit
