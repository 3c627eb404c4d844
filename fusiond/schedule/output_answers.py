"""
Answer who asks what a job has printed, from the files of this host, and delete what need not be kept any more.

1. keep    say every 30 s that this host has such files, and tidy them
2. hear    questions, on a channel of Redis
3. answer  each with what is behind the place that it names: at most PART bytes, and 1 MB in a second for all together

A failure ends none of the scheduler's other work. Files are read in a thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from fusiond.broker.hosts.outputs import KEEPS_AGAIN, OutputAnswer, OutputPart
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.redis.outage import Outage
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config
from fusiond.errors import BrokerError
from fusiond.kept_output.segments import START, KeptPiece, pieces_behind, text_of, tidy
from fusiond.program import wait_until_set

log = logging.getLogger(__name__)

#: bytes in one answer, at least one piece; bytes in a second
PART, _RATE = 1 << 17, 1 << 20
_TOKEN = re.compile(r"[0-9A-Za-z_:]{22}")
#: of a question that is read
_LONGEST_QUESTION = 100_000


class OutputQuestion(NamedTuple):
    """What is asked."""

    token: str
    #: its id
    job: bytes
    attempt: int | None
    #: only what it has printed in this queue; None: in any
    queue: str | None
    after: KeptPiece


class OutputAnswers:
    """Answers for one daemon."""

    def __init__(
        self,
        broker: Verbs,
        connection: AsyncConnection,
        config: Config,
        daemon: str,
        *,
        directory: Path,
        outage: Outage,
    ) -> None:
        """`directory`: that of the files."""
        self._broker, self._connection, self._config, self._daemon = broker, connection, config, daemon
        self._directory, self._outage, self._host = directory, outage, socket.gethostname()
        self._changed = asyncio.Event()
        self._answering: asyncio.Task[None] | None = None

    def set_config(self, config: Config) -> None:
        """Follow this configuration from now on."""
        self._config = config
        self._changed.set()

    async def keep(self) -> None:
        """Until cancelled."""
        try:
            while True:
                self._changed.clear()
                self._answer_if_on()
                await self._say()
                await self._tidy()
                await wait_until_set(self._changed, KEEPS_AGAIN)
        finally:
            if self._answering:
                self._answering.cancel()

    def _answer_if_on(self) -> None:
        is_on = self._config.job_output is not None
        if is_on and self._answering is None:
            self._answering = asyncio.create_task(self._keep_answering())
            self._answering.add_done_callback(log_failure)
        elif not is_on and self._answering:
            self._answering.cancel()
            self._answering = None

    async def _say(self) -> None:
        if self._config.job_output:
            try:
                await self._connection.run(self._broker.keep_output(self._daemon, self._host))
            except BrokerError as error:
                log.debug("that this host keeps what jobs print did not reach Redis: %s", error)

    async def _tidy(self) -> None:
        settings = self._config.job_output
        if not self._directory.is_dir():
            return
        try:
            # Without the key nothing is added, and what is there is kept for its time.
            await asyncio.to_thread(tidy, self._directory, settings.max_total if settings else sys.maxsize)
        except OSError as error:
            log.error("what jobs have printed cannot be tidied: %s", error)

    async def _keep_answering(self) -> None:
        failures = 0
        while True:
            try:
                messages = await self._connection.subscribe([self._broker.keys.outputs])
                failures = 0
                async for _, message in messages:
                    if question := _question(message, self._daemon):
                        await self._answer(question)
            except BrokerError as error:
                log.debug("questions about what jobs print are not heard: %s", error)
                failures += 1
                await self._outage.wait(failures)

    async def _answer(self, question: OutputQuestion) -> None:
        began = time.monotonic()
        try:
            answer = await asyncio.to_thread(self._found, question)
        except OSError as error:
            log.error("what job %r has printed cannot be read: %s", question.job, error)
            return
        await self._connection.run(self._broker.answer_output(question.token, answer))
        size = sum(len(part.text) for part in answer.parts)
        await asyncio.sleep(max(0.0, began + size / _RATE - time.monotonic()))

    def _found(self, question: OutputQuestion) -> OutputAnswer:
        pieces = pieces_behind(self._directory, question.job, question.after, question.attempt, question.queue)
        parts: list[OutputPart] = []
        last, left = question.after, PART
        for piece in pieces:
            if parts and piece.size > left:
                break
            text = text_of(self._directory, piece).decode(errors="backslashreplace")
            parts.append(OutputPart(piece.attempt, piece.at, text))
            last, left = piece, left - piece.size
        more = bool(pieces) and last != pieces[-1]
        return OutputAnswer(self._daemon, self._host, tuple(parts), json.dumps(last), more)


def log_failure(task: asyncio.Task[None]) -> None:
    """Log why it has ended, unless it was cancelled."""
    if not task.cancelled() and (error := task.exception()):
        log.error("this host no longer answers what jobs have printed", exc_info=error)


def _question(message: bytes, daemon: str) -> OutputQuestion | None:
    """What a message asks; None: nothing that can be answered. Whoever reaches Redis can write it."""
    try:
        said: dict[str, Any] = json.loads(message[:_LONGEST_QUESTION])
        place = said["after"].get(daemon)
        after = _place(*json.loads(place)) if place else START
        attempt, queue = said["attempt"], said["queue"]
        if _TOKEN.fullmatch(said["token"]) and isinstance(attempt, int | None) and isinstance(queue, str | None):
            return OutputQuestion(said["token"], str(said["job"]).encode(), attempt, queue, after)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        log.debug("a question about what a job has printed cannot be read: %r", message[:200])
    return None


def _place(at: int, segment: str, offset: int, attempt: int, size: int) -> KeptPiece:
    return KeptPiece(int(at), str(segment), int(offset), int(attempt), int(size))
