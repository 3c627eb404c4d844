"""How the outboxes stand, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusiond.broker.call import Plan
from fusiond.broker.hosts.host_records import FileInForce
from fusiond.broker.outbox_verbs import OutboxState
from fusiond.broker.verbs import Verbs
from fusiond.inspecting.why_waiting import Span


def outbox_states(verbs: Verbs, files: Iterable[FileInForce]) -> Plan[dict[str, OutboxState]]:
    """The outboxes of these files, by name."""
    names = sorted({name for file in files for name in file.digests.get("outboxes", ())})
    known: dict[str, OutboxState] = (yield verbs.outboxes()) if names else {}
    return {name: known.get(name, OutboxState()) for name in names}


def outbox_sentences(name: str, state: OutboxState, now: float, span: Span) -> Iterator[str]:
    """What somebody should do something about. `now`: epoch s; `span`: writes a length of time."""
    if not state.at:
        yield f"outbox '{name}': no daemon has handed over rows yet; is the program outbox:{name} running?"
    elif state.is_silent(now):
        ago = span(now - state.at)
        yield f"outbox '{name}': no daemon has handed over rows for {ago}; is the program outbox:{name} running?"
    elif state.failing:
        yield f"outbox '{name}' cannot hand over rows: {state.failing}"
    elif state.is_stuck:
        yield f"outbox '{name}': the oldest of {state.waiting:,} rows waits for {span(state.oldest)}"
    if state.refused:
        rows = "1 row" if state.refused == 1 else f"{state.refused:,} rows"
        yield f"outbox '{name}' has refused {rows}: fusiond outbox list {name}"


def all_outbox_sentences(states: Mapping[str, OutboxState], now: float, span: Span) -> list[str]:
    """The same of all outboxes."""
    return [each for name, state in states.items() for each in outbox_sentences(name, state, now, span)]


def outbox_documents(states: Mapping[str, OutboxState]) -> dict[str, dict[str, Any]]:
    """As JSON."""
    return {name: {**state._asdict(), "rows": [row._asdict() for row in state.rows]} for name, state in states.items()}
