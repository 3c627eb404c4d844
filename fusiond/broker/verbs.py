"""
The broker: one method per verb, none does I/O; what a method returns, a connection runs.

    jobs.py       enqueue · claim · rescue · renew · settle
    queries.py    job · jobs · status · outcome · counts · queues
    operator.py   cancel · requeue · requeue_all · discard · discard_all · suspend · suspend_all · configure · declare
                  sweep · scan · inspect
    moving.py     move · finish_moves · finish_arrivals
    ticks.py      cron_state · cron_states · cron_write · tick · confirm · suspend_cron
    workers.py    announce · withdraw · ask_workers · worker_names · workers
    daemons.py    publish_catalogue · stay_alive · end_daemon · serve · catalogue · cron_declarations · files_in_force
"""

from __future__ import annotations

from fusiond.broker.daemons import DaemonVerbs
from fusiond.broker.moving import MovingVerbs
from fusiond.broker.operator import OperatorVerbs
from fusiond.broker.ticks import TickVerbs
from fusiond.broker.workers import WorkerVerbs


class Verbs(MovingVerbs, OperatorVerbs, TickVerbs, WorkerVerbs, DaemonVerbs):
    """The verbs in one namespace."""
