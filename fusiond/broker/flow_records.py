"""
The verbs of runs of flows: their records, in the slot of the flow's queue.

What follows from a record is worked out elsewhere (`fusiond/flows`); here it is read, and written unless it has changed
since. Values of users are raw JSON throughout.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fusiond.broker.call import Call, Word, decoded, nothing, number, plain, scripted, texts
from fusiond.broker.keys import VerbGroup
from fusiond.broker.records import NewJob
from fusiond.callbacks import split
from fusiond.job import JobStatus

#: ms after which another one is told of a run that nobody has advanced
ADVANCED_WITHIN: Final = 3_000
#: letters of ends, in the order of `RunRecord.ends`
LETTERS: Final = "fxc"


class StepOf(NamedTuple):
    """A run as a step of another one, in the same queue; or a job, as a step of a run."""

    run: str
    step: str
    #: 0, or its item's place in the list of `for_each`
    n: int
    round: int

    def to_text(self) -> str:
        """`<run> <step> <n> <round>`."""
        return " ".join(map(str, self))

    @classmethod
    def from_text(cls, text: str) -> StepOf | None:
        """The reverse; None for the empty text. Raises ValueError."""
        if not text:
            return None
        run, step, n, round_ = text.split(" ")
        return cls(run, step, int(n), int(round_))


class RunRecord(NamedTuple):
    """A run as it is stored."""

    id: str
    version: int
    created_at: int
    #: 0: it goes on
    ended_at: int
    #: raw JSON: shape, inputs, state
    shape: bytes
    inputs: bytes
    state: bytes
    step_of: StepOf | None
    #: step → its jobs that have finished, failed and were canceled
    ends: Mapping[str, tuple[int, int, int]]
    #: step → when its jobs began and ended, of those that have ended
    spans: Mapping[str, StepSpan]


class StepSpan(NamedTuple):
    """The times of the jobs of a step in its last round: epoch ms."""

    began_at: int
    ended_at: int
    #: ms that the slowest one took, and its number
    most_ms: int
    slowest: int


class StepEnd(NamedTuple):
    """How a job of a step has ended."""

    round: int
    #: f: finished · x: failed · c: canceled
    letter: str
    #: raw JSON of the result, or why it failed
    payload: bytes
    #: epoch ms; None: it never began, or nobody knows
    began_at: int | None = None
    ms: int | None = None


@dataclass(slots=True)
class RunWrite:
    """What a verb is to write of a run."""

    #: name → value; None is not written
    fields: dict[str, Word]
    #: ms after which it is to be advanced again; None: an end of a job does that
    again_ms: int | None = None
    #: ms that it is kept, as it has ended; None: it goes on
    kept_ms: int | None = None
    #: then as a step of another run, the letter of its end, and its result or why it failed
    end: tuple[str, bytes] = ("", b"")
    step_of: StepOf | None = None
    #: an event that is told of it, such as `flow.suspended`, and who asked for it; empty: none
    event: str = ""
    who: str = ""
    #: runs that begin: id → fields
    runs: dict[str, dict[str, Word]] = field(default_factory=dict)
    #: jobs that begin, with their queues
    jobs: list[tuple[str, NewJob]] = field(default_factory=list)


class FlowVerbs(VerbGroup):
    """Verbs of runs of flows."""

    def run_record(self, queue: str, run: str) -> Call[RunRecord | None]:
        """The record; None: there is none."""
        return plain(lambda flat: _record(run, flat), "HGETALL", self.keys.of(queue, "flow", run))

    def run_status(self, queue: str, run: str) -> Call[JobStatus | None]:
        """Its status, as a job would have it: started while it goes on; None: there is none."""
        return plain(_status, "HGET", self.keys.of(queue, "flow", run), "state")

    def step_ends(self, queue: str, run: str, fields: Sequence[str]) -> Call[list[StepEnd | None]]:
        """How these jobs ended, each named `<step>.<n>`; None: not yet."""
        return plain(_ends, "HMGET", f"{self.keys.of(queue, 'flow', run)}/ends", *fields)

    def step_items(self, queue: str, run: str, step: str, first: int, last: int) -> Call[list[StepEnd | None]]:
        """How the jobs of a step from number `first` to `last` ended, without their results; None: not yet."""
        words = (run, step, first, last)
        return scripted(
            "flow_items", self.keys.root(queue), words, lambda reply: _ends([each or None for each in reply])
        )

    def runs_to_advance(self, queue: str, most: int) -> Call[list[str]]:
        """The runs that can go a step further, for the caller to advance."""
        return scripted(
            "flow_due",
            self.keys.root(queue),
            (most, ADVANCED_WITHIN),
            lambda ids: [decoded(each) for each in texts(ids)],
        )

    def runs(self, queue: str, most: int, first: int = 0) -> Call[list[str]]:
        """The ids of runs, those that go on first, then those that will be kept longest."""
        key = self.keys.of(queue, "flows")
        return plain(lambda ids: [decoded(each) for each in ids], "ZREVRANGE", key, first, first + most - 1)

    def end_step(self, queue: str, where: StepOf, letter: str, why: str) -> Call[None]:
        """A job of a step has ended, as its effects would say it; what was told before changes nothing."""
        return scripted("flow_end", self.keys.root(queue), (*where, letter, why), nothing)

    def write_run(self, queue: str, run: str, version: int | None, write: RunWrite) -> Call[bool]:
        """
        Write a run, unless it was changed since it was read, and have jobs and runs begin.

        Args:
            queue: of its flow.
            run: its id.
            version: that was read; None: it is new.
            write: what.
        """
        words: list[Word] = [run, "" if version is None else version]
        words += ["" if ms is None else ms for ms in (write.again_ms, write.kept_ms)]
        words += [write.step_of.to_text() if write.step_of else "", *write.end, write.event, write.who]
        words += _list(_pairs(write.fields))
        words.append(len(write.runs))
        for child, fields in write.runs.items():
            words += (child, *_list(_pairs(fields)))
        words.append(len(write.jobs))
        for target, job in write.jobs:
            words += (target, *_list(_job_words(job)))
        return scripted("flow_write", self.keys.root(queue), words, lambda reply: bool(number(reply)))


def _job_words(job: NewJob) -> list[Word]:
    """As the kind `enqueue` of deliver.lua has it."""
    expires = 0 if job.expires_ms is None else job.expires_ms
    letters = split(job.follow)[0] if job.follow else ""
    numbers = str(job.priority), str(expires)
    return [job.id, job.task, job.args, *numbers, job.unique or "", job.header(), letters, job.flow or ""]


def _pairs(fields: Mapping[str, Word]) -> list[Word]:
    return [word for pair in fields.items() for word in pair]


def _list(words: Sequence[Word]) -> list[Word]:
    return [len(words), *words]


def _record(run: str, flat: list[bytes]) -> RunRecord | None:
    if not flat:
        return None
    try:
        return _read(run, flat)
    except (ValueError, LookupError, TypeError):
        # No state can be read of it, which is then told wherever it is used: the error of a reply would end a plan.
        return RunRecord(run, 0, 0, 0, b"", b"", b"", None, {}, {})


def _read(run: str, flat: list[bytes]) -> RunRecord:
    said = {decoded(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
    ends: dict[str, list[int]] = {}
    spans = {name[2:]: StepSpan(*map(int, value.split())) for name, value in said.items() if name[:2] == "s " and value}
    for name, value in said.items():
        letter, _, step = name.partition(" ")
        if step and letter in LETTERS:
            ends.setdefault(step, [0, 0, 0])[LETTERS.index(letter)] = int(value)
    return RunRecord(
        run,
        int(said["version"]),
        int(said["created_at"]),
        int(said.get("ended_at") or 0),
        said["shape"],
        said["inputs"],
        said["state"],
        StepOf.from_text(decoded(said.get("step_of", b""))),
        {step: (each[0], each[1], each[2]) for step, each in ends.items()},
        spans,
    )


def _status(state: bytes | None) -> JobStatus | None:
    if state is None:
        return None
    word = json.loads(state)["status"]
    return JobStatus.STARTED if word == "running" else JobStatus(word)


def _ends(reply: list[bytes | None]) -> list[StepEnd | None]:
    return [None if each is None else _end(each) for each in reply]


def _end(raw: bytes) -> StepEnd:
    round_, ending, payload = raw.split(b" ", 2)
    began, _, ms = ending[1:].partition(b"+")
    times = (int(began), int(ms)) if ms else ()
    return StepEnd(int(round_), ending[:1].decode(), payload, *times)
