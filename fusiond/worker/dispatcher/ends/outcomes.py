"""
The outcomes of attempts that Redis has not confirmed yet. All lanes of a dispatcher settle from here. Knows no Redis.

1. add    an outcome. The next round trip of either lane sends it
2. keep   an outcome that Redis refused: the next round trip sends it again. Without an answer it waits for `offer_kept`
3. count  the outcomes that Redis has confirmed; and measure, if the file says so, what Redis is to count of each
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain

from fusiond.broker.counters import OTHERS, Measured
from fusiond.broker.jobs import EFFECTS
from fusiond.broker.records import EventsOf, Kind, Outcome
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.group_config import GroupConfig

#: an attempt, and how it ended
Ended = tuple[Attempt, Outcome]
#: a queue, and what a call settles in it
Settle = tuple[str, list[Ended]]

log = logging.getLogger(__name__)

#: outcomes in one call
_SETTLE = 512
#: what becomes of a job that was to go on, as settle.lua answers
_INSTEAD: dict[int, Kind] = {3: "failed", 4: "canceled"}
#: outcomes after which a job goes on, and whose payload is an error
_WITH_ERROR = ("retry", "snoozed")
#: s; from when a refusal was logged until it is logged again
_LOG_AGAIN = 60.0


class Outcomes:
    """The outcomes of one dispatcher."""

    def __init__(
        self, conf: GroupConfig, on_ended: Callable[[Attempt, Outcome], None], on_effects: Callable[[str], None]
    ) -> None:
        """
        Nothing has ended yet.

        `on_ended`: called with an attempt after which its job was to go on, and which failed or was canceled;
        `on_effects`: with a queue that has effects.
        """
        self._conf, self._on_ended, self._on_effects = conf, on_ended, on_effects
        self._host = socket.gethostname()
        #: outcomes that Redis has taken, by kind
        self.counts = {"finished": 0, "failed": 0, "retry": 0, "snoozed": 0, "released": 0, "canceled": 0}
        #: queue → outcomes that the next round trip sends; outcomes without an answer
        self._ended: dict[str, list[Ended]] = {}
        self._kept: dict[str, list[Ended]] = {}

    @property
    def events(self) -> EventsOf | None:
        """What is told of them; None: nobody wants events."""
        events = self._conf.config.events
        return EventsOf(events.wanted(), f"{self._host} {self._conf.group.name}") if events else None

    def add(self, attempt: Attempt, outcome: Outcome) -> None:
        """Settle the attempt with the next round trip."""
        if self._conf.config.counts_jobs:
            attempt.waited = attempt.waited_until_begun()
        self._ended.setdefault(attempt.queue, []).append((attempt, outcome))

    def __len__(self) -> int:
        """How many the next round trip settles."""
        return sum(map(len, self._ended.values()))

    @property
    def is_done(self) -> bool:
        """Whether nothing waits here."""
        return not (self._ended or self._kept)

    @property
    def kept(self) -> Collection[str]:
        """The queues of the outcomes without an answer, which wait for `offer_kept`."""
        return self._kept.keys()

    def unsettled(self) -> Iterator[Attempt]:
        """The attempts whose outcomes wait here."""
        return attempts_of(chain(self._ended.values(), self._kept.values()))

    def take(self) -> list[Settle]:
        """What a round trip is to settle, one call for each item. The lane that takes it is responsible for it."""
        ended, self._ended = self._ended, {}
        return [
            (queue, batch[at : at + _SETTLE]) for queue, batch in ended.items() for at in range(0, len(batch), _SETTLE)
        ]

    def measured(self, batch: list[Ended]) -> list[Measured]:
        """What Redis is to count of each of these; empty: nothing."""
        if not self._conf.config.counts_jobs:
            return []
        known = self._conf.tasks
        return [
            Measured(each.task if each.task in known else OTHERS, each.ran, each.waited, each.cpu or 0.0)
            for each, _ in batch
        ]

    def keep(self, queue: str, batch: list[Ended], *, unanswered: bool) -> None:
        """Redis has refused these; or they are `unanswered`, and Redis may have stored them or not."""
        (self._kept if unanswered else self._ended).setdefault(queue, [])[:0] = batch

    def offer_kept(self) -> None:
        """Send the outcomes without an answer with the next round trip."""
        for queue, batch in self._kept.items():
            self._ended.setdefault(queue, [])[:0] = batch
        self._kept = {}

    def note_settled(self, queue: str, batch: list[Ended], flags: list[int]) -> None:
        """Redis has answered, as settle.lua has it."""
        if max(flags) >= EFFECTS:
            self._on_effects(queue)
            flags = [flag & ~EFFECTS for flag in flags]
        for (attempt, outcome), flag in zip(batch, flags, strict=True):
            if not flag:
                fields = {"job": attempt.name, "queue": queue}
                log.warning("an outcome came too late: the lease was lost", extra=fields)
                continue
            instead = _INSTEAD.get(flag)
            if instead == "failed" and outcome.kind not in _WITH_ERROR:
                # What was given back failed after that, or the reply is damaged: this outcome does not say why.
                instead = None
            kind = instead or outcome.kind
            self.counts["released" if kind in ("unknown", "refused") else kind] += 1
            if instead:
                self._on_ended(attempt, outcome._replace(kind=kind))


def attempts_of(batches: Iterable[list[Ended]]) -> Iterator[Attempt]:
    """The attempts that have ended so."""
    return (attempt for attempt, _ in chain.from_iterable(batches))


class Refusals:
    """Logs what Redis refuses: the same sentence once in _LOG_AGAIN seconds."""

    def __init__(self) -> None:
        #: sentence → when it was logged last, monotonic s
        self._logged: dict[str, float] = {}

    def log(self, sentence: str) -> None:
        """Redis refuses something."""
        now = time.monotonic()
        if now - self._logged.get(sentence, -_LOG_AGAIN) >= _LOG_AGAIN:
            self._logged[sentence] = now
            log.error("%s", sentence)

    def end(self) -> None:
        """A lane had an answer to everything that it asked, and no refusal."""
        if self._logged:
            self._logged.clear()
            log.info("Redis takes commands again")
