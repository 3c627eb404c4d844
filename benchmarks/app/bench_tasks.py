"""What the benchmarks' jobs do: nothing, or next to it."""

import os
import time


def noop(*_args: object, **_kwargs: object) -> None:
    """Nothing."""


def clock() -> float:
    """When it began: seconds of the monotonic clock, which all processes of a machine share."""
    return time.monotonic()


def mark(sent: float, path: str) -> None:
    """Add a line to the file: how many seconds after `sent` it began."""
    waited = time.monotonic() - sent
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(file, b"%.7f\n" % waited)
    os.close(file)


def rest() -> None:
    """Sleep 10 ms."""
    time.sleep(0.01)


def doze(seconds: float) -> None:
    """Sleep so long."""
    time.sleep(seconds)


async def nap(seconds: float) -> None:
    """Await."""
    import asyncio

    await asyncio.sleep(seconds)


def host() -> str:
    """On which host it runs."""
    import socket

    return socket.gethostname()


async def visit(seconds: float) -> tuple[str, float]:
    """Await; on which host, and when it began by the monotonic clock."""
    import asyncio
    import socket

    began = time.monotonic()
    await asyncio.sleep(seconds)
    return socket.gethostname(), began
