"""A daemon for the tests of the supervisor."""

import pytest

from tests.support.running import STANDIN, Running


@pytest.fixture
def daemon():
    """A real daemon whose programs are stand-ins, not started yet; at the end no process of it is left."""
    running = Running(STANDIN)
    yield running
    running.close()
