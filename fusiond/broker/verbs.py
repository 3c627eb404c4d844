"""
The broker: one method per verb, none does I/O; what a method returns, a connection runs.

    jobs.py                   enqueue · claim · rescue · renew · settle
    queries.py                job · jobs · place · ids · newest · broken · status · outcome · parents · counts · queues
    counters.py               counters · hours · rates
    failures.py               failures
    maintenance/operator.py   cancel · requeue · discard · suspend · suspend_all · configure
                              declare · sweep · scan · inspect · locks · lock_holder · unlock
                              inspect_locks
    maintenance/whole_queues.py purge · requeue_broken · drop_broken
    maintenance/held_verbs.py has_held_tasks · look_at_held_tasks · end_held
    maintenance/moving.py     move
    effects.py                 deliver · delivery
    flow_records.py           run_record · run_status · step_ends · step_items · runs_to_advance · runs · end_step
                              write_run
    event_verbs.py            events_behind · events_before · keep_events · keeps_events · record_event · hold_sink
                              sinks
    outbox_verbs.py           enqueue_handed · confirm_handed · end_handed · pending_handed · hold_outbox · outboxes
    pool_verbs.py             pools · pool_uses
    ticks.py                  cron_state · cron_states · cron_write · tick · confirm · suspend_cron
                              note_cron_run · note_tick · tick_notes
    hosts/workers.py          announce · withdraw · ask_workers · worker_names · workers
    hosts/daemons.py          publish_catalogue · stay_alive · end_daemon · serve · catalogue · cron_declarations
                              files_in_force
    hosts/outputs.py          keep_output · output_hosts · ask_output · answer_output · output_answers
"""

from __future__ import annotations

from fusiond.broker.call import Call
from fusiond.broker.counters import CounterVerbs
from fusiond.broker.failures import FailureVerbs
from fusiond.broker.flow_records import FlowVerbs
from fusiond.broker.hosts.daemons import DaemonVerbs
from fusiond.broker.hosts.outputs import OutputVerbs
from fusiond.broker.hosts.workers import WorkerVerbs
from fusiond.broker.maintenance.moving import MovingVerbs
from fusiond.broker.maintenance.whole_queues import BulkVerbs
from fusiond.broker.outbox_verbs import OutboxVerbs
from fusiond.broker.pool_verbs import PoolVerbs
from fusiond.broker.ticks import CronState, TickVerbs
from fusiond.job import JobStatus


class Verbs(
    MovingVerbs,
    BulkVerbs,
    CounterVerbs,
    FailureVerbs,
    FlowVerbs,
    TickVerbs,
    WorkerVerbs,
    DaemonVerbs,
    OutboxVerbs,
    OutputVerbs,
    PoolVerbs,
):
    """The verbs in one namespace."""

    def last_status(self, state: CronState) -> Call[JobStatus | None]:
        """How the job, or the run, of a cron entry's last tick stands; None: it is gone, or there was none."""
        queue, job = state.last_queue or "", state.last_job or ""
        return self.run_status(queue, job) if state.last_is_run else self.status(queue, job)
