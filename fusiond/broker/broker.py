"""
The broker: one method per verb, none does I/O; what a method returns, a connection runs.

    jobs.py       enqueue · claim · renew · settle
    steering.py   cancel · requeue · requeue_all · discard · discard_all · suspend · suspend_all · configure ·
                  declare · sweep
    ticks.py      cron_state · cron_states · cron_write · tick · confirm · suspend_cron · status
    moving.py     move · finish_moves · finish_arrivals
    looking.py    job · jobs · outcome · counts · queues · broken
    fsck.py       check · inspect · inspect_keys · mend · mend_keys
    fleet.py      announce · withdraw · ask_workers · workers · publish_catalogue · stay_alive · end_daemon · serve
                  catalogue · cron_declarations · files_in_force
"""

from __future__ import annotations

from fusiond.broker.fleet import FleetVerbs
from fusiond.broker.fsck import FsckVerbs
from fusiond.broker.jobs import JobVerbs
from fusiond.broker.keys import Keys
from fusiond.broker.looking import LookUps
from fusiond.broker.moving import MovingVerbs
from fusiond.broker.steering import SteeringVerbs
from fusiond.broker.ticks import TickVerbs


class Broker(JobVerbs, SteeringVerbs, TickVerbs, MovingVerbs, LookUps, FleetVerbs, FsckVerbs):
    """The verbs in one namespace."""

    __slots__ = ("keys",)

    def __init__(self, namespace: str = "fusion") -> None:
        self.keys = Keys(namespace)
