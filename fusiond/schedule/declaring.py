"""
What a daemon tells the others through Redis: pure, (snapshot, daemon's id) → Calls.

1. the catalogue   which tasks and queues there are: producers need nothing but the URL
2. configuration   what enqueue and claim must know of a queue: its length, suspension, defaults for the inbox
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fusiond.schedule import drift

if TYPE_CHECKING:
    from fusiond.broker.call import Call, Plan
    from fusiond.broker.fleet import Published
    from fusiond.broker.verbs import Verbs
    from fusiond.config.accepted.snapshot import Snapshot
    from fusiond.config.model import Config, Task


def catalogue(
    broker: Verbs, snapshot: Snapshot, daemon: str, *, before: str | None = None, ticks: bool = True
) -> Plan[Published]:
    """
    Publish what may be enqueued, and which cron entries tick.

    Args:
        broker: the verbs.
        snapshot: the configuration.
        daemon: the daemon's id.
        before: the hash that this process has published last.
        ticks: whether the daemon ticks the entries of its file.
    """
    config = snapshot.config
    entries = config.cron if ticks else {}
    return broker.publish_catalogue(
        daemon,
        snapshot.hash,
        {name: _declared(task) for name, task in config.tasks.items()},
        priorities=config.priorities,
        queues=config.queues,
        cron={name: drift.declaration(entry, config.tasks[entry.task]) for name, entry in entries.items()},
        digests=drift.digests(config),
        before=before,
    )


def configuration(broker: Verbs, config: Config) -> list[Call[Any]]:
    """Write each queue's settings; the queues are declared before."""
    calls: list[Call[Any]] = []
    for name, queue in config.queues.items():
        tasks = {task.name: (task.priority, _ms(task.expires)) for task in config.tasks.values() if task.queue == name}
        calls.append(broker.configure(name, max_length=queue.max_length, tasks=tasks))
        calls.append(broker.suspend(name, by="file", on=queue.suspended))
    return calls


def _declared(task: Task) -> dict[str, object]:
    fields = {
        "queue": task.queue,
        "priority": task.priority,
        "expires": task.expires,
        "run": task.run,
        "log_tag": task.log_tag,
        "description": task.description,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
