"""
The verbs of cron entries.

What is known of an entry belongs to its name alone, wherever its jobs go: `ns:cron`, one hash for all entries. A tick
takes three steps, since over a Cluster the entry and the queue may lie in different slots:

1. decide   `cron_write`: the entry's last tick, together with the decided ticks: their queue, ids and arguments
2. enqueue  `tick`: the jobs, in the queue; the queue remembers the entry's newest tick, so that a repeat stores nothing
3. confirm  `cron_write`: the decided ticks have their jobs

Each step may be repeated by anyone: a scheduler that finds ticks decided and not confirmed does steps 2 and 3. No
further tick is decided before that, so ticks reach their queue in their order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fusiond.broker.call import Call, Plan, Word, decoded, plain, scripted, text
from fusiond.broker.keys import VerbGroup, is_name

if TYPE_CHECKING:
    from collections.abc import Mapping


#: what is known of an entry, each as the field `<entry> <name>`
_FIELDS: Final = (
    "version", "last", "decision", "decided", "first_seen", "timetable", "definition", "generation", "suspended",
    "last_queue", "last_job", "last_enqueued", "last_status",
)  # fmt: skip

_NUMBERS: Final = ("last", "first_seen", "generation", "last_enqueued")


class DecidedTicks(NamedTuple):
    """Ticks of one entry that are to have a job."""

    entry: str
    queue: str
    task: str
    #: raw JSON, `[args, kwargs]`
    args: bytes
    priority: int
    #: from the enqueue
    expires_ms: int | None
    #: how late a tick's job may be enqueued; None: however late
    patience_ms: int | None
    #: epoch ms, oldest first
    ticks: tuple[int, ...]
    #: of each tick: by how much its job is delayed
    delays_ms: tuple[int, ...]

    def to_text(self) -> str:
        """What `from_text` reads."""
        return json.dumps(self._asdict() | {"args": self.args.decode()})

    @classmethod
    def from_text(cls, text: bytes) -> DecidedTicks:
        """Raises ValueError, TypeError, LookupError, AttributeError for what no scheduler has written."""
        found = json.loads(text)
        ticks, delays = (tuple(map(int, found[name])) for name in ("ticks", "delays_ms"))
        if not (is_name(found["queue"]) and ticks and len(ticks) == len(delays)):
            raise ValueError("not decided by a scheduler")
        return cls(**(found | {"args": found["args"].encode(), "ticks": ticks, "delays_ms": delays}))


class Ticked(NamedTuple):
    """What became of decided ticks in their queue."""

    #: of each tick a digit; see tick.lua
    outcomes: str
    #: the newest tick of the entry that has a job in the queue; 0: none
    newest_with_job: int


@dataclass(frozen=True, slots=True)
class CronState:
    """What Redis knows of a cron entry."""

    entry: str
    #: of the last change; empty: there was none
    version: str
    #: the newest tick that was decided on; None: none was
    last_tick_ms: int | None
    #: what the last decision was, in a word
    decision: str
    #: decided and not yet known to have their jobs
    decided: DecidedTicks | None
    #: when a daemon first came with this timetable; None: none has, or no daemon has the entry any more
    first_seen_ms: int | None
    timetable: str
    #: digest of the declaration by which it ticks, and the newest generation that has it so
    definition: str
    generation: int
    #: by an operator
    suspended: bool
    #: the queue and the id of the job of the last tick that has one
    last_queue: str | None
    last_job: str | None
    #: and that tick; None: none has
    last_enqueued_ms: int | None
    #: how that job ended: a status, or `gone`; empty: it has not, as far as it is known
    last_status: str
    #: the clock of Redis
    now_ms: int


class TickVerbs(VerbGroup):
    """Verbs of cron entries."""

    def cron_state(self, entry: str) -> Call[CronState]:
        """What is known of a cron entry."""

        def state(reply: list[Any]) -> CronState:
            now, *values = reply
            known = zip(_FIELDS, values, strict=True)
            return _state(entry, {name: value for name, value in known if value is not None}, int(now))

        return scripted("cron_state", self.keys.cron, [f"{entry} {name}" for name in _FIELDS], state)

    def cron_states(self) -> Call[dict[str, CronState]]:
        """What is known of all entries, also of those that no file has any more; without the clock of Redis."""
        return plain(_states, "HGETALL", self.keys.cron)

    def cron_write(self, state: CronState, **values: Word | None) -> Call[str | None]:
        """
        Change what is known of an entry, unless it was changed since `state` was read.

        Args:
            state: what was read.
            values: name → value; None: drop it.

        Returns:
            the new version; None: it was changed since, nothing was written.
        """
        return self._write(state.entry, state.version, values)

    def tick(self, decided: DecidedTicks) -> Call[Ticked]:
        """Store the jobs of decided ticks in their queue; a repeat, however late, stores nothing."""
        words: list[Word] = [decided.entry, decided.task, decided.args, decided.priority]
        words += ["" if ms is None else ms for ms in (decided.expires_ms, decided.patience_ms)]
        for tick, delay in zip(decided.ticks, decided.delays_ms, strict=True):
            words += (tick, delay)
        return scripted("tick", self.keys.root(decided.queue), words, _ticked)

    def confirm(self, state: CronState, ticked: Ticked) -> Call[str | None]:
        """Note that the ticks which `state` has as decided have their jobs, or why not."""
        decided, newest = state.decided, ticked.newest_with_job
        if decided is None:
            raise ValueError("nothing was decided")
        if newest < decided.ticks[0]:
            decision = "full" if "3" in ticked.outcomes else "late"
            return self.cron_write(state, decided=None, decision=decision)
        return self.cron_write(
            state,
            decided=None,
            decision="enqueued",
            last_queue=decided.queue,
            last_job=f"cron:{state.entry}:{newest}",
            last_enqueued=newest,
            last_status=None,
        )

    def suspend_cron(self, entry: str, *, on: bool) -> Plan[None]:
        """
        Have the entry's ticks pass without a job, or with one again.

        What was decided before is enqueued first, so that no job of a tick comes after a suspension has returned.
        """
        yield self._write(entry, "any", {"suspended": 1 if on else None})
        state = yield self.cron_state(entry)
        if state.decided is not None:
            ticked = yield self.tick(state.decided)
            yield self.confirm(state, ticked)

    def _write(self, entry: str, version: str, values: Mapping[str, Word | None]) -> Call[str | None]:
        dropped: list[Word] = [f"{entry} {name}" for name, value in values.items() if value is None]
        words: list[Word] = [f"{entry} version", version, len(dropped), *dropped]
        for name, value in values.items():
            if value is not None:
                words += (f"{entry} {name}", value)
        return scripted("cron_write", self.keys.cron, words, text)


def _ticked(reply: Any) -> Ticked:
    return Ticked(reply[0].decode(), int(reply[1]))


def _states(flat: list[bytes]) -> dict[str, CronState]:
    found: dict[str, dict[str, bytes]] = {}
    for field, value in zip(flat[::2], flat[1::2], strict=True):
        entry, _, name = decoded(field).rpartition(" ")
        found.setdefault(entry, {})[name] = value
    states = {}
    for entry, fields in found.items():
        try:
            states[entry] = _state(entry, fields, 0)
        except (ValueError, TypeError, LookupError, AttributeError):
            continue  # what no verb has written: who asks for this entry is told
    return states


def _state(entry: str, fields: Mapping[str, bytes], now: int) -> CronState:
    words = {name: value.decode() for name, value in fields.items()}
    numbers = {name: int(words[name]) for name in _NUMBERS if name in words}
    if "last_queue" in words and not is_name(words["last_queue"]):
        raise ValueError("not a queue")
    return CronState(
        entry=entry,
        version=words.get("version", ""),
        last_tick_ms=numbers.get("last"),
        decision=words.get("decision", ""),
        decided=DecidedTicks.from_text(fields["decided"]) if "decided" in fields else None,
        first_seen_ms=numbers.get("first_seen"),
        timetable=words.get("timetable", ""),
        definition=words.get("definition", ""),
        generation=numbers.get("generation", 0),
        suspended="suspended" in fields,
        last_queue=words.get("last_queue"),
        last_job=words.get("last_job"),
        last_enqueued_ms=numbers.get("last_enqueued"),
        last_status=words.get("last_status", ""),
        now_ms=now,
    )
