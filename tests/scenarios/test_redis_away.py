"""Redis is gone for a while, stopped or ended: a producer is told, and nobody calls it in a busy loop."""

import contextlib
import socket
import time

import pytest

from fusiond import paths
from tests.chaos.recovery import ended
from tests.support.running import until


@pytest.mark.proof
def test_everybody_backs_off(plant):
    """Nobody calls Redis in a busy loop while it refuses: pauses grow from 0.5 s, beside one PING a second."""
    calls = []
    with ended(plant), socket.socket(socket.AF_UNIX) as door:
        until(lambda: not paths.redis_socket(plant.runtime).exists())
        door.bind(str(paths.redis_socket(plant.runtime)))
        door.listen(64)
        door.settimeout(0.1)
        end = time.monotonic() + 8
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                door.accept()[0].close()
                calls.append(time.monotonic())
        paths.redis_socket(plant.runtime).unlink()
    print(f"{len(calls)} connections in 8 s")
    # two dispatchers, of each the claims, the renewals, the subscription and the word about itself; and the scheduler:
    # at most at 0, 0.5, 1.5, 3.5 and 7.5 s ± 25 %; and in each of the three programs the question whether it is back
    assert 4 <= len(calls) <= 9 * 6 + 3 * 8 / 0.75
