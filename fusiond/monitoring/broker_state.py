"""
What a broker tells of all queues at one moment, for `fusiond status --metrics` and `/metrics`.

A queue of which something cannot be read is left out; the others are there all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fusiond.broker.call import Plan, sent_ahead
from fusiond.broker.counters import QueueCounters
from fusiond.broker.event_verbs import SinkState
from fusiond.broker.hosts.host_records import CronDeclaration, FileInForce
from fusiond.broker.outbox_verbs import OutboxState
from fusiond.broker.pool_verbs import PoolUse
from fusiond.broker.records import Counts
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError
from fusiond.inspecting.outbox_states import outbox_states
from fusiond.inspecting.queues import count_each
from fusiond.owners import Owners
from fusiond.schedule.overdue import overdue_since


@dataclass(frozen=True, slots=True)
class BrokerState:
    """What a broker holds."""

    #: queue → how many jobs
    queues: dict[str, Counts]
    #: why other queues are missing there
    unreadable: list[BrokerError] = field(default_factory=list)
    #: queue → its waiting jobs, if no living worker group serves it
    unserved: dict[str, int] = field(default_factory=dict)
    #: cron entry with `alert_if_no_success` → from when on it is overdue, epoch ms; None: it is not
    overdue: dict[str, int | None] = field(default_factory=dict)
    #: the configurations that living daemons run
    files: list[FileInForce] = field(default_factory=list)
    #: queue → what was counted in it
    counters: dict[str, QueueCounters] = field(default_factory=dict)
    #: sink of a living daemon's file → how far it is
    sinks: dict[str, SinkState] = field(default_factory=dict)
    #: outbox of a living daemon's file → how it stands
    outboxes: dict[str, OutboxState] = field(default_factory=dict)
    #: pool → how much of it is taken
    pools: dict[str, PoolUse] = field(default_factory=dict)
    #: who answers for what
    owners: Owners = field(default_factory=dict)


def broker_state(verbs: Verbs) -> Plan[BrokerState]:
    """Ask all of it: two commands for each queue and for each entry with `alert_if_no_success`, and a few more."""
    queues, unreadable = yield from count_each(verbs)
    readings = [verbs.counters([name]) for name in (yield verbs.queues())]
    answers = yield from sent_ahead([reading.calls for reading in readings])
    counters: dict[str, QueueCounters] = {}
    for reading, answer in zip(readings, answers, strict=True):
        counters |= reading.read(answer)
    overdue = yield from overdue_entries(verbs, (yield from verbs.cron_declarations()))
    waiting = {name: counts.waiting for name, counts in queues.items() if counts.waiting}
    catalogue = yield from verbs.catalogue()
    files = yield from verbs.files_in_force()
    return BrokerState(
        queues=queues,
        unreadable=unreadable,
        unserved={name: jobs for name, jobs in waiting.items() if name not in catalogue.serving},
        overdue=overdue,
        files=files,
        counters=counters,
        owners=catalogue.owners,
        sinks=(yield from sink_states(verbs, files, [*queues])),
        outboxes=(yield from outbox_states(verbs, files)),
        pools=(yield from verbs.pool_uses()),
    )


def sink_states(verbs: Verbs, files: Iterable[FileInForce], queues: Sequence[str]) -> Plan[dict[str, SinkState]]:
    """How far the sinks of these files are with the events of these queues."""
    return (yield from verbs.sinks(sorted({name for file in files for name in file.digests.get("sinks", ())}), queues))


def overdue_entries(verbs: Verbs, declarations: Iterable[CronDeclaration]) -> Plan[dict[str, int | None]]:
    """From when on each entry with `alert_if_no_success` is overdue, by its newest living declaration."""
    newest = {each.entry: each.said for each in sorted(declarations, key=lambda each: each.generation) if each.living}
    watched = {entry: said for entry, said in newest.items() if said.get("alert_if_no_success")}
    states = yield [verbs.cron_state(entry) for entry in watched]
    successes = yield [verbs.cron_success(str(said["queue"]), entry) for entry, said in watched.items()]
    each = zip(watched.items(), states, successes, strict=True)
    return {
        entry: overdue_since(float(said["alert_if_no_success"] or 0), state, success)
        for (entry, said), state, success in each
    }
