"""
The program of one outbox: rows of a table in an application's database become jobs.

1. hold     one daemon of a namespace hands over; the others stand by until its lease has expired
2. carry    rows to Redis (row_carrier.py)
3. tell     how the outbox stands
4. retry    from the table on, if the database or Redis has failed, with growing pauses
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fusiond.broker.outbox_verbs import OutboxState
from fusiond.broker.redis.connection import connect_async
from fusiond.broker.redis.outage import pause
from fusiond.carrier import HOLD, LEASE_MS, STAND_BY, Carrier
from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.model import Config
from fusiond.errors import BrokerError, FusionError
from fusiond.inspecting.outbox_states import outbox_sentences
from fusiond.outbox.hand_over import boot_time
from fusiond.outbox.listener import Listener
from fusiond.outbox.row_carrier import RowCarrier, Ways
from fusiond.outbox.row_jobs import RowJobs
from fusiond.outbox.table import OutboxError, Table
from fusiond.producer.new_jobs import JobMaker
from fusiond.program import Link, wait_until_set

log = logging.getLogger(__name__)
T = TypeVar("T")

#: s between two counts of the rows
_COUNT = 10.0
#: s; the longest pause behind a failure of the database; between two looks for old receipts
_LONGEST, _PRUNE = 15.0, 3600.0
#: s from one look for rows to the next, where the database tells of them
_LISTENING = 10.0
#: s without an answer of the database that are told
_SLOW = 60.0
#: characters of a warning
_MOST_WORDS = 4000


class Relay(Carrier):
    """One outbox of this daemon."""

    def __init__(self, snapshot: Snapshot, name: str, link: Link, runtime: Path) -> None:
        super().__init__(snapshot, name, link, runtime)
        settings = snapshot.config.broker
        self._cluster = "+cluster:" in settings.url
        self._slow_connection = connect_async(settings, runtime)
        self._maker = JobMaker(self._verbs)
        self._ways = Ways(
            self._verbs, self._connection, self._slow_connection, self._in_table, self._note_refused, self._changed
        )
        self._state = OutboxState(host=os.uname().nodename)
        self._holds = False
        #: what the supervisor was told is wrong; None: nothing yet
        self._warned: str | None = None
        #: whether the lease had expired before this daemon said again that it hands over
        self._has_lapsed = False
        #: boot s until which no other daemon can have the lease
        self._held_until = 0.0
        #: monotonic s
        self._held_at = self._counted_at = self._pruned_at = float("-inf")
        self._use(snapshot.config)

    def _use(self, config: Config) -> None:
        if self._name not in config.outboxes:
            raise FusionError(f"there is no outbox {self._name!r} in the file")
        self._config, self._outbox = config, config.outboxes[self._name]
        self._rows = RowJobs(self._maker, self._name, config)
        #: whether refused rows are to be tried again: this file may permit what another one did not
        self._retries = True
        #: None: it is to be connected to
        self._table: Table | None = None
        self._listener: Listener | None = None
        #: whether it was said that the table has no trigger
        self._is_untold = False
        self._carrier: RowCarrier | None = None

    def _is_in(self, config: Config) -> bool:
        return self._name in config.outboxes

    async def serve(self) -> None:
        """Hand over until `end`."""
        failures = 0
        while not self._ending:
            self._changed.clear()
            try:
                await self._round()
                if failures and self._carrier is not None and self._carrier.works:
                    await self._note_recovery()
                    failures = 0
            except (BrokerError, OutboxError) as error:
                await self._note_failure(str(error))
                # From the table on: what was under way is unknown, and the password may be another one now.
                await self._disconnect()
                failures += 1
                if isinstance(error, BrokerError):
                    await self._outage.wait(failures, self._changed)
                else:
                    await wait_until_set(self._changed, pause(failures, _LONGEST))
        await self._close()

    async def _round(self) -> None:
        """Hand over what is there. Raises BrokerError, OutboxError."""
        if self._next_config is not None:
            await self._disconnect()
            config, self._next_config = self._next_config, None
            self._use(config)
        if not self._holds or time.monotonic() - self._held_at >= HOLD:
            await self._hold(LEASE_MS)
        if not self._holds or self._has_lapsed:
            # What is known of the table is old: another daemon may have handed over.
            await self._disconnect()
            self._retries, self._has_lapsed = True, False
        if not self._holds:
            await wait_until_set(self._changed, STAND_BY)
            return
        carrier = self._carrier or await self._connect()
        if self._outbox.wake == "notify" and (self._listener is None or self._listener.is_lost):
            await self._listen()
        if time.monotonic() - self._counted_at >= _COUNT:
            await self._count(carrier)
        if not await carrier.carry():
            await self._rest(carrier)

    async def _rest(self, carrier: RowCarrier) -> None:
        """Until there may be something to do. Meanwhile the lease is kept, and it is seen whether rows still wait."""
        hears = self._listener is not None and not self._listener.is_pooled
        poll = max(self._outbox.poll, _LISTENING) if hears else self._outbox.poll
        ends = time.monotonic() + carrier.pause(poll)
        while self._holds and not self._changed.is_set() and (left := ends - time.monotonic()) > 0:
            await wait_until_set(self._changed, min(left, HOLD))
            if time.monotonic() - self._held_at >= HOLD:
                await self._hold(LEASE_MS)
            if self._state.waiting and time.monotonic() - self._counted_at >= _COUNT:
                await self._count(carrier)

    async def _connect(self) -> RowCarrier:
        """Begin with what is in the table."""
        self._table = table = Table(self._outbox)
        await self._in_table(table.check)
        if self._retries and (again := await self._in_table(table.retry, tasks=[*self._config.tasks])):
            log.info("%d refused rows are tried again", again)
        self._retries = False
        carrier = RowCarrier(self._name, self._outbox, table, self._rows, self._ways, cluster=self._cluster)
        await carrier.begin()
        self._carrier, self._counted_at = carrier, float("-inf")
        return carrier

    async def _listen(self) -> None:
        if self._table is not None:
            if self._listener is not None:
                self._listener.close()
            self._listener = None
            if await self._in_table(self._table.tells):
                connection = await self._in_table(self._table.connect)
                self._listener = Listener(connection, self._table.channel, self._changed)
                if self._listener.is_pooled:
                    log.warning(
                        "the address leads to a pooler, which may pass on no notification: rows are polled, too"
                    )
            elif not self._is_untold:
                where = f"{self._table.name} has no trigger for `wake: notify`"
                log.warning("%s; `fusiond outbox init` prints it; until then rows are looked for as with `poll`", where)
            self._is_untold = self._listener is None

    async def _disconnect(self) -> None:
        """Forget what is known of the table, and end the connections to it."""
        carrier, listener, table = self._carrier, self._listener, self._table
        self._carrier = self._listener = self._table = None
        if carrier is not None:
            await carrier.give_up()
        if listener is not None:
            listener.close()
        if table is not None:
            table.close()

    async def _hold(self, ms: int) -> None:
        """Say that this daemon hands over, and how the outbox stands; or learn that another one does."""
        state, asked = self._state._replace(at=time.time()), boot_time()
        self._holds = await self._connection.run(self._verbs.hold_outbox(self._name, self._token, ms, state))
        self._held_at = time.monotonic()
        self._has_lapsed |= boot_time() > self._held_until
        self._held_until = asked + ms / 1000
        self._warn(state)

    def _warn(self, state: OutboxState) -> None:
        """Have `fusiond health` say what is wrong; a daemon that stands by says nothing."""
        found = outbox_sentences(self._name, state, state.at, "{:.0f} s".format) if self._holds else ()
        reason = "\n".join(found)[:_MOST_WORDS]
        if reason != self._warned:
            self._warned = reason
            self._link.say({"is": "warning", "reason": reason})

    async def _in_table(self, method: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Run a method of the table in a thread, and keep the lease meanwhile. Raises OutboxError, BrokerError."""
        began = time.monotonic()
        running = asyncio.ensure_future(asyncio.to_thread(partial(method, *arguments, **named)))
        is_slow = False
        while not (await asyncio.wait([running], timeout=HOLD))[0]:
            if not is_slow and time.monotonic() - began >= _SLOW:
                is_slow = True
                await self._note_failure(f"the database has not answered for {_SLOW:g} s")
            try:
                await self._hold(LEASE_MS)
            except BrokerError:
                await asyncio.gather(running, return_exceptions=True)  # the table does one thing at a time
                raise
        if is_slow:
            await self._note_recovery()
        return running.result()

    async def _count(self, carrier: RowCarrier) -> None:
        """See how many rows there are; now and then, delete old receipts."""
        if self._table is None:
            return
        await carrier.find_left()
        counted = await self._in_table(self._table.count, carrier.queues_left)
        state, self._counted_at = self._state._replace(**counted._asdict()), time.monotonic()
        if state != self._state:
            self._state = state
            await self._hold(LEASE_MS)
        if self._counted_at - self._pruned_at >= _PRUNE:
            self._pruned_at = self._counted_at
            await self._in_table(self._table.prune_receipts, self._config.receipt_ttl(self._outbox))

    async def _note_refused(self, reasons: Mapping[str, str]) -> None:
        [(first, why), *others] = reasons.items()
        sentence = f"row {first} is refused: {why}" + (f"; and {len(others)} more" if others else "")
        log.error("%s", sentence)
        self._counted_at = float("-inf")
        await self._tell("outbox.refused", sentence)

    async def _note_failure(self, sentence: str) -> None:
        """Say why no row is handed over, once for each reason."""
        if self._state.failing != sentence:
            log.error("%s", sentence)
            self._state = self._state._replace(failing=sentence)
            await self._tell("outbox.fails", sentence)

    async def _note_recovery(self) -> None:
        log.info("rows are handed over again")
        self._state = self._state._replace(failing="")
        await self._tell("outbox.delivers", "")

    async def _tell(self, event: str, message: str) -> None:
        """An event, and the state, if Redis is there."""
        try:
            await self._record(event, message)
            if self._holds:
                await self._hold(LEASE_MS)
        except BrokerError as error:
            log.debug("%s was not told: %s", event, error)

    async def _close(self) -> None:
        """Leave the outbox to another daemon at once, if possible with no row half-way."""
        with contextlib.suppress(BrokerError, OutboxError):
            if self._carrier is not None:
                await self._carrier.finish()
        with contextlib.suppress(BrokerError, TimeoutError):
            if self._holds:
                async with asyncio.timeout(2.0):
                    await self._hold(0)
        await self._disconnect()
        await self._connection.close()
        await self._slow_connection.close()
