"""
The dashboard's pulse: it notes how many jobs wait, and tells open pages that something has changed.

1. sample   every SAMPLE seconds the ready jobs of each queue, for the lines beside their names; kept in memory
2. watch    while a page is open: every LOOK seconds, whether the counts of a queue or the daemon's generation changed
3. tell     the streams of the open pages, which then ask for their page again
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from fusiond.errors import BrokerError
from fusiond.web.backend import Backend
from fusiond.web.site import Site

#: seconds between two samples
SAMPLE = 10.0
#: seconds between two looks for a change, and after which a page is asked for again in any case
LOOK, LONGEST = 1.0, 5.0
#: open streams at most
MOST_STREAMS = 100


async def sample(backend: Backend) -> None:
    """Note the ready jobs of each queue until cancelled; while Redis is away nothing is noted."""
    while True:
        with contextlib.suppress(BrokerError):
            counted, _ = await backend.counts()
            backend.note_waiting({name: counts.queued + counts.inbox for name, counts in counted.items()})
        await asyncio.sleep(SAMPLE)


async def stream(site: Site, is_logged_in: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Server-sent events: one for each change that a page should show, until the dashboard or the session ends."""
    site.streams += 1
    closing = site.closing
    try:
        yield b"retry: 3000\n\n"
        told, told_at = await _seen(site.backend), time.monotonic()
        while not closing.is_set() and is_logged_in():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(closing.wait(), LOOK)
            now = await _seen(site.backend)
            if now != told or time.monotonic() - told_at > LONGEST:
                told, told_at = now, time.monotonic()
                yield b"event: change\ndata: \n\n"
    finally:
        site.streams -= 1


async def _seen(backend: Backend) -> object:
    """What pages show: if it changes, they are to be shown again."""
    try:
        counted, _ = await backend.counts()
    except BrokerError as error:
        return str(error)
    return backend.generation, {name: _numbers(counts) for name, counts in counted.items()}


def _numbers(counts: object) -> tuple[object, ...]:
    names = (
        "queued",
        "inbox",
        "started",
        "finished",
        "failed",
        "canceled",
        "scheduled",
        "held",
        "broken_kept",
        "suspended_by_operator",
    )
    return tuple(getattr(counts, name) for name in names)
