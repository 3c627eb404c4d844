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
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from fusiond.broker.call import Call, Plan, Word, decoded, nothing, plain, scripted, stored_number, text
from fusiond.broker.event_records import DAEMONS
from fusiond.broker.event_verbs import EventVerbs
from fusiond.broker.keys import is_name
from fusiond.callbacks import split

#: epoch ms; the end of the year 9998
_LAST_TICK: Final = 253_370_764_800_000
_NUMBERS: Final = ("last", "waiting", "first_seen", "generation", "last_enqueued", "counted_since")
#: fields that are there if they are true
_FLAGS: Final = ("suspended", "last_is_run")


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
    #: as `fusiond.argument_values.unique_key` gives it; empty: the jobs are not unique
    unique: str = ""
    #: their callbacks, as `fusiond.callbacks.follow_text` gives them
    follow: str = ""
    #: of a flow: the fields of its runs, and of each tick raw JSON of the inputs; empty: a task is enqueued
    run: str = ""
    inputs: tuple[str, ...] = ()

    def to_text(self) -> str:
        """What `from_text` reads."""
        # a scheduler of an older version does not know what has a default
        said = {name: value for name, value in self._asdict().items() if name not in self._field_defaults or value}
        return json.dumps(said | {"args": self.args.decode()})

    @classmethod
    def from_text(cls, text: str) -> DecidedTicks:
        """Raises ValueError, TypeError, LookupError, AttributeError for what no scheduler has written."""
        found = json.loads(text)
        ticks, delays = (tuple(map(stored_number, found[name])) for name in ("ticks", "delays_ms"))
        if not (is_name(found["queue"]) and ticks and len(ticks) == len(delays)):
            raise ValueError("not decided by a scheduler")
        inputs = tuple(map(str, found.get("inputs", ())))
        said = found | {"args": found["args"].encode(), "ticks": ticks, "delays_ms": delays, "inputs": inputs}
        # a scheduler of a newer version may say more
        return cls(**{name: said[name] for name in cls._fields if name in said})


class Ticked(NamedTuple):
    """What became of decided ticks in their queue."""

    #: of each tick a digit; see tick.lua
    outcomes: str
    #: the newest tick of the entry that has a job in the queue; 0: none
    newest_with_job: int


class TickNote(NamedTuple):
    """What became of a tick."""

    #: epoch ms
    tick: int
    #: finished, failed or canceled; enqueued: its job has not ended, as far as is noted; else why it has no job
    outcome: str
    #: full name of its job, or of its run; empty: it has none
    job: str
    is_run: bool
    #: from its begin to its end
    ms: int | None

    @property
    def is_backfill(self) -> bool:
        """Whether the job is that of a backfill: `<queue>/cron:backfill:<entry>:<tick>`."""
        return self.job.rpartition(":")[0].partition("/cron:")[2].startswith("backfill:")


@dataclass(frozen=True, slots=True)
class CronState:
    """What Redis knows of a cron entry; times are epoch ms."""

    entry: str
    #: the clock of Redis
    now: int
    # What follows is stored, each as the field `<entry> <name>`.
    #: of the last change; empty: there was none
    version: str = ""
    #: the newest tick that was decided on; None: none was
    last: int | None = None
    #: what the last decision was, in a word
    decision: str = ""
    #: the tick that waits for the job of the last one that has one; None: none does
    waiting: int | None = None
    #: decided and not yet known to have their jobs
    decided: DecidedTicks | None = None
    #: when a daemon first came with this timetable; None: none has, or no daemon has the entry any more
    first_seen: int | None = None
    timetable: str = ""
    #: digest of the declaration by which it ticks, and the newest generation that has it so
    definition: str = ""
    generation: int = 0
    #: by an operator
    suspended: bool = False
    #: the queue and the id of the job of the last tick that has one
    last_queue: str | None = None
    last_job: str | None = None
    #: and that tick; None: none has
    last_enqueued: int | None = None
    #: it is a run of a flow, whatever the entry is now
    last_is_run: bool = False
    #: how that job ended: a status, or `gone`; empty: it has not, as far as it is known
    last_status: str = ""
    #: the queue in which its jobs finish, empty while the file suspends it; since when that is so, or since it was
    #: resumed: a time without success is counted from then on
    counted: str = ""
    counted_since: int | None = None


