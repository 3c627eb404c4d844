"""Outboxes: how many rows of applications' databases wait, and which were refused."""

from __future__ import annotations

import time
from dataclasses import dataclass

from fusiond.inspecting.outbox_states import outbox_sentences, outbox_states
from fusiond.web.endpoint import WebCall, reads
from fusiond.web.filters import span


@dataclass(frozen=True, slots=True)
class RefusedRowShown:
    """A row of which no job can be made."""

    id: str
    task: str
    because: str
    #: epoch ms
    at: int


@dataclass(frozen=True, slots=True)
class OutboxShown:
    """One outbox."""

    name: str
    #: rows, counted up to 100,000
    waiting: int
    refused: int
    #: s for which the oldest row waits
    oldest: float
    #: of the daemon that hands over; empty: none has
    host: str
    #: epoch ms at which it said so; 0: never
    at: int
    #: what is wrong
    notes: list[str]
    #: the newest 20 refused rows
    rows: list[RefusedRowShown]


@dataclass(frozen=True, slots=True)
class OutboxesShown:
    """All outboxes of the files of living daemons."""

    outboxes: list[OutboxShown]


async def _show(call: WebCall) -> OutboxesShown:
    backend, now = call.backend, time.time()
    states = await backend.run(outbox_states(backend.verbs, await backend.run(backend.verbs.files_in_force())))
    return OutboxesShown([
        OutboxShown(
            name, state.waiting, state.refused, state.oldest, state.host, round(state.at * 1000),
            [*outbox_sentences(name, state, now, span)],
            [RefusedRowShown(row.id, row.task, row.because, round(row.at * 1000)) for row in state.rows],
        )
        for name, state in states.items()
    ])  # fmt: skip


ENDPOINTS = (
    reads(
        "/outboxes", _show, "Outboxes, and the rows that were refused", OutboxesShown, "outboxes.html", everywhere=True
    ),
)
