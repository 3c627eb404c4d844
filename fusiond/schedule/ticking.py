"""
Have the jobs of due cron entries enqueued, exactly once among any number of daemons.

1. look     at the entries whose time has come: what Redis knows of each, and its clock
2. finish   ticks that were decided and are not confirmed, whichever daemon decided on them
3. declare  an entry as this file has it, unless another living daemon's newer generation declares it differently
4. judge    which ticks are due (decision.py), and whether the job of the last one has ended; with `overlap: replace` it
            is canceled, and the ticks stay due until it has ended; with `wait` it is noted in Redis which tick waits
5. decide   on all of them at once: Redis refuses a decision if the entry has changed since it was read
6. enqueue  the jobs in their queue, and confirm
7. wait     until the entry's next tick

Only Redis keeps what was decided. Each step may fail or be interrupted: the next look, by this daemon or another one,
does the rest, even if Redis was away for an hour.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from fusiond.broker.call import Call
from fusiond.broker.hosts.host_records import CronDeclaration
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.ticks import DecidedTicks
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config
from fusiond.errors import BrokerError, BrokerUnavailable, JobNotFound
from fusiond.flows.run_control import RunControl, RunRef, deliver_effects
from fusiond.schedule import drift, tick_log
from fusiond.schedule.decision import decided_ticks, may_have_ended, may_overlap, put_off
from fusiond.schedule.overdue import OverdueLog
from fusiond.schedule.publishing import refusals_logged
from fusiond.schedule.tick_log import Note, nobody
from fusiond.schedule.watched_entries import LOOK_AGAIN, WatchedEntry, is_due, is_usable, monotonic_ms, watched_entry

log = logging.getLogger(__name__)

#: ms until an entry is tried again after Redis has refused something about it
TRY_AGAIN: Final = 5_000
#: ms after which it is looked again whether a job that was canceled for the next tick has ended
ENDED_YET: Final = 250
#: ms after which it is looked again whether a job has ended for which the next tick waits
STILL_WAITS: Final = 1_000
#: ms after which this daemon looks again whether the daemon to which it leaves an entry is alive
GIVE_WAY: Final = 5_000


class Ticker:
    """The cron entries of one daemon's configuration."""

    def __init__(
        self,
        broker: Verbs,
        connection: AsyncConnection,
        daemon: str,
        note: Note = nobody,
        clock: Callable[[], float] = monotonic_ms,
    ) -> None:
        """`note`: is told of events; `clock`: ms, from any moment."""
        self._broker, self._connection, self._daemon = broker, connection, daemon
        self._runs = RunControl(broker)
        self._clock = clock
        self._watched: dict[str, WatchedEntry] = {}
        self._config, self._year = Config(), 0
        self._overdue, self._note = OverdueLog(note), note
        #: number of the configuration among those of all daemons; 0: Redis refused to give one
        self.generation = 0

    def set_config(self, config: Config) -> None:
        """Watch the entries of `config` from now on."""
        self._watched = {name: watched_entry(entry, config) for name, entry in config.cron.items() if is_usable(entry)}
        self._config, self._year = config, time.gmtime().tm_year

    def look_at_all(self) -> None:
        """Ask about each entry at the next round: Redis was away, and may have lost data."""
        for each in self._watched.values():
            each.look_at, each.declared = 0, False

    def until_next(self) -> float:
        """Seconds to the next round, at most half a minute."""
        now = self._clock()
        wait = min((each.look_at - now for each in self._watched.values()), default=LOOK_AGAIN)
        return max(0.0, min(wait, LOOK_AGAIN)) / 1000

    async def run_once(self) -> None:
        """Take each entry whose time has come a step further. Raises BrokerUnavailable; what is left stays due."""
        if time.gmtime().tm_year != self._year:
            self.set_config(self._config)  # the digests have the days of calendars from this year on
        now = self._clock()
        looked = await self._look([each for each in self._watched.values() if each.look_at <= now])
        unfinished = [each for each in looked if each.state.decided]
        settled = [each for each in looked if not each.state.decided]
        ready = [each for each in settled if each.is_declared]
        await self._finish(unfinished)
        await self._declare([each for each in settled if not each.is_declared])
        await self._decide(await self._judge(ready))
        await self._note_ends([each for each in ready if may_have_ended(each.state)])
        await self._warn_of_overdue([each for each in ready if each.entry.alert_if_no_success])

    async def tidy(self) -> None:
        """
        Tidy up the entries that are not in this file. Raises BrokerError.

        1. finish ticks that were decided and are not confirmed: maybe no file has their entry any more
        2. forget when an entry that no file has was first seen: if it is added again, it starts over
        """
        # The states come before the declarations. A daemon publishes an entry and then writes its state: either the
        # entry is seen here, or its state is changed after it was read, and the write is refused.
        states = await self._connection.run(self._broker.cron_states())
        declared = {each.entry for each in await self._connection.run(self._broker.cron_declarations())}
        former = {name for each in self._watched.values() for name in each.entry.aliases}
        for state in states.values():
            if state.entry in self._watched or state.entry in former:
                continue
            if state.decided:
                ticked = await self._connection.run(self._broker.tick(state.decided))
                await self._connection.run(self._broker.confirm(state, ticked))
            elif state.first_seen is not None and state.entry not in declared:
                names = ("first_seen", "timetable", "definition", "generation", "counted", "counted_since", "waiting")
                unknown = dict.fromkeys(names)
                await self._connection.run(self._broker.cron_write(state, **unknown))

    async def _look(self, due: Sequence[WatchedEntry]) -> list[WatchedEntry]:
        asked = self._clock()
        replies = await self._ask(due, [self._broker.cron_state(each.entry.name) for each in due])
        looked_at = (asked + self._clock()) / 2
        for each, state in replies:
            each.state, each.looked_at = state, looked_at
        return [each for each, _ in replies]

    async def _finish(self, unfinished: Sequence[WatchedEntry]) -> None:
        """Have the jobs of decided ticks enqueued, and confirm it."""
        ticked = await self._ask(unfinished, [self._broker.tick(_decided(each)) for each in unfinished])
        for each, reply in ticked:
            tick_log.enqueued(_decided(each), reply)
        # If a confirmation fails, the next look finds the ticks unconfirmed and confirms them.
        confirms = [self._broker.confirm(each.state, reply) for each, reply in ticked]
        await self._ask([each for each, _ in ticked], confirms)
        for queue in {_decided(each).queue for each, _ in ticked if _decided(each).run}:
            # What is refused there is looked after later, and must not keep other entries from their ticks.
            with refusals_logged(f"queue '{queue}': a run of a flow was not begun at once"):
                await self._connection.run(deliver_effects(self._broker, queue, advance=True))

    async def _declare(self, undeclared: Sequence[WatchedEntry]) -> None:
        """Have entries tick as this file says, unless another living daemon has a newer file that says otherwise."""
        declarations: list[CronDeclaration] = []
        if any(each.state.definition not in {"", each.digest} for each in undeclared):
            declarations = await self._connection.run(self._broker.cron_declarations())
        mine = [each for each in undeclared if not self._gives_way(each, declarations) and await self._takes_over(each)]
        for each, version in await self._ask(mine, map(self._declaration, mine)):
            each.declared, each.outranked_by = version is not None, None

    async def _takes_over(self, watched: WatchedEntry) -> bool:
        """
        Take over what is known of the entry under its former names, so that no tick is repeated or missed.

        Returns:
            false: not yet. Another living daemon ticks it under that name, or a tick of it waits for its job.
        """
        aliases, broker, run = watched.entry.aliases, self._broker, self._connection.run
        if not aliases or watched.state.first_seen is not None:
            return True
        states = await run(broker.cron_states())
        known = [states[name] for name in aliases if name in states and states[name].first_seen is not None]
        if not known:
            return True
        watched.look_at = self._clock() + GIVE_WAY
        declarations = await run(broker.cron_declarations())
        if any(each.entry in aliases and each.living and each.daemon != self._daemon for each in declarations):
            return False
        former = max(known, key=lambda state: state.last or 0)
        if former.decided:
            await run(broker.confirm(former, await run(broker.tick(former.decided))))
            watched.look_at = 0
            return False
        state = await run(broker.take_over_cron(watched.state, former))
        if state is None:
            return False
        log.info("takes over the ticks of '%s'", former.entry, extra={"cron": watched.entry.name})
        watched.state, watched.look_at = state, 0
        return True

    def _declaration(self, watched: WatchedEntry) -> Call[str | None]:
        state, timetable = watched.state, drift.timetable(watched.entry)
        is_known = state.first_seen is not None and state.timetable == timetable
        is_same = state.definition == watched.digest
        counted = "" if watched.entry.suspended else watched.task.queue
        return self._broker.cron_write(
            state,
            definition=watched.digest,
            generation=max(self.generation, state.generation if is_same else 0),
            timetable=timetable,
            first_seen=state.first_seen if is_known else state.now,
            counted=counted,
            counted_since=state.counted_since if state.counted == counted else state.now,
            **({} if is_known or state.waiting is None else {"waiting": None}),
        )

    def _gives_way(self, watched: WatchedEntry, declarations: Iterable[CronDeclaration]) -> bool:
        """Whether a daemon with a newer file declares the entry differently and ticks it; that is logged once."""
        entry = watched.entry.name
        newer = drift.outranking(entry, (self.generation, watched.digest), self._daemon, declarations)
        if newer is None:
            return False
        watched.look_at, watched.declared = self._clock() + GIVE_WAY, False
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

    async def _judge(self, ready: Sequence[WatchedEntry]) -> list[WatchedEntry]:
        """The entries with due ticks, each with its decision. The others get the time of their next look."""
        judged = [each for each in ready if is_due(each)]
        after = [each for each in judged if may_overlap(each.entry, each.state, each.decision)]
        free = [each for each in judged if each not in after]
        unended = []
        for each, status in await self._ask(after, map(self._last_job, after)):
            if status is None or status.ended:
                each.replacing = False
                free.append(each)
            elif each.entry.overlap == "replace":
                unended.append(each)
            elif (decision := put_off(each.entry, each.state, each.decision)) is not None:
                each.decision = decision
                free.append(each)
            else:
                each.look_at = self._clock() + STILL_WAITS
        return [*free, *await self._replace(unended)]

    async def _replace(self, unended: Sequence[WatchedEntry]) -> list[WatchedEntry]:
        """Cancel the last jobs of entries. Returns the entries whose job has ended; the others are looked at again."""
        ended, jobs = [], [each for each in unended if not each.state.last_is_run]
        replies = await self._ask(jobs, map(self._cancel_last_job, jobs))
        replies += [(each, await self._cancel_last_run(each)) for each in unended if each.state.last_is_run]
        for each, reply in replies:
            if reply == "refused":
                continue
            if reply == "asked":
                each.look_at = self._clock() + ENDED_YET
            else:
                ended.append(each)
            if not each.replacing:
                tick_log.replaces(each.entry, each.decision)
            each.replacing = reply == "asked"
        return ended

    async def _cancel_last_run(self, watched: WatchedEntry) -> str:
        """`asked`: it goes on · `ended` · `refused`, which is logged. Raises BrokerUnavailable."""
        run = RunRef(watched.state.last_queue or "", watched.state.last_job or "")
        try:
            return "asked" if await self._connection.run(self._runs.cancel(run)) else "ended"
        except JobNotFound:
            return "ended"  # it was dropped a moment ago
        except BrokerUnavailable:
            raise
        except BrokerError as error:
            self._put_off(watched, error)
            return "refused"

    async def _decide(self, judged: Sequence[WatchedEntry]) -> None:
        """Store the decisions in Redis; enqueue the jobs of those that no other daemon has made before."""
        taken = []
        for each, version in await self._ask(judged, map(self._write_decision, judged)):
            if version is None:
                continue  # another daemon was first
            tick_log.decided(each.entry, each.decision, self._note)
            await self._note_passed_over(each)
            if each.decision.ticks:
                ticks = decided_ticks(each.entry, each.task, each.decision.ticks, each.shape, each.follow)
                each.state = replace(each.state, version=version, decided=ticks)
                taken.append(each)
        await self._finish(taken)

    async def _note_passed_over(self, watched: WatchedEntry) -> None:
        """Keep which ticks get no job, for `fusiond cron history`; `tick` notes the others."""
        decision, passed = watched.decision, []
        if decision.word in ("suspended", "overlap"):
            passed.append((decision.last, decision.word))
        if decision.missed is not None:
            passed.append((decision.missed, "missed"))
        queue, name = watched.task.queue, watched.entry.name
        await self._connection.run_many([self._broker.note_tick(queue, name, *each) for each in passed])

    def _write_decision(self, watched: WatchedEntry) -> Call[str | None]:
        decision, state = watched.decision, watched.state
        found = watched.entry, watched.task, decision.ticks, watched.shape, watched.follow
        decided = decided_ticks(*found).to_text() if decision.ticks else None
        # A field is dropped only if it is there: at maxmemory Redis runs a script whose first write frees memory.
        waiting = {} if decision.waiting == state.waiting else {"waiting": decision.waiting}
        return self._broker.cron_write(state, last=decision.last, decision=decision.word, decided=decided, **waiting)

    async def _note_ends(self, watched: Sequence[WatchedEntry]) -> None:
        """Keep how the last jobs ended, for `fusiond cron list`: the jobs themselves are dropped after their ttl."""
        for each, status in await self._ask(watched, map(self._last_job, watched)):
            if status is None or status.ended:
                end = "gone" if status is None else status.value
                await self._connection.run_many([self._broker.cron_write(each.state, last_status=end)])

    async def _warn_of_overdue(self, watched: Sequence[WatchedEntry]) -> None:
        calls = [self._broker.cron_success(each.task.queue, each.entry.name) for each in watched]
        for each, success in await self._ask(watched, calls):
            self._overdue.note(each.entry, each.state, success)

    def _cancel_last_job(self, watched: WatchedEntry) -> Call[Any]:
        return self._broker.cancel(watched.state.last_queue or "", watched.state.last_job or "")

    def _last_job(self, watched: WatchedEntry) -> Call[Any]:
        return self._broker.last_status(watched.state)

    async def _ask(self, watched: Sequence[WatchedEntry], calls: Iterable[Call[Any]]) -> list[tuple[WatchedEntry, Any]]:
        """
        One round trip with a call for each entry. Raises BrokerUnavailable, also if Redis replies that it is not ready.

        Returns:
            the entries that were answered, each with its reply. The others are tried again after TRY_AGAIN.
        """
        answered = []
        replies = await self._connection.run_many(list(calls)) if watched else []
        for each, reply in zip(watched, replies, strict=True):
            if isinstance(reply, BrokerUnavailable):
                raise reply
            if isinstance(reply, BrokerError):
                self._put_off(each, reply)
            else:
                answered.append((each, reply))
        return answered

    def _put_off(self, watched: WatchedEntry, error: BrokerError) -> None:
        """Redis has refused something about this entry: it is tried again later."""
        log.error("cron entry '%s' cannot tick: %s", watched.entry.name, error)
        watched.look_at = self._clock() + TRY_AGAIN


def _decided(watched: WatchedEntry) -> DecidedTicks:
    assert watched.state.decided  # noqa: S101 - only entries with decided ticks are asked for them
    return watched.state.decided
