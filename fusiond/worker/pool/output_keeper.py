"""
Keep what the jobs of one group print: the end of it with the attempt, and all of it if the file has `job_output`.

1. note    what an attempt has printed, up to its limit
2. write   what was noted, a few times each second, in a thread: a slow disk must not hold up leases
3. refuse  what comes while too much waits to be written, or the disk is full; the log says so, once a minute
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fusiond.kept_output.segments import Piece, SegmentWriter
from fusiond.worker.pool.attempt import TAIL, Attempt
from fusiond.worker.pool.group_config import GroupConfig

log = logging.getLogger(__name__)

#: s from the first thing that was noted until it is written
_SOON = 0.2
#: bytes that may wait to be written; bytes of a piece
_MOST, _PIECE = 8 << 20, 1 << 16
#: s; from when a refusal was logged until it is logged again
_LOG_AGAIN = 60.0


class OutputKeeper:
    """Writes the output of one group's jobs."""

    def __init__(self, conf: GroupConfig, directory: Path) -> None:
        self._conf, self._writer = conf, SegmentWriter(directory)
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "output")
        #: printed and not written yet, and its bytes
        self._noted: dict[Attempt, bytearray] = {}
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_writing = False
        self._logged = float("-inf")

    def note(self, attempt: Attempt, text: str) -> None:
        """The attempt has printed this line."""
        if self._conf.task(attempt.task)[0].output_ttl is None:
            return
        data = text.encode(errors="replace") + b"\n"
        _add_to_tail(attempt, data)
        settings = self._conf.config.job_output
        if settings is None or attempt.kept_bytes > settings.max_per_attempt:
            return
        if self._bytes > _MOST:
            self._refuse("the disk is too slow for what jobs print")
            return
        attempt.kept_bytes += len(data)
        if attempt.kept_bytes > settings.max_per_attempt:
            data = b"... it has printed more than max_per_attempt of job_output; the rest is not kept\n"
        self._noted.setdefault(attempt, bytearray()).extend(data)
        self._bytes += len(data)
        if self._timer is None and not self._is_writing:
            self._timer = self._loop.call_later(_SOON, self._write_soon)

    def close(self) -> None:
        """Write what is left."""
        if self._timer:
            self._timer.cancel()
        self._thread.shutdown()
        self._write(self._taken())
        self._writer.close()

    def _write_soon(self) -> None:
        self._timer, self._is_writing = None, True
        future = self._loop.run_in_executor(self._thread, self._write, self._taken())
        future.add_done_callback(self._on_written)

    def _on_written(self, _: asyncio.Future[None]) -> None:
        self._is_writing = False
        if self._noted:
            self._timer = self._loop.call_later(_SOON, self._write_soon)

    def _taken(self) -> list[Piece]:
        noted, self._noted, self._bytes = self._noted, {}, 0
        return [
            Piece(attempt.queue, attempt.id, attempt.attempts, ttl, bytes(text[at : at + _PIECE]))
            for attempt, text in noted.items()
            if (ttl := self._conf.task(attempt.task)[0].output_ttl) is not None
            for at in range(0, len(text), _PIECE)
        ]

    def _write(self, pieces: list[Piece]) -> None:
        settings = self._conf.config.job_output
        try:
            self._writer.write(pieces, settings.max_total if settings else 0)
        except OSError as error:
            self._refuse(f"{error.strerror or error} ({error.filename or 'job_output'})")

    def _refuse(self, why: str) -> None:
        if time.monotonic() - self._logged > _LOG_AGAIN:
            self._logged = time.monotonic()
            log.error("what jobs print is not kept: %s", why)


def _add_to_tail(attempt: Attempt, data: bytes) -> None:
    if attempt.output_tail is None:
        attempt.output_tail = bytearray()
    attempt.output_tail += data
    if len(attempt.output_tail) > 2 * TAIL:
        del attempt.output_tail[:-TAIL]
