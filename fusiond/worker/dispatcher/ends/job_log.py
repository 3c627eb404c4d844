"""
What the log says of jobs: the fields beside each of their lines, and a line at the end of each.

A job that failed always has its line. Of those that succeeded at most MOST a second have one, the others are counted: a
group may run 20,000 jobs in a second, and a line costs more than such a job.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from typing import Any

from fusiond import logs
from fusiond.broker.records import Outcome
from fusiond.owners import owner_of
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.group_config import GroupConfig

log = logging.getLogger(__name__)

#: lines in each second about jobs that succeeded
MOST = 100


class JobLog:
    """Fields and last lines of the jobs of one group."""

    def __init__(self, conf: GroupConfig) -> None:
        self._conf = conf
        self._host, self._loop = socket.gethostname(), asyncio.get_running_loop()
        #: of the second that `_timer` ends: lines that may still be written, and jobs that had none
        self._left, self._more = MOST, 0
        self._timer: asyncio.TimerHandle | None = None

    def fields(self, attempt: Attempt) -> dict[str, Any]:
        """For `log.info(…, extra=fields)`."""
        if attempt.log_tag is None:
            attempt.log_tag = _own_tag(attempt.header) or self._conf.task(attempt.task)[0].log_tag or ""
        return {
            "job": attempt.name,
            "task": attempt.task.decode(errors="replace"),
            "queue": attempt.queue,
            "attempt": attempt.attempts,
            "log_tag": attempt.log_tag or None,
        }

    def finished(self, attempt: Attempt) -> None:
        """The job succeeded. This is called for each job, so what is not written must cost nothing."""
        if not self._conf.config.logging.jobs:
            return
        if not self._left:
            self._more += 1
            return
        self._left -= 1
        if self._timer is None:
            self._timer = self._loop.call_later(1.0, self.count)
        log.info("finished", extra=self._end_fields(attempt, "finished"))

    def ended(self, attempt: Attempt, outcome: Outcome) -> None:
        """The attempt failed, whether another follows or not, or its job was canceled."""
        if outcome.kind == "canceled":
            if self._conf.config.logging.jobs:
                log.info("canceled", extra=self._end_fields(attempt, "canceled"))
            return
        level = {"retry": logging.WARNING, "snoozed": logging.INFO}.get(outcome.kind, logging.ERROR)
        if log.isEnabledFor(level):
            error = json.loads(outcome.payload)
            what = error["type"] or error["code"]
            again = {"retry": "tried again in", "snoozed": "snoozed for"}.get(outcome.kind)
            then = f"{again} {outcome.ms / 1000:g} s" if again else outcome.kind
            fields = self._end_fields(attempt, outcome.kind)
            found = owner_of(self._conf.owners, attempt.queue, fields["task"], attempt.name)
            fields |= {name: value or None for name, value in found._asdict().items()}
            fields[logs.EXCEPTION] = error["traceback"] or None
            log.log(level, "%s: %s (%s)", what, error["message"], then, extra=fields)

    def count(self) -> None:
        """Begin the next second: say how many jobs succeeded in this one without a line."""
        if self._timer is not None:
            self._timer.cancel()
        if self._more:
            log.info("more jobs finished in this second, without a line of their own", extra={"finished": self._more})
        self._left, self._more, self._timer = MOST, 0, None

    def _end_fields(self, attempt: Attempt, outcome: str) -> dict[str, Any]:
        """The fields of an attempt's last line, times in seconds."""
        return {
            **self.fields(attempt),
            "outcome": outcome,
            "wait": round(attempt.waited_until_begun(), 3),
            "duration": None if attempt.ran is None else round(attempt.ran, 3),
            "host": self._host,
        }


def _own_tag(header: bytes) -> str:
    """The tag that the producer gave; "" where it gave none, or the header cannot be read."""
    if b'"log_tag"' not in header:
        return ""
    try:
        tag = json.loads(header)["log_tag"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return ""
    return tag if isinstance(tag, str) else ""