_FIELDS: Final = [field.name for field in fields(CronState)][2:]


class TickVerbs(EventVerbs):
    """Verbs of cron entries."""

    def cron_state(self, entry: str) -> Call[CronState]:
        """What is known of a cron entry."""

        def state(reply: list[Any]) -> CronState:
            now, *values = reply
            known = zip(_FIELDS, values, strict=True)
            return _state(entry, {name: value for name, value in known if value is not None}, stored_number(now))

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

    def take_over_cron(self, state: CronState, former: CronState) -> Plan[CronState | None]:
        """
        Give an entry of which nothing is known what is known of its former name, where no tick waits for its job.

        Killed in the middle, it leaves both: the former one is forgotten once no file has it as an alias any more.

        Returns:
            the new state; None: another daemon was first.
        """
        success = 0
        if former.last_queue:
            success = yield self.cron_success(former.last_queue, former.entry)
        known = {name: getattr(former, name) for name in _FIELDS if name not in ("version", "decided")}
        known["counted_since"] = max(former.counted_since or 0, success) or None
        # what is not set is not stored
        said = {name: int(value) if value is True else value or None for name, value in known.items()}
        version = yield self.cron_write(state, **said)
        if version is not None:
            yield self.cron_write(former, **dict.fromkeys(known))
        return None if version is None else replace(former, entry=state.entry, now=state.now, version=version, **known)

    def cron_success(self, queue: str, entry: str) -> Call[int]:
        """When a job of the entry finished last in the queue, epoch ms; 0: none has."""
        ticks = self.keys.of(queue, "ticks")
        return plain(lambda reply: stored_number(reply or b"0"), "HGET", ticks, f"{entry} success")

    def note_tick(self, queue: str, entry: str, tick: int, word: str) -> Call[None]:
        """A tick was passed over: overlap, suspended or missed."""
        return scripted("note_tick", self.keys.root(queue), (entry, tick, word), nothing)

    def tick_notes(self, queue: str, entry: str, since: int, most: int) -> Call[list[TickNote]]:
        """What became of the ticks of an entry that concern this queue, the newest first; two notes tell of one."""

        def parse(reply: Any) -> list[TickNote]:
            return _notes(queue, entry, [decoded(fields[1]) for _, fields in reply or ()])

        key = self.keys.of(queue, "ticks", entry)
        return plain(parse, "XREVRANGE", key, "+", max(since, 0), "COUNT", most)

    def tick(self, decided: DecidedTicks) -> Call[Ticked]:
        """Store the jobs of decided ticks in their queue, or runs; a repeat, however late, stores nothing."""
        if decided.run:
            return self._start_runs(decided)
        words: list[Word] = [decided.entry, decided.task, decided.args, decided.priority]
        words += ["" if ms is None else ms for ms in (decided.expires_ms, decided.patience_ms)]
        words += (decided.unique, *split(decided.follow))
        for tick, delay in zip(decided.ticks, decided.delays_ms, strict=True):
            words += (tick, delay)
        return scripted("tick", self.keys.root(decided.queue), words, _ticked(len(decided.ticks)))

    def _start_runs(self, decided: DecidedTicks) -> Call[Ticked]:
        patience = "" if decided.patience_ms is None else decided.patience_ms
        fields = json.loads(decided.run)
        words: list[Word] = [decided.entry, patience, len(fields), *(word for pair in fields.items() for word in pair)]
        for tick, delay, inputs in zip(decided.ticks, decided.delays_ms, decided.inputs, strict=True):
            words += (tick, delay, inputs)
        return scripted("flow_tick", self.keys.root(decided.queue), words, _ticked(len(decided.ticks)))

    def confirm(self, state: CronState, ticked: Ticked) -> Call[str | None]:
        """Note that the ticks which `state` has as decided have their jobs, or why not."""
        decided, newest = state.decided, ticked.newest_with_job
        if decided is None:
            raise ValueError("nothing was decided")
        if newest < decided.ticks[0]:
            words = {"3": "full", "5": "conflict"}
            decision = next((word for digit, word in words.items() if digit in ticked.outcomes), "late")
            return self.cron_write(state, decided=None, decision=decision)
        return self.cron_write(
            state,
            decided=None,
            decision="enqueued",
            last_queue=decided.queue,
            last_job=f"cron:{state.entry}:{newest}",
            last_enqueued=newest,
            last_is_run=1 if decided.run else None,
            last_status=None,
        )

    def suspend_cron(self, entry: str, *, on: bool, who: str = "") -> Plan[None]:
        """
        Have the entry's ticks pass without a job, or with one again.

        What was decided before is enqueued first, so that no job of a tick comes after a suspension has returned.
        `who`: asks, for the event, which is told where it changes something.
        """
        former = yield self.cron_state(entry)
        resumed = {"counted_since": former.now} if former.suspended and not on else {}
        yield self._write(entry, "any", {"suspended": 1 if on else None, **resumed})
        state = yield self.cron_state(entry)
        if state.decided is not None:
            ticked = yield self.tick(state.decided)
            yield self.confirm(state, ticked)
        if former.suspended != on:
            yield self.record_event(DAEMONS, "cron.suspended" if on else "cron.resumed", who, [("o", entry)])

    def note_cron_run(self, entry: str, name: str, who: str) -> Call[None]:
        """Somebody has an entry's task or flow run outside its schedule: the job or the run of this name."""
        return self.record_event(DAEMONS, "cron.run", who, [("o", entry), ("m", name)])

    def _write(self, entry: str, version: str, values: Mapping[str, Word | None]) -> Call[str | None]:
        dropped: list[Word] = [f"{entry} {name}" for name, value in values.items() if value is None]
        words: list[Word] = [f"{entry} version", version, len(dropped), *dropped]
        for name, value in values.items():
            if value is not None:
                words += (f"{entry} {name}", value)
        return scripted("cron_write", self.keys.cron, words, text)


