"""
Tick: have the jobs of due cron entries enqueued, exactly once among any number of daemons.

1. look     at the entries whose time has come: what Redis knows of each, and its clock
2. finish   ticks that were decided and are not confirmed, whoever decided on them
3. declare  an entry as this file has it, unless a newer generation of another living daemon has it otherwise
4. judge    which ticks are due, by cron.py, and whether the job of the last one has ended
5. decide   on all of them at once: Redis refuses a decision where the entry was changed since it was looked at
6. enqueue  the jobs in their queue, and confirm
7. wait     until the entry's next tick

What was decided is kept in Redis alone: a daemon that was killed, or had no Redis for an hour, goes on from there. Each
step may fail or be cut short; whoever looks next does what is left.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from fusiond.broker.ticks import DecidedTicks
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.schedule import cron, drift

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fusiond.broker.call import Call
    from fusiond.broker.records import CronDeclaration
    from fusiond.broker.redis.connection import AsyncConnection
    from fusiond.broker.ticks import CronState, Ticked
    from fusiond.broker.verbs import Verbs
    from fusiond.config.model import Config, CronEntry, Task

log = logging.getLogger(__name__)

#: ms; after so long each entry is looked at again, in case a clock was set
LOOK_AGAIN: Final = 30_000
#: ms; how long an entry that Redis complained of is left alone
LEAVE_ALONE: Final = 5_000
#: ms; how long this daemon leaves an entry to another daemon before it looks whether that one is still alive
GIVE_WAY: Final = 5_000
#: ms after the last enqueue from which on its job is asked how it ended: more than a round's, and less than the minute
#: for which the job is kept after its end
ASK_FOR_THE_END: Final = 20_000
#: ticks of one entry that are decided at once
AT_ONCE: Final = 100


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
    """An entry of this file, and when to look at it next."""

    entry: CronEntry
    task: Task
    #: see drift.py
    digest: str
    #: epoch ms by the clock of Redis
    look_at: float = 0
    #: Redis knows that this file has the entry
    declared: bool = False
    #: its last tick lies ahead, which was said
    ahead: bool = False
    #: generation and digest of the declaration that ticks in its place, which was said
    outranked_by: tuple[int, str] | None = None


class _OfAnEntry(Protocol):
    @property
    def watched(self) -> _Watched: ...


T = TypeVar("T", bound=_OfAnEntry)


class _Looked(NamedTuple):
    """An entry, and what Redis knows of it."""

    watched: _Watched
    state: CronState


class _Decision(NamedTuple):
    """What is to become of the ticks of an entry that are due."""

    watched: _Watched
    state: CronState
    #: the newest of them
    last: int
    #: in a word
    word: str
    #: those that are to have a job, oldest first
    ticks: tuple[int, ...] = ()
    #: the newest one that is given up as missed
    missed: int | None = None


class Ticker:
    """The cron entries of one daemon's configuration."""

    def __init__(self, broker: Verbs, connection: AsyncConnection, daemon: str) -> None:
        self._broker, self._connection, self._daemon = broker, connection, daemon
        self._clock = Clock()
        self._watched: dict[str, _Watched] = {}
        self._generation = 0

    def set_config(self, config: Config) -> None:
        """Watch the entries of `config` from now on."""
        self._watched = {
            name: _Watched(entry, config.tasks[entry.task], drift.digest(entry, config.tasks[entry.task]))
            for name, entry in config.cron.items()
            if _is_usable(entry)
        }

    def set_generation(self, generation: int) -> None:
        """The number of the configuration among those of all daemons; 0: Redis refused to give one."""
        self._generation = generation

    def look_at_all(self) -> None:
        """Ask about each entry at the next round: Redis was away, and may have come back with less."""
        for watched in self._watched.values():
            watched.look_at, watched.declared = 0, False

    def until_next(self) -> float:
        """Seconds to the next round, at most half a minute."""
        now = self._clock.now()
        wait = min((watched.look_at - now for watched in self._watched.values()), default=LOOK_AGAIN)
        return max(0.0, min(wait, LOOK_AGAIN)) / 1000

    async def run_once(self) -> None:
        """Take each entry whose time has come a step further. Raises BrokerUnavailable; the rest is still due then."""
        now = self._clock.now()
        due = [watched for watched in self._watched.values() if watched.look_at <= now]
        if not due:
            return
        looked = await self._look(due)
        unfinished = [each for each in looked if each.state.decided]
        undeclared = [each for each in looked if not each.state.decided and not _is_declared(each)]
        ready = [each for each in looked if not each.state.decided and _is_declared(each)]
        await self._finish(unfinished)
        await self._declare(undeclared)
        await self._decide(await self._judge(ready))
        await self._note_ends([each for each in ready if _may_have_ended(each)])

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
            if state.decided and state.entry not in self._watched:
                ticked = await self._connection.run(self._broker.tick(state.decided))
                await self._connection.run(self._broker.confirm(state, ticked))
            elif state.first_seen_ms is not None and state.entry not in declared and state.entry not in self._watched:
                unknown = {"first_seen": None, "timetable": None, "definition": None, "generation": None}
                await self._connection.run(self._broker.cron_write(state, **unknown))

    async def _look(self, due: Sequence[_Watched]) -> list[_Looked]:
        asked = _monotonic_ms()
        states = await self._run([self._broker.cron_state(each.entry.name) for each in due])
        answered = _monotonic_ms()
        looked = []
        for watched, state in zip(due, states, strict=True):
            if isinstance(state, BrokerError):
                self._leave_alone(watched, state)
            else:
                self._clock.sync(state.now_ms, asked, answered)
                looked.append(_Looked(watched, state))
        return looked

    async def _finish(self, unfinished: Sequence[_Looked]) -> None:
        """Have the jobs of decided ticks enqueued, and confirm it."""
        tickings = await self._ask(unfinished, lambda each: self._broker.tick(_decided(each.state)))
        ticked = {each.watched.entry.name: reply for each, reply in tickings}
        for each, reply in tickings:
            _tell_of_jobs(_decided(each.state), reply)
        # What is not confirmed by this is found undone, and confirmed, by the next look.
        await self._ask(
            [each for each, _ in tickings],
            lambda each: self._broker.confirm(each.state, ticked[each.watched.entry.name]),
        )

    async def _declare(self, undeclared: Sequence[_Looked]) -> None:
        """Have entries tick as this file says, unless another living daemon has a newer file that says otherwise."""
        declarations: list[CronDeclaration] = []
        if any(each.state.definition not in {"", each.watched.digest} for each in undeclared):
            declarations = await self._connection.run(self._broker.cron_declarations())
        mine = []
        for each in undeclared:
            rank = (self._generation, each.watched.digest)
            newer = drift.outranking(each.watched.entry.name, rank, self._daemon, declarations)
            if newer is None:
                mine.append(each)
            else:
                self._give_way(each, newer)
        for each, version in await self._ask(mine, self._declaration):
            each.watched.declared, each.watched.outranked_by = version is not None, None

    def _declaration(self, looked: _Looked) -> Call[str | None]:
        watched, state = looked
        timetable = drift.timetable(watched.entry)
        is_known = state.first_seen_ms is not None and state.timetable == timetable
        is_same = state.definition == watched.digest
        return self._broker.cron_write(
            state,
            definition=watched.digest,
            generation=max(self._generation, state.generation if is_same else 0),
            timetable=timetable,
            first_seen=state.first_seen_ms if is_known else state.now_ms,
        )

    def _give_way(self, looked: _Looked, newer: CronDeclaration) -> None:
        """Leave an entry to the daemon that declares it in a newer file, and say so once."""
        watched, rank = looked.watched, (newer.generation, newer.digest)
        watched.look_at, watched.declared = looked.state.now_ms + GIVE_WAY, False
        if watched.outranked_by != rank:
            watched.outranked_by = rank
            log.warning(
                "cron entry '%s' differs between living files: it ticks by published generation %d (%s), not by %d of"
                " this daemon",
                watched.entry.name,
                newer.generation,
                drift.in_words(newer),
                self._generation,
                extra={"cron": watched.entry.name, "daemon": newer.daemon},
            )

    async def _judge(self, ready: Sequence[_Looked]) -> list[_Decision]:
        """What to decide on now. Where nothing is due, it is set when to look again."""
        decisions = list(filter(None, map(_due, ready)))
        free = [each for each in decisions if not _may_overlap(each)]
        statuses = await self._ask(list(filter(_may_overlap, decisions)), self._last_job)
        for decision, status in statuses:
            if status is not None and not status.ended:
                free.append(decision._replace(ticks=(), word="overlap"))
            else:
                free.append(decision)
        return free

    async def _decide(self, decisions: Sequence[_Decision]) -> None:
        """Put decisions before Redis, and carry out those that it takes."""
        taken = []
        for decision, version in await self._ask(decisions, self._decision):
            if version is None:
                continue  # another daemon was first
            _tell(decision)
            if decision.ticks:
                state = replace(decision.state, version=version, decided=_ticks(decision))
                taken.append(_Looked(decision.watched, state))
        await self._finish(taken)

    def _decision(self, decision: _Decision) -> Call[str | None]:
        decided = _ticks(decision).to_text() if decision.ticks else None
        return self._broker.cron_write(decision.state, last=decision.last, decision=decision.word, decided=decided)

    async def _note_ends(self, looked: Sequence[_Looked]) -> None:
        """Keep how the last jobs ended, for `fusiond cron list`: the jobs themselves are dropped after their ttl."""
        for each, status in await self._ask(looked, self._last_job):
            if status is None or status.ended:
                end = "gone" if status is None else status.value
                await self._run([self._broker.cron_write(each.state, last_status=end)])

    def _last_job(self, of: _Looked | _Decision) -> Call[Any]:
        return self._broker.status(of.state.last_queue or "", of.state.last_job or "")

    async def _ask(self, items: Sequence[T], call: Callable[[T], Call[Any]]) -> list[tuple[T, Any]]:
        """One round trip; the items that were answered. An entry whose call was refused is left alone for a while."""
        answered = []
        for item, reply in zip(items, await self._run(list(map(call, items))), strict=True):
            if isinstance(reply, BrokerError):
                self._leave_alone(item.watched, reply)
            else:
                answered.append((item, reply))
        return answered

    async def _run(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """One round trip; raises BrokerUnavailable, also where Redis answered that it is not ready."""
        replies = await self._connection.run_many(calls) if calls else []
        for reply in replies:
            if isinstance(reply, BrokerUnavailable):
                raise reply
        return replies

    def _leave_alone(self, watched: _Watched, error: BrokerError) -> None:
        log.error("cron entry '%s' cannot tick: %s", watched.entry.name, error)
        watched.look_at = self._clock.now() + LEAVE_ALONE


def _decided(state: CronState) -> DecidedTicks:
    if state.decided is None:
        raise ValueError("nothing is decided")
    return state.decided


def _is_declared(looked: _Looked) -> bool:
    watched, state = looked
    return watched.declared and state.definition == watched.digest and state.first_seen_ms is not None


def _due(looked: _Looked) -> _Decision | None:
    """What is due of an entry; None: nothing is, and it is set when to look again."""
    watched, state = looked
    entry, now = watched.entry, state.now_ms
    _watch_for_a_clock_set_back(watched, state)
    due = cron.due(entry, state.last_tick_ms, state.first_seen_ms or now, now, limit=AT_ONCE)
    last = due.run[-1] if due.run else due.missed
    if last is None:
        following = cron.next_tick(entry, now)
        watched.look_at = now + LOOK_AGAIN if following is None else min(following, now + LOOK_AGAIN)
        return None
    if entry.suspended or state.suspended:
        return _Decision(watched, state, last, "suspended")
    ticks = due.run[:1] if entry.overlap == "skip" else due.run
    return _Decision(watched, state, last, "decided" if ticks else "missed", ticks, due.missed)


def _may_overlap(decision: _Decision) -> bool:
    return bool(decision.ticks and decision.watched.entry.overlap == "skip" and decision.state.last_job)


def _may_have_ended(looked: _Looked) -> bool:
    state = looked.state
    return (
        bool(state.last_job)
        and not state.last_status
        and state.now_ms > (state.last_enqueued_ms or 0) + ASK_FOR_THE_END
    )


def _ticks(decision: _Decision) -> DecidedTicks:
    entry, task = decision.watched.entry, decision.watched.task
    return DecidedTicks(
        entry=entry.name,
        queue=task.queue,
        task=task.name,
        args=json.dumps([entry.args, dict(entry.kwargs)], ensure_ascii=False, separators=(",", ":")).encode(),
        priority=task.priority,
        expires_ms=None if task.expires is None else round(task.expires * 1000),
        patience_ms=cron.patience(entry),
        ticks=decision.ticks,
        delays_ms=tuple(cron.jitter(entry, tick) for tick in decision.ticks),
    )


def _tell(decision: _Decision) -> None:
    """Log a decision that this daemon took, as far as it gives no jobs."""
    fields = _fields(decision.watched.entry.name, decision.watched.entry.task, decision.last)
    if decision.word == "suspended":
        log.debug("suspended", extra=fields)
    if decision.word == "overlap":
        log.warning("passed over: the job of the last tick has not ended", extra=fields)
    if decision.missed is not None:
        missed = _fields(decision.watched.entry.name, decision.watched.entry.task, decision.missed)
        log.warning("missed, and given up: this tick and those before it", extra=missed)


def _tell_of_jobs(decided: DecidedTicks, ticked: Ticked) -> None:
    """Log what this daemon enqueued, or could not; what another daemon did before is its own to tell."""
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


def _watch_for_a_clock_set_back(watched: _Watched, state: CronState) -> None:
    """Say, once, that an entry stands still because Redis has decided on ticks that are yet to come."""
    ahead = max(state.last_tick_ms or 0, state.first_seen_ms or 0) - state.now_ms
    if ahead > LOOK_AGAIN and not watched.ahead:
        log.error(
            "cron entry '%s' does not tick for %d s: the clock of Redis was set back by so much",
            watched.entry.name,
            ahead // 1000,
        )
    watched.ahead = ahead > LOOK_AGAIN


def _is_usable(entry: CronEntry) -> bool:
    """Whether this host can reckon with the entry: the file was checked, but maybe with other time zones at hand."""
    try:
        cron.next_tick(entry, 0)
    except (ValueError, KeyError, OSError) as error:
        log.error("cron entry '%s' does not tick on this host: %s", entry.name, error)  # noqa: TRY400 - one sentence
        return False
    return True


def _monotonic_ms() -> float:
    return time.monotonic_ns() / 1e6
