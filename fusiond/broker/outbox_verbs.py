"""
The verbs of outboxes: tables in databases of applications, from whose rows jobs are made.

A row that is handed over leaves a marker in its queue, in the script that stores the job: see lua/shared/handed.lua.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from fusiond.broker.call import Call, decoded, fields, nothing, plain, scripted, text_map
from fusiond.broker.jobs import new_job_words, stored_replies
from fusiond.broker.keys import VerbGroup
from fusiond.broker.records import NewJob, Stored

#: s for which the oldest row of an outbox may wait
_LATE = 30.0
#: s after which what an outbox says of itself is old
_SILENT = 60.0
#: markers that one call reads
_PAGE = 1000


class RefusedRow(NamedTuple):
    """A row of which no job can be made."""

    id: str
    task: str
    because: str
    #: epoch s
    at: float


class OutboxState(NamedTuple):
    """What the daemon that hands over the rows of an outbox last said of it."""

    #: rows that wait, up to 100,000 counted; rows that were refused, the same
    waiting: int = 0
    refused: int = 0
    #: s for which the oldest row waits
    oldest: float = 0.0
    #: why rows cannot be handed over now; empty: they can
    failing: str = ""
    #: the refused rows, the newest 20
    rows: tuple[RefusedRow, ...] = ()
    #: of the daemon that said it
    host: str = ""
    #: epoch s, by its clock
    at: float = 0.0

    @property
    def is_stuck(self) -> bool:
        """Whether rows wait for longer than they should."""
        return bool(self.failing) or self.oldest > _LATE

    def is_silent(self, now: float) -> bool:
        """Whether no daemon has said anything of it of late. `now`: epoch s."""
        return now - self.at > _SILENT

    def to_json(self) -> str:
        """As it is kept in Redis."""
        return json.dumps(self._asdict(), default=repr)  # SQLite may have bytes where a text is meant

    @classmethod
    def from_json(cls, said: str) -> OutboxState:
        """The state that `to_json` has written; an empty one where another version has written something else."""
        try:
            known = {name: value for name, value in json.loads(said).items() if name in cls._fields}
            known["rows"] = tuple(RefusedRow(*row) for row in known.get("rows", ()))
            return cls(**known)
        except (ValueError, TypeError, AttributeError):
            return cls()


class OutboxVerbs(VerbGroup):
    """The verbs of the program that hands over, and of those that show it."""

    def enqueue_handed(
        self, queue: str, outbox: str, jobs: Sequence[NewJob], deadline: int
    ) -> Call[list[Stored] | None]:
        """
        Store the jobs of rows, as `enqueue` does; those that were handed over before are `same`.

        `deadline`: epoch ms by the clock of Redis; from then on nothing is done, and the reply is None.
        """
        read = stored_replies(len(jobs))
        words = [outbox, deadline, *(word for job in jobs for word in new_job_words(job))]
        return scripted(
            "enqueue_handed", self.keys.root(queue), words, lambda reply: None if reply == b"late" else read(reply)
        )

    def confirm_handed(self, queue: str, outbox: str, ids: Sequence[str]) -> Call[tuple[int, list[bool]]]:
        """
        Whether each of the rows has a marker. Behind this, a WAIT or WAITAOF holds for all that have one.

        Returns the clock of Redis, epoch ms, and a truth value for each row.
        """

        def parse(reply: Any) -> tuple[int, list[bool]]:
            now, flags = fields(reply, int, bytes)
            if len(flags) != len(ids):
                raise ValueError(f"not {len(ids)} digits")
            return now, [flag == ord("1") for flag in flags]

        return scripted("confirm_handed", self.keys.root(queue), (outbox, *ids), parse)

    def end_handed(self, queue: str, outbox: str, ids: Sequence[str]) -> Call[None]:
        """These rows are deleted, and that is committed: keep their markers for 10 more minutes."""
        return scripted("end_handed", self.keys.root(queue), (outbox, *ids), nothing)

    def pending_handed(self, queue: str, outbox: str, skipped: int) -> Call[list[str]]:
        """Some rows with a marker that nobody has called deleted, behind the first `skipped` of them."""
        words = (self.keys.of(queue, "handed", outbox), "-inf", "(0", "LIMIT", skipped, _PAGE)
        return plain(lambda reply: [*map(decoded, reply)], "ZRANGEBYSCORE", *words)

    def hold_outbox(self, outbox: str, token: str, ms: int, state: OutboxState) -> Call[bool]:
        """Hand over the rows of an outbox, for `ms` from now on; 0: no more. False: another daemon does."""
        words = (outbox, token, ms, state.to_json(), 0)
        return scripted("hold_program", self.keys.outboxes, words, lambda reply: reply is not None)

    def outboxes(self) -> Call[dict[str, OutboxState]]:
        """What is said of each outbox that any daemon has had."""

        def parse(reply: Any) -> dict[str, OutboxState]:
            said = text_map(reply)
            known = [(name.removesuffix(" says"), text) for name, text in said.items() if name.endswith(" says")]
            return {name: OutboxState.from_json(text) for name, text in known}

        return plain(parse, "HGETALL", self.keys.outboxes)
