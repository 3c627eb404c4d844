"""
Have the jobs of due cron entries enqueued, exactly once among any number of daemons.

1. look     at the entries whose time has come: what Redis knows of each, and its clock
2. finish   ticks that were decided and are not confirmed, whichever daemon decided on them
3. declare  an entry as this file has it, unless a newer generation of another living daemon has it otherwise
4. judge    which ticks are due (decision.py), and whether the job of the last one has ended
5. decide   on all of them at once: Redis refuses a decision where the entry was changed since it was looked at
6. enqueue  the jobs in their queue, and confirm
7. wait     until the entry's next tick

Redis alone keeps what was decided. Each step may fail or be cut short: the next look, of this daemon or another one,
does what is left, even if no Redis was there for an hour.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.schedule import cron, drift
from fusiond.schedule.decision import Decision, decide, decided_ticks, may_have_ended, may_overlap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fusiond.broker.call import Call
    from fusiond.broker.records import CronDeclaration
    from fusiond.broker.redis.connection import AsyncConnection
    from fusiond.broker.ticks import CronState, DecidedTicks, Ticked
    from fusiond.broker.verbs import Verbs
    from fusiond.config.model import Config, CronEntry, Task

log = logging.getLogger(__name__)

#: ms; after so long each entry is looked at again, in case a clock was set
LOOK_AGAIN: Final = 30_000
#: ms; how long an entry is left alone after Redis has refused something about it
LEAVE_ALONE: Final = 5_000
#: ms; how long this daemon leaves an entry to another daemon before it looks whether that one is still alive
GIVE_WAY: Final = 5_000


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


@dataclass(slots=True, eq=False)
class _Watched:
    """An entry of this file."""

    entry: CronEntry
    task: Task
    #: see drift.py
    digest: str
    #: epoch ms by the clock of Redis
    look_at: float = 0
    #: what Redis knew of it at the last look
    state: CronState = field(init=False)
    #: on the ticks that were due at the last look
    decision: Decision = field(init=False)
    #: Redis knows that this file has the entry
    declared: bool = False
    #: its last tick lies ahead, which was said
    ahead: bool = False
    #: generation and digest of the declaration that ticks in its place, which was said
    outranked_by: tuple[int, str] | None = None

    @property
    def is_declared(self) -> bool:
        """Whether Redis still knows the entry as this file has it."""
        return self.declared and self.state.definition == self.digest and self.state.first_seen_ms is not None


class Ticker:
    """The cron entries of one daemon's configuration."""

    def __init__(self, broker: Verbs, connection: AsyncConnection, daemon: str) -> None:
        self._broker, self._connection, self._daemon = broker, connection, daemon
        self._clock = Clock()
        self._watched: dict[str, _Watched] = {}
        #: number of the configuration among those of all daemons; 0: Redis refused to give one
        self.generation = 0

    def set_config(self, config: Config) -> None:
        """Watch the entries of `config` from now on."""
        self._watched = {
            name: _Watched(entry, config.tasks[entry.task], drift.digest(entry, config.tasks[entry.task]))
            for name, entry in config.cron.items()
            if _is_usable(entry)
        }

    def look_at_all(self) -> None:
        """Ask about each entry at the next round: Redis was away, and may have come back with less."""
        for each in self._watched.values():
            each.look_at, each.declared = 0, False

    def until_next(self) -> float:
        """Seconds to the next round, at most half a minute."""
        now = self._clock.now()
        wait = min((each.look_at - now for each in self._watched.values()), default=LOOK_AGAIN)
        return max(0.0, min(wait, LOOK_AGAIN)) / 1000

    async def run_once(self) -> None:
        """Take each entry whose time has come a step further. Raises BrokerUnavailable; the rest is still due then."""
        now = self._clock.now()
        looked = await self._look([each for each in self._watched.values() if each.look_at <= now])
        unfinished = [each for each in looked if each.state.decided]
        settled = [each for each in looked if not each.state.decided]
        ready = [each for each in settled if each.is_declared]
        await self._finish(unfinished)
        await self._declare([each for each in settled if not each.is_declared])
        await self._decide(await self._judge(ready))
        await self._note_ends([each for each in ready if may_have_ended(each.state)])

    async def tidy(self) -> None:
        """
        Look after the entries that are not in this file. Raises BrokerError.

        1. finish ticks that were decided and are not confirmed: maybe no file has their entry any more
        2. forget since when an entry that no file has is known: one that is added again begins anew
        """
        # The states come before the declarations. A daemon publishes an entry and then writes its state: either the
        # entry is seen here, or its state is changed after it was read, and the write is refused.
        states = await self._connection.run(self._broker.cron_states())
        declared = {each.entry for each in await self._connection.run(self._broker.cron_declarations())}
        for state in states.values():
            if state.entry in self._watched:
                continue
            if state.decided:
                ticked = await self._connection.run(self._broker.tick(state.decided))
                await self._connection.run(self._broker.confirm(state, ticked))
            elif state.first_seen_ms is not None and state.entry not in declared:
                unknown = {"first_seen": None, "timetable": None, "definition": None, "generation": None}
                await self._connection.run(self._broker.cron_write(state, **unknown))

    async def _look(self, due: Sequence[_Watched]) -> list[_Watched]:
        asked = _monotonic_ms()
        replies = await self._ask(due, [self._broker.cron_state(each.entry.name) for each in due])
        answered = _monotonic_ms()
        for each, state in replies:
            each.state = state
            self._clock.sync(state.now_ms, asked, answered)
        return [each for each, _ in replies]

    async def _finish(self, unfinished: Sequence[_Watched]) -> None:
        """Have the jobs of decided ticks enqueued, and confirm it."""
        ticked = await self._ask(unfinished, [self._broker.tick(_decided(each)) for each in unfinished])
        for each, reply in ticked:
            _tell_of_jobs(_decided(each), reply)
        # What is not confirmed by this is found undone, and confirmed, by the next look.
        confirms = [self._broker.confirm(each.state, reply) for each, reply in ticked]
        await self._ask([each for each, _ in ticked], confirms)

    async def _declare(self, undeclared: Sequence[_Watched]) -> None:
        """Have entries tick as this file says, unless another living daemon has a newer file that says otherwise."""
        declarations: list[CronDeclaration] = []
        if any(each.state.definition not in {"", each.digest} for each in undeclared):
            declarations = await self._connection.run(self._broker.cron_declarations())
        mine = [each for each in undeclared if not self._gives_way(each, declarations)]
        for each, version in await self._ask(mine, map(self._declaration, mine)):
            each.declared, each.outranked_by = version is not None, None

    def _declaration(self, watched: _Watched) -> Call[str | None]:
        state, timetable = watched.state, drift.timetable(watched.entry)
        is_known = state.first_seen_ms is not None and state.timetable == timetable
        is_same = state.definition == watched.digest
        return self._broker.cron_write(
            state,
            definition=watched.digest,
            generation=max(self.generation, state.generation if is_same else 0),
            timetable=timetable,
            first_seen=state.first_seen_ms if is_known else state.now_ms,
        )

    def _gives_way(self, watched: _Watched, declarations: Iterable[CronDeclaration]) -> bool:
        """Whether the entry is left to a daemon with a newer file that has it otherwise; that is logged once."""
        entry = watched.entry.name
        newer = drift.outranking(entry, (self.generation, watched.digest), self._daemon, declarations)
        if newer is None:
            return False
        watched.look_at, watched.declared = watched.state.now_ms + GIVE_WAY, False
        if watched.outranked_by != (newer.generation, newer.digest):
            watched.outranked_by = newer.generation, newer.digest
            log.warning(
                "cron entry '%s' differs between living files: it ticks by published generation %d (%s), not by %d of"
                " this daemon",
                entry,
                newer.generation,
                drift.in_words(newer),
                self.generation,
                extra={"cron": entry, "daemon": newer.daemon},
            )
        return True

    async def _judge(self, ready: Sequence[_Watched]) -> list[_Watched]:
        """The entries of which something is due, with their decision. For the others it is set when to look again."""
        judged = [each for each in ready if _is_due(each)]
        after = [each for each in judged if may_overlap(each.entry, each.state, each.decision)]
        free = [each for each in judged if each not in after]
        for each, status in await self._ask(after, map(self._last_job, after)):
            if status is not None and not status.ended:
                each.decision = each.decision._replace(ticks=(), word="overlap")
            free.append(each)
        return free

    async def _decide(self, judged: Sequence[_Watched]) -> None:
        """Put decisions before Redis, and carry out those that it takes."""
        taken = []
        for each, version in await self._ask(judged, map(self._write_decision, judged)):
            if version is None:
                continue  # another daemon was first
            _tell(each)
            if each.decision.ticks:
                ticks = decided_ticks(each.entry, each.task, each.decision.ticks)
                each.state = replace(each.state, version=version, decided=ticks)
                taken.append(each)
        await self._finish(taken)

    def _write_decision(self, watched: _Watched) -> Call[str | None]:
        last, word, ticks, _ = watched.decision
        decided = decided_ticks(watched.entry, watched.task, ticks).to_text() if ticks else None
        return self._broker.cron_write(watched.state, last=last, decision=word, decided=decided)

    async def _note_ends(self, watched: Sequence[_Watched]) -> None:
        """Keep how the last jobs ended, for `fusiond cron list`: the jobs themselves are dropped after their ttl."""
        for each, status in await self._ask(watched, map(self._last_job, watched)):
            if status is None or status.ended:
                end = "gone" if status is None else status.value
                await self._connection.run_many([self._broker.cron_write(each.state, last_status=end)])

    def _last_job(self, watched: _Watched) -> Call[Any]:
        return self._broker.status(watched.state.last_queue or "", watched.state.last_job or "")

    async def _ask(self, watched: Sequence[_Watched], calls: Iterable[Call[Any]]) -> list[tuple[_Watched, Any]]:
        """
        One round trip with a call for each entry. Raises BrokerUnavailable, also where Redis says that it is not ready.

        Returns:
            the entries that were answered, each with its reply. The others are left alone for a while.
        """
        answered = []
        replies = await self._connection.run_many(list(calls)) if watched else []
        for each, reply in zip(watched, replies, strict=True):
            if isinstance(reply, BrokerUnavailable):
                raise reply
            if isinstance(reply, BrokerError):
                log.error("cron entry '%s' cannot tick: %s", each.entry.name, reply)
                each.look_at = self._clock.now() + LEAVE_ALONE
            else:
                answered.append((each, reply))
        return answered