_WORDS: Final = {"0": "enqueued", "1": "enqueued", "2": "late", "3": "full", "5": "conflict"} | {
    "f": "finished", "x": "failed", "c": "canceled",
}  # fmt: skip


def _notes(queue: str, entry: str, texts: list[str]) -> list[TickNote]:
    """Reads notes, the newest first; of a tick with several the newest one holds."""
    found: dict[int, TickNote] = {}
    for text_ in texts:
        tick, _, note = text_.partition(" ")
        word, _, ms = note.partition(" ")
        if not (tick.isdigit() and int(tick) < _LAST_TICK) or not word:
            continue  # what no verb has written
        outcome, is_run = _WORDS.get(word[0], word) if len(word) < 3 else word, word.endswith("r")
        if int(tick) in found:
            found[int(tick)] = found[int(tick)]._replace(is_run=is_run)
        else:
            has_job = word[0] in "01fxc" and len(word) < 3
            job = f"{queue}/cron:{entry}:{tick}" if has_job else ""
            found[int(tick)] = TickNote(int(tick), outcome, job, is_run, int(ms) if ms.isdigit() else None)
    return sorted(found.values(), reverse=True)


def _ticked(count: int) -> Callable[[Any], Ticked]:
    """Reads a digit for each of so many ticks, and the newest of them that has a job."""

    def parse(reply: Any) -> Ticked:
        outcomes, newest = reply
        if not re.fullmatch(rb"[0-9]{%d}" % count, outcomes):
            raise ValueError(f"not {count} digits")
        return Ticked(outcomes.decode(), stored_number(newest))

    return parse


def _states(flat: list[bytes]) -> dict[str, CronState]:
    found: dict[str, dict[str, bytes]] = {}
    for field, value in zip(flat[::2], flat[1::2], strict=True):
        entry, _, name = decoded(field).rpartition(" ")
        found.setdefault(entry, {})[name] = value
    states = {}
    for entry, stored in found.items():
        try:
            states[entry] = _state(entry, stored, 0)
        except (ValueError, TypeError, LookupError, AttributeError):
            continue  # what no verb has written: who asks for this entry is told
    return states


def _state(entry: str, stored: Mapping[str, bytes], now: int) -> CronState:
    known: dict[str, Any] = {name: stored[name].decode() for name in _FIELDS if name in stored}
    known |= {name: stored_number(known[name]) for name in _NUMBERS if name in known}
    if "last_queue" in known and not is_name(known["last_queue"]):
        raise ValueError("not a queue")
    if "decided" in known:
        known["decided"] = DecidedTicks.from_text(known["decided"])
    return CronState(entry, now, **known | {name: name in known for name in _FLAGS})
