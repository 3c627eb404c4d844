"""The loop of one sink: see the package."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fusiond.broker.event_reading import Cursors, Wanted
from fusiond.broker.event_records import DAEMONS, Event
from fusiond.broker.hosts.host_records import NO_CATALOGUE
from fusiond.broker.redis.outage import retrying
from fusiond.carrier import HOLD, LEASE_MS, STAND_BY, Carrier
from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.model import Config
from fusiond.errors import BrokerError, FusionError
from fusiond.masking import Secret, masked_event, without_url
from fusiond.owners import with_owner
from fusiond.program import Link, wait_until_set
from fusiond.sinks.choice import outlet
from fusiond.sinks.job_keys import JobKeys
from fusiond.sinks.outlets import DeliveryError, Document, deliver_in_parts

log = logging.getLogger(__name__)

#: s; from one look to the next where nothing has come; until the list of queues is read again
_IDLE, _LIST = 0.5, 10.0
#: streams that are read at once: what is in memory is bounded
_STREAMS = 8
#: s; the first and the longest pause behind a failure; the longest that the other side may ask for
_FIRST, _LONGEST, _MOST_ASKED = 0.5, 60.0, 300.0
#: failures in a row that are told as an event
_TOLD = 3
#: s without an answer that are told as one, too: each byte of an answer has a time limit of its own
_SLOW = 60.0


class Delivery(Carrier):
    """One sink of this daemon."""

    def __init__(self, snapshot: Snapshot, name: str, link: Link, runtime: Path) -> None:
        super().__init__(snapshot, name, link, runtime)
        #: how far the streams are read; None: another daemon delivers, as far as is known
        self._cursors: Cursors | None = None
        self._streams: list[str] = []
        #: what the files of all daemons declare
        self._catalogue = NO_CATALOGUE
        #: monotonic s
        self._held_at = self._listed_at = 0.0
        self._failures = 0
        #: why it cannot deliver now; empty: it can
        self._failing = ""
        #: events that were refused and set aside, and not yet counted in Redis
        self._refused = 0
        self._use(snapshot.config)

    def _use(self, config: Config) -> None:
        if config.events is None:
            raise FusionError("there is no `events` in the file")
        sink = config.events.sinks[self._name]
        #: of which only the host is told: the rest may have come from a variable
        self._url = sink.url or ""
        self._outlet, self._wanted = outlet(sink), Wanted(sink.only).accepts
        #: None: a sink of this kind has no use for them
        self._keys = JobKeys(config) if sink.kind == "load" else None
        self._own_secret = {name: task.secret for name, task in config.tasks.items()}
        #: task → its secret arguments, of any daemon's file
        self._secret: Secret = self._catalogue.secret(self._own_secret)
        self._owners = config.owners
        self._tags = {name: task.log_tag for name, task in config.tasks.items() if task.log_tag}

    def _is_in(self, config: Config) -> bool:
        return config.events is not None and self._name in config.events.sinks

    async def serve(self) -> None:
        """Deliver until `end`."""
        failures = 0
        while not self._ending:
            self._changed.clear()
            try:
                await self._round()
                failures = 0
            except BrokerError as error:
                if not failures:
                    log.error("%s", retrying(error))
                failures += 1
                self._cursors = None
                await self._outage.wait(failures, self._changed)
        await self._close()

    async def _close(self) -> None:
        """Leave the sink to another daemon at once, and note how far it is."""
        try:
            if self._cursors is not None:
                async with asyncio.timeout(2.0):
                    await self._hold(0)
        except (BrokerError, TimeoutError) as error:
            log.debug("the end of this sink did not reach Redis: %s", error)
        self._outlet.close()
        await self._connection.close()

    async def _round(self) -> None:
        """Deliver what has come. Raises BrokerError."""
        if self._cursors is None or time.monotonic() - self._held_at >= HOLD:
            await self._hold(LEASE_MS)
        if self._cursors is None:
            await wait_until_set(self._changed, STAND_BY)
            return
        if time.monotonic() - self._listed_at >= _LIST:
            await self._list()
        found = False
        for first in range(0, len(self._streams), _STREAMS):
            found |= await self._deliver_from(self._streams[first : first + _STREAMS])
        if not found:
            await wait_until_set(self._changed, _IDLE)

    @property
    def _delivers(self) -> bool:
        return self._cursors is not None and not self._ending

    async def _hold(self, ms: int) -> None:
        """Say that this daemon delivers, and how far it is; or learn that another one does."""
        read = self._cursors.read if self._cursors is not None else {}
        call = self._verbs.hold_sink(self._name, self._token, ms, read, self._failing, refused=self._refused)
        found = await self._connection.run(call)
        self._held_at, self._refused = time.monotonic(), 0 if found is not None else self._refused
        if found is None:
            self._cursors = None
        elif self._cursors is None:
            self._cursors, self._listed_at = Cursors(found), 0.0

    async def _list(self) -> None:
        """Read the names of the queues; and forget how far a stream is read that has become shorter."""
        self._streams = [*await self._connection.run(self._verbs.queues()), DAEMONS]
        self._catalogue = await self._connection.run(self._verbs.catalogue(self._catalogue))
        self._secret = self._catalogue.secret(self._own_secret)
        read = self._cursors.read if self._cursors is not None else {}
        for stream in [stream for stream in self._streams if read.get(stream)]:
            page = await self._connection.run(self._verbs.events_before(stream, None, 1))
            if (page.last or 0) < read[stream]:
                log.warning("the events of '%s' were lost in Redis; those that are there are delivered again", stream)
                read[stream] = 0
        self._listed_at = time.monotonic()

    async def _deliver_from(self, streams: Sequence[str]) -> bool:
        """Deliver the next events of these streams; whether there were any. Raises BrokerError."""
        if self._cursors is None:
            return False
        read = dict(self._cursors.read)
        calls = self._cursors.ask(self._verbs, streams)
        replies = await self._connection.run_many(list(calls.values()))
        if refused := [reply for reply in replies if isinstance(reply, BrokerError)]:
            raise refused[0]
        ahead = Cursors(read)
        events = ahead.take(dict(zip(calls, replies, strict=True)))
        for batch in self._batches(list(filter(self._wanted, events))):
            await self._deliver(batch)
            if not self._delivers:
                return True
        self._cursors.read.update(ahead.read)
        if events:
            await self._hold(LEASE_MS)
        return bool(events)

    def _batches(self, events: list[Event]) -> Iterator[list[Event]]:
        """Of each the size that the outlet takes, which may change between two."""
        while events:
            most = self._outlet.most
            yield events[:most]
            events = events[most:]

    async def _deliver(self, batch: list[Event]) -> None:
        """Until each event is taken or refused for good, or another daemon delivers. Raises BrokerError."""
        documents = [self._document(event) for event in batch]
        if self._keys is not None:
            await self._add_keys(self._keys, batch, documents)
        while self._delivers:
            self._follow()
            try:
                await self._try(documents)
            except DeliveryError as error:
                if error.refused:
                    self._refused += len(error.refused)
                    # one sentence, no traceback
                    log.error("%d events were refused and are set aside: %s", len(error.refused), error.refused[0])
                if error.left is not None and len(error.left) < len(documents):
                    await self._note_progress()
                    documents = list(error.left)
                if documents:
                    await self._note_failure(error)
                    continue
            await self._note(batch)
            return

    async def _add_keys(self, keys: JobKeys, batch: list[Event], documents: list[Document]) -> None:
        """Add to the documents of new jobs what events do not have. Raises BrokerError."""
        asked = [pair for pair in zip(batch, documents, strict=True) if keys.are_in(pair[0])]
        replies = await self._connection.run_many([self._verbs.job(event.stream, event.job) for event, _ in asked])
        for (_, document), reply in zip(asked, replies, strict=True):
            if isinstance(reply, BrokerError):
                raise reply
            if reply is not None:
                document.update(keys.of(reply))

    async def _try(self, documents: list[Document]) -> None:
        """Deliver it in a thread, and keep the lease meanwhile. Raises DeliveryError, BrokerError."""
        trying = asyncio.create_task(asyncio.to_thread(deliver_in_parts, self._outlet.deliver, documents))
        try:
            is_slow = await self._keep_lease(trying)
        except BrokerError:
            # An outlet does one thing at a time. What it raises is no matter: the same events come again.
            await asyncio.gather(trying, return_exceptions=True)
            raise
        try:
            trying.result()
        except DeliveryError as error:
            error.args = (without_url(str(error), self._url),)
            raise
        except Exception as error:
            # What a library makes of an answer is not known in advance, and must not end this program.
            raise DeliveryError(without_url(f"{type(error).__name__}: {error}", self._url)) from error
        await self._note_progress(is_slow=is_slow)

    async def _note_progress(self, *, is_slow: bool = False) -> None:
        """Some events are done: the next pause is the first one again. Raises BrokerError."""
        if is_slow or self._failures >= _TOLD:
            log.info("it delivers again")
            await self._record("sink.delivers", "")
        self._failures, self._failing = 0, ""

    async def _keep_lease(self, trying: asyncio.Task[None]) -> bool:
        """Until that has ended; whether it took so long that this was told. Raises BrokerError."""
        since, is_slow = time.monotonic(), False
        while not (await asyncio.wait([trying], timeout=HOLD))[0]:
            if not is_slow and time.monotonic() - since >= _SLOW:
                is_slow, self._failing = True, f"no whole answer for {_SLOW:g} s"
                log.warning("not delivered: %s", self._failing)
                await self._record("sink.fails", self._failing)
            await self._hold(LEASE_MS)
        return is_slow

    async def _note(self, batch: list[Event]) -> None:
        """These are delivered. Raises BrokerError."""
        if self._cursors is not None:
            for event in batch:
                self._cursors.read[event.stream] = event.number
            if time.monotonic() - self._held_at >= 1.0:
                await self._hold(LEASE_MS)

    async def _note_failure(self, error: DeliveryError) -> None:
        """Wait for a while, longer each time. Raises BrokerError."""
        self._failures, self._failing = self._failures + 1, str(error)[:1000]
        pause = min(_LONGEST, _FIRST * 2.0 ** min(self._failures - 1, 16)) * random.uniform(0.75, 1.25)  # noqa: S311
        if error.retry_after is not None:
            pause = max(pause, min(error.retry_after, _MOST_ASKED))
        if self._failures in (1, _TOLD):
            log.warning("not delivered: %s; tried again", error)
        if self._failures == _TOLD:
            await self._record("sink.fails", str(error))
        if self._cursors is not None:
            await self._hold(LEASE_MS)
        until = time.monotonic() + pause
        while self._cursors is not None and not self._changed.is_set() and (left := until - time.monotonic()) > 0:
            await wait_until_set(self._changed, min(left, HOLD))
            if time.monotonic() - self._held_at >= HOLD:
                await self._hold(LEASE_MS)

    def _follow(self) -> None:
        """Take over the newest configuration."""
        config, self._next_config = self._next_config, None
        if config is not None:
            self._changed.clear()
            self._outlet.close()
            self._use(config)

    def _document(self, event: Event) -> Document:
        document = masked_event(with_owner(event.document(), self._owners), self._secret)
        if event.task and "task_type" not in document and event.task in self._tags:
            document["task_type"] = self._tags[event.task]
        text = json.dumps(document, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:
            # A job may raise half of a surrogate pair, which no other side takes.
            document = json.loads(text.encode(errors="replace"))
        return document
