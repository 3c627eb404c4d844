"""Broken bodies: what could not be read of queues, and why; back into the inbox, or dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fusiond.broker.queries import BrokenBody
from fusiond.inspecting.queues import newest_bodies
from fusiond.masking import HIDDEN, Secret, masked_body
from fusiond.web.endpoint import Done, NotThere, WebCall, acts, reads
from fusiond.web.inputs import Input
from fusiond.web.pages.queue_pages import NAME, known_queue

_BODY = (NAME, Input("body", "the digest of a body", "path", pattern="[0-9a-f]{12}", required=True))
#: bodies that are shown of a queue; characters of one that are shown
_SHOWN: Final = 20
_TEXT: Final = 2000


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """One body."""

    queue: str
    #: for `requeue` and `drop`
    digest: str
    #: epoch ms
    at: int
    reason: str
    size: int
    #: its begin
    text: str
    #: whether it was pushed, so that it can go to the inbox again
    was_pushed: bool


@dataclass(frozen=True, slots=True)
class Broken:
    """The newest bodies of each queue."""

    bodies: list[BrokenRow]
    #: queue → bodies that are kept
    counts: dict[str, int]


async def _show(call: WebCall) -> Broken:
    backend = call.backend
    counted, _ = await backend.counts()
    queues = {name: counts.broken_kept for name, counts in counted.items() if counts.broken_kept}
    secret = await backend.secret()
    rows: list[BrokenRow] = []
    for queue in queues:
        newest = await backend.run(newest_bodies(backend.verbs, queue, most=_SHOWN))
        rows += [_row(queue, body, secret, hides=backend.hides_arguments) for body in newest]
    return Broken(sorted(rows, key=lambda row: row.at, reverse=True), queues)


def _row(queue: str, body: BrokenBody, secret: Secret, *, hides: bool) -> BrokenRow:
    text = HIDDEN if hides else masked_body(body.raw, secret)[:_TEXT].decode(errors="backslashreplace")
    return BrokenRow(queue, body.digest, body.at, body.reason, len(body.raw), text, body.was_pushed)


async def _find(call: WebCall) -> BrokenBody:
    """The body that the call names. Raises NotThere."""
    queue = await known_queue(call)
    is_meant = lambda body: body.digest == call["body"]  # noqa: E731
    found = await call.backend.run(newest_bodies(call.backend.verbs, queue, is_meant, most=1))
    if not found:
        raise NotThere(f"queue {queue} has no broken body {call['body']} any more")
    return found[0]


async def _requeue(call: WebCall) -> Done:
    body, queue = await _find(call), call["queue"]
    if not body.was_pushed:
        return Done(
            f"{queue}/{body.digest} stays: it is what was left of a stored job, which nobody pushed", done=False
        )
    moved = await call.backend.run(call.backend.verbs.requeue_broken(queue, [body.entry], who=call.asker))
    return Done(
        f"{queue}/{body.digest} {'is in the inbox again' if moved else 'is no longer there'}", bool(moved), moved
    )


async def _drop(call: WebCall) -> Done:
    body, queue = await _find(call), call["queue"]
    dropped = await call.backend.run(call.backend.verbs.drop_broken(queue, body.entry, who=call.asker))
    return Done(f"{queue}/{body.digest} is {'dropped' if dropped else 'no longer there'}", bool(dropped))


ENDPOINTS = (
    reads("/broken", _show, "Bodies that could not be read", Broken, "broken.html"),
    acts("requeue", "/broken/{queue}/{body}/requeue", _requeue, "Put a body into its inbox again", _BODY),
    acts("delete", "/broken/{queue}/{body}/drop", _drop, "Delete a body", _BODY),
)
