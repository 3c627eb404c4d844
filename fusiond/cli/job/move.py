"""`fusiond requeue --from-queue`: move all waiting jobs of a queue to another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.terminal.progress import Progress
from fusiond.cli.terminal.text import count, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.broker.maintenance.moving import Leaving
    from fusiond.cli.find import broker


def move(session: broker.Session, options: arguments.Options) -> int:
    """
    Move all waiting jobs to another queue; returns the exit status.

    If this is interrupted, the same command or a sweep completes it.
    """
    origin, target = session.queues(options.from_queue, options.queue)
    if origin == target:
        raise UsageError(f"--from-queue and --queue are both {origin!r}")
    moved, done = 0, None
    stay: list[Leaving] = []
    with Progress("jobs moved") as progress:
        while done is None or done.jobs or done.taken:
            kinds = [job.kind for job in stay]
            skip = kinds.count(b"queued"), kinds.count(b"scheduled")
            done = session.run(session.verbs.move(origin, target, skip=skip))
            stay += done.taken
            moved += done.jobs
            progress.to(moved)
        session.run(
            session.verbs.record_event(
                origin, "emptied", session.who, [("o", target), ("m", f"{moved} jobs were moved")]
            )
        )
    names = [f"{origin}/{job.id.decode(errors='replace')}" for job in stay]
    served = target in session.run(session.verbs.catalogue()).serving
    found = {"moved": moved, "running": done.running, "taken": names, "served": served}
    text = f"{count(moved, 'job')} moved from {origin} to {target}"
    arguments.answer(options, {"from": origin, "to": target, **found}, lambda: text)
    for sentence in _left(target, names, running=done.running, served=served):
        tell(sentence)
    return REFUSED if stay else OK


def _left(target: str, stay: list[str], *, running: int, served: bool) -> Iterator[str]:
    """What the operator must know of jobs that were not moved, or that nothing runs after the move."""
    if running:
        yield (
            f"{count(running, 'job')} of that queue still {'runs' if running == 1 else 'run'};"
            " one whose dispatcher is dead can be moved once its lease has expired"
        )
    if stay:
        names = ", ".join(stay[:5]) + (", …" if len(stay) > 5 else "")
        why = f"as queue '{target}' has another job of the same id, or one that has its lock (`unique`)"
        yield f"{count(len(stay), 'job')} not moved, {why}: {names}"
    if not served:
        yield f"warning: no living worker group serves queue '{target}' either"
