"""A daemon for the tests of the supervisor."""

import sys

import pytest

from tests.support.running import STANDINS, Running


@pytest.fixture
def daemon():
    """A real daemon whose programs are stand-ins, not started yet; at the end no process of it is left."""
    running = Running((sys.executable, str(STANDINS / "standin_daemon.py")))
    yield running
    running.close()
