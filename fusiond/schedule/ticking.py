"""
Tick: have the jobs of due cron entries enqueued, exactly once among any number of daemons.

1. look    at the entries whose time has come: what Redis knows of each, and its clock
2. judge   which ticks are due, by cron.py
3. decide  each with one `tick`, oldest first: Redis gives the decision to one daemon, whoever comes first
4. note    when to look at the entry again

What was decided is kept in Redis alone: a daemon that was killed, or had no Redis for an hour, goes on from there.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fusiond.broker.records import NewJob
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.schedule import cron

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusiond.broker.broker import Broker
    from fusiond.broker.call import Call
    from fusiond.broker.connection import AsyncConnection
    from fusiond.broker.records import CronState
    from fusiond.config.model import Config, CronEntry, Task

log = logging.getLogger(__name__)

#: ms; after so long each entry is looked at again, in case a clock was set
LOOK_AGAIN = 30_000
#: ms; how long an entry that Redis complained of is left alone
LEAVE_ALONE = 5_000
#: ticks of one entry that are decided in one round, and questions in one round trip
AT_ONCE = 100


class Clock:
    """The clock of Redis, as far as it can be known between two round trips. It follows no clock of this host."""

    def __init__(self) -> None:
        self._ahead = time.time() * 1000 - _monotonic_ms()

    def now(self) -> float:
        """Epoch ms."""
        return _monotonic_ms() + self._ahead

    def sync(self, redis_ms: int, asked: float, answered: float) -> None:
        """Set it by an answer; `asked` and `answered` are monotonic ms."""
        self._ahead = redis_ms - (asked + answered) / 2


@dataclass(slots=True)
class _Watched:
    """An entry, and when to look at it next."""

    entry: CronEntry
    task: Task
    #: epoch ms by the clock of Redis
    look_at: float = 0
    #: it is new, or has another timetable: ticks from before are none of it
    changed: bool = False
    #: its last tick lies ahead, which was said
    ahead: bool = False


class _Question(NamedTuple):
    """A tick that Redis is to decide on."""

    watched: _Watched
    #: epoch ms
    tick: int
    #: False: it was missed, and everything before it
    run: bool


class Ticker:
    """The cron entries of one configuration."""

    def __init__(self, broker: Broker, connection: AsyncConnection) -> None:
        self._broker, self._connection = broker, connection
        self._clock = Clock()
        self._watched: dict[str, _Watched] = {}

    def set_config(self, config: Config, before: Config | None = None) -> None:
        """
        Watch the entries of `config`.

        Args:
            config: the configuration from now on.
            before: the one that it replaces while we run; an entry that it does not have, or has with another
                timetable, begins now: no tick is missed that nobody had announced. So does one whose change of an
                earlier call has not reached Redis yet.
        """
        waiting = {name for name, watched in self._watched.items() if watched.changed}
        self._watched = {
            name: _Watched(entry, config.tasks[entry.task], changed=name in waiting or _is_new(entry, before))
            for name, entry in config.cron.items()
            if _is_usable(entry)
        }

    def look_at_all(self) -> None:
        """Ask about each entry at the next round: Redis was away, and may have come back with less."""
        for watched in self._watched.values():
            watched.look_at = 0

    def until_next(self) -> float:
        """Seconds to the next round, at most half a minute."""
        now = self._clock.now()
        wait = min((watched.look_at - now for watched in self._watched.values()), default=LOOK_AGAIN)
        return max(0.0, min(wait, LOOK_AGAIN)) / 1000

    async def run_once(self) -> None:
        """Decide on all ticks that are due. Raises BrokerUnavailable; all that was not decided is still due then."""
        now = self._clock.now()
        due = [watched for watched in self._watched.values() if watched.look_at <= now]
        if not due:
            return
        asked = _monotonic_ms()
        asks = [self._broker.cron_state(each.task.queue, each.entry.name, ticks=True) for each in due]
        states = await self._run(asks)
        answered = _monotonic_ms()
        questions: list[_Question] = []
        for watched, state in zip(due, states, strict=True):
            if isinstance(state, BrokerError):
                _leave_alone(watched, now, state)
            else:
                self._clock.sync(state.now_ms, asked, answered)
                questions += self._judge(watched, state)
        for first in range(0, len(questions), AT_ONCE):
            await self._decide(questions[first : first + AT_ONCE])

    def _judge(self, watched: _Watched, state: CronState) -> list[_Question]:
        """What to ask about an entry now, oldest tick first, and when to look at it again."""
        entry, now = watched.entry, state.now_ms
        _watch_for_a_clock_set_back(watched, state)
        if watched.changed:
            due = cron.Due(missed=now)
        else:
            due = cron.due(entry, state.last_tick_ms, state.first_seen_ms, now, limit=AT_ONCE)
        following = now if len(due.run) == AT_ONCE else cron.next_tick(entry, now)
        watched.look_at = now + LOOK_AGAIN if following is None else min(following, now + LOOK_AGAIN)
        gone = [] if due.missed is None else [_Question(watched, due.missed, run=False)]
        return gone + [_Question(watched, tick, run=True) for tick in due.run]

    async def _decide(self, questions: Sequence[_Question]) -> None:
        """Put ticks before Redis."""
        replies = await self._run([self._tick(question) for question in questions])
        for question, reply in zip(questions, replies, strict=True):
            if isinstance(reply, BrokerError):
                _leave_alone(question.watched, self._clock.now(), reply)
            else:
                _tell(question, reply)
                question.watched.changed = False

    def _tick(self, question: _Question) -> Call[Any]:
        entry, task = question.watched.entry, question.watched.task
        job = _job(entry, task, question.tick) if question.run and not entry.suspended else None
        return self._broker.tick(task.queue, entry.name, question.tick, job, entry.overlap)

    async def _run(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """One round trip; raises BrokerUnavailable, also where Redis answered that it is not ready."""
        replies = await self._connection.run_many(calls)
        for reply in replies:
            if isinstance(reply, BrokerUnavailable):
                raise reply
        return replies


def _job(entry: CronEntry, task: Task, tick: int) -> NewJob:
    return NewJob(
        cron.tick_id(entry, tick),
        task.name,
        json.dumps([entry.args, dict(entry.kwargs)], ensure_ascii=False, separators=(",", ":")).encode(),
        task.priority,
        delay_ms=cron.jitter(entry, tick) or None,
        expires_ms=None if task.expires is None else round(task.expires * 1000),
    )


def _tell(question: _Question, reply: str) -> None:
    """Log a decision that this daemon took; `taken` was another's."""
    entry, tick = question.watched.entry, question.tick
    fields = {"cron": entry.name, "task": entry.task, "tick": _text(tick)}
    if reply == "enqueued":
        log.info("enqueued", extra={**fields, "job": cron.tick_id(entry, tick)})
    elif reply != "skipped" or entry.suspended or question.watched.changed:
        log.debug("%s", reply, extra=fields)
    elif question.run:
        log.warning("passed over: the job of the last tick has not ended, or the queue is full", extra=fields)
    else:
        log.warning("missed, and given up: this tick and those before it", extra=fields)


