"""
One event of a stream, as `lua/shared/events.lua` writes it: what became of a job, or what somebody did.

What another program has added to a stream, and what is cut, is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from fusiond.broker.call import decoded

#: the stream of the daemons' own events, in the place of a queue; no queue has such a name
DAEMONS = "/daemons"
#: ms; `u` of a job that waits for others
_OTHERS = 10**12
#: event → status of the job behind it; of those that may go on later, see `_status`
_STATUS = {
    "claimed": "started", "finished": "finished", "failed": "failed", "canceled": "canceled", "rescued": "queued",
    "held": "held", "requeued": "queued", "queued": "queued", "scheduled": "scheduled",
}  # fmt: skip
_LATER = frozenset({"enqueued", "retry", "snoozed", "released"})
_TEXTS = {"c": "code", "y": "type", "m": "message"}
_ID = re.compile(rb"(\d+)-(\d+)")


class Event(NamedTuple):
    """One event."""

    #: of the queue, or DAEMONS
    stream: str
    #: counts the events of the stream
    number: int
    #: epoch ms by the clock of Redis
    at_ms: int
    #: such as `finished` or `reload.refused`
    name: str
    #: who did it, as the stream has it
    by: str
    #: empty: it is about no job
    job: str
    task: str
    #: letter → value, as lua/shared/events.lua lists them
    words: dict[str, str]

    @property
    def id(self) -> str:
        """The same whenever it is read, and of no other event: a Redis that came back with less counts again."""
        return f"{self.stream}:{self.number}:{self.at_ms}"

    def document(self) -> dict[str, Any]:
        """The event for programs; only what is known."""
        queue = "" if self.stream == DAEMONS else self.stream
        known: dict[str, Any] = {"id": self.id, "event": self.name, "log_time": iso(self.at_ms), "queue": queue}
        known |= {"job_id": self.job, "task": self.task, "task_type": self.words.get("t"), "status": self._status()}
        known |= self._who() | self._times()
        error = {_TEXTS[letter]: self.words[letter] for letter in _TEXTS if letter in self.words}
        known |= {"error": error} if "code" in error else {"message": error.get("message")}
        known |= {"args": self.words.get("a"), "result": self.words.get("r"), "about": self.words.get("o")}
        known["traceparent"] = self.words.get("p")
        late = self.number_of("l")
        known["happened_at"] = None if late is None else iso(self.at_ms - late)
        return {name: value for name, value in known.items() if value not in (None, "")}

    def _status(self) -> str | None:
        if self.name not in _LATER:
            if "s" in self.words:
                return self.words["s"]
            return _STATUS.get(self.name) if self.job else None
        later = self.number_of("u") or 0
        return "deferred" if later >= _OTHERS else "scheduled" if later else "queued"

    def _who(self) -> dict[str, str]:
        if self.by.startswith("@") or "h" in self.words:
            return {"asked_by": self.by[1:], "host": self.words.get("h", "")}
        host, blank, group = self.by.partition(" ")
        return {"host": host, "group": group} if blank else {"host": self.by.rpartition("/")[2].rpartition(".")[0]}

    def _times(self) -> dict[str, Any]:
        """Seconds, and moments: that of a begin comes with the end."""
        found: dict[str, Any] = {"attempt": self.number_of("n")}
        if self.job and self.name != "enqueued":
            found["attempt"] = 1 if found["attempt"] is None else found["attempt"]
        for name, letter in (("wait", "w"), ("duration", "d"), ("delay", "u")):
            ms = self.number_of(letter)
            found[name] = None if ms is None or ms >= _OTHERS else ms / 1000
        began = self.began_ms()
        if began is not None:
            return found | {"began_at": iso(began)}
        since = self.number_of("b")
        return found | {"claimed_at": None if since is None else iso(self.at_ms - since)}

    def began_ms(self) -> int | None:
        """When the attempt that has ended began, epoch ms; None: it is no such event, or it did not begin."""
        claimed, gap = self.number_of("b"), self.number_of("g")
        return None if claimed is None or gap is None else self.at_ms - claimed + gap

    def number_of(self, letter: str) -> int | None:
        """A word that is a number."""
        value = self.words.get(letter, "")
        return int(value) if value.isdecimal() and len(value) < 16 else None


def iso(ms: int) -> str:
    """Epoch ms in ISO 8601, UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_entries(stream: str, reply: Sequence[Any]) -> list[Event]:
    """The events of some entries, as XRANGE replies them."""
    return [event for id_, fields in reply for event in _events(stream, id_, fields)]


def last_number(id_: bytes) -> int:
    """The number of the last event of an entry; 0: it is none of ours."""
    found = _ID.fullmatch(id_)
    return int(found[1]) if found else 0


def _events(stream: str, id_: bytes, fields: list[bytes]) -> Iterator[Event]:
    found = _ID.fullmatch(id_)
    pairs = list(zip(fields[::2], fields[1::2], strict=False))
    if not found or not pairs or pairs[0][0] != b"at" or not pairs[0][1].isdigit():
        return
    at, by = int(pairs.pop(0)[1]), ""
    number = int(found[1]) - int(found[2])
    if pairs and pairs[0][0] == b"by":
        by = decoded(pairs.pop(0)[1])
    for name, lines in pairs:
        for line in lines.split(b"\n"):
            number += 1
            yield Event(stream, number, at, decoded(name), by, *_read_line(line))


def _read_line(line: bytes) -> tuple[str, str, dict[str, str]]:
    """Job, task and words."""
    job, _, rest = line.partition(b" ")
    task, *words = rest.split(b" ")
    said = {decoded(each[:1]): unquote_plus(decoded(each[1:])) for each in words if each}
    return _named(job), _named(task), said


def _named(word: bytes) -> str:
    return "" if word == b"-" else unquote_plus(decoded(word))