def _decided(watched: _Watched) -> DecidedTicks:
    assert watched.state.decided  # noqa: S101 - only entries with decided ticks are asked for them
    return watched.state.decided


def _is_due(watched: _Watched) -> bool:
    """Whether ticks are due, on which the entry then has a decision; otherwise it has the time of the next look."""
    entry, state = watched.entry, watched.state
    _note_clock_set_back(watched)
    decision = decide(entry, state)
    if decision is None:
        following, latest = cron.next_tick(entry, state.now_ms), state.now_ms + LOOK_AGAIN
        watched.look_at = latest if following is None else min(following, latest)
        return False
    watched.decision = decision
    return True


def _tell(watched: _Watched) -> None:
    """Log a decision that this daemon took, as far as it gives no jobs."""
    entry, decision = watched.entry, watched.decision
    fields = _fields(entry.name, entry.task, decision.last)
    if decision.word == "suspended":
        log.debug("suspended", extra=fields)
    if decision.word == "overlap":
        log.warning("passed over: the job of the last tick has not ended", extra=fields)
    if decision.missed is not None:
        missed = _fields(entry.name, entry.task, decision.missed)
        log.warning("missed, and given up: this tick and those before it", extra=missed)


def _tell_of_jobs(decided: DecidedTicks, ticked: Ticked) -> None:
    """Log what this daemon enqueued, or could not; a daemon that did so before has logged it itself."""
    for tick, outcome in zip(decided.ticks, ticked.outcomes, strict=True):
        fields = _fields(decided.entry, decided.task, tick)
        if outcome == "0":
            log.info("enqueued", extra={**fields, "job": f"cron:{decided.entry}:{tick}"})
        elif outcome == "2":
            log.warning("missed, and given up: it was decided on, and could not be enqueued in time", extra=fields)
        elif outcome == "3":
            log.warning("passed over: queue '%s' is full", decided.queue, extra=fields)


def _fields(entry: str, task: str, tick: int) -> dict[str, object]:
    return {"cron": entry, "task": task, "tick": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(tick / 1000))}


def _note_clock_set_back(watched: _Watched) -> None:
    """Log once that an entry does not tick because Redis has decided on ticks that are yet to come."""
    state = watched.state
    ahead = max(state.last_tick_ms or 0, state.first_seen_ms or 0) - state.now_ms
    if ahead > LOOK_AGAIN and not watched.ahead:
        log.error(
            "cron entry '%s' does not tick for %d s: the clock of Redis was set back by so much",
            watched.entry.name,
            ahead // 1000,
        )
    watched.ahead = ahead > LOOK_AGAIN


def _is_usable(entry: CronEntry) -> bool:
    """Whether this host can compute the entry's ticks: the file was checked, but maybe with other time zones."""
    try:
        cron.next_tick(entry, 0)
    except (ValueError, KeyError, OSError) as error:
        log.error("cron entry '%s' does not tick on this host: %s", entry.name, error)  # noqa: TRY400 - one sentence
        return False
    return True


def _monotonic_ms() -> float:
    return time.monotonic_ns() / 1e6
