"""What the benchmarks' jobs do: nothing, or next to it."""

import time


def noop(*_args: object, **_kwargs: object) -> None:
    """Nothing."""


def clock() -> float:
    """When it began: seconds of the monotonic clock, which all processes of a machine share."""
    return time.monotonic()