def _watch_for_a_clock_set_back(watched: _Watched, state: CronState) -> None:
    """Say, once, that an entry stands still because Redis has decided on ticks that are yet to come."""
    ahead = max(state.last_tick_ms or 0, state.first_seen_ms) - state.now_ms
    if ahead > LOOK_AGAIN and not watched.ahead:
        log.error(
            "cron entry '%s' does not tick for %d s: the clock of Redis was set back by so much",
            watched.entry.name,
            ahead // 1000,
        )
    watched.ahead = ahead > LOOK_AGAIN


def _leave_alone(watched: _Watched, now: float, error: BrokerError) -> None:
    log.error("cron entry '%s' cannot tick: %s", watched.entry.name, error)
    watched.look_at = now + LEAVE_ALONE


def _is_new(entry: CronEntry, before: Config | None) -> bool:
    if before is None:
        return False
    old = before.cron.get(entry.name)
    return old is None or (old.schedule, old.every, old.timezone) != (entry.schedule, entry.every, entry.timezone)


def _is_usable(entry: CronEntry) -> bool:
    """Whether this host can reckon with the entry: the file was checked, but maybe with other time zones at hand."""
    try:
        cron.next_tick(entry, 0)
    except (ValueError, KeyError, OSError) as error:
        log.error("cron entry '%s' does not tick on this host: %s", entry.name, error)  # noqa: TRY400 - one sentence
        return False
    return True


def _text(tick: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(tick / 1000))


def _monotonic_ms() -> float:
    return time.monotonic_ns() / 1e6
