"""
The broker: one method per verb, none does I/O; what a method returns, a connection runs.

    jobs.py       enqueue · claim · renew · settle
    steering.py   cancel · requeue · requeue_all · suspend · suspend_all · configure · declare · sweep
                  tick · cron_state · suspend_cron
    looking.py    job · jobs · outcome · counts · queues · broken
    fsck.py       check · inspect · inspect_keys · mend · mend_keys
    fleet.py      announce · withdraw · workers · publish_catalogue · catalogue
"""

from __future__ import annotations

from fusiond.broker.fleet import FleetVerbs
from fusiond.broker.fsck import FsckVerbs
from fusiond.broker.jobs import JobVerbs
from fusiond.broker.keys import Keys
from fusiond.broker.looking import LookUps
from fusiond.broker.steering import SteeringVerbs


class Broker(JobVerbs, SteeringVerbs, LookUps, FleetVerbs, FsckVerbs):
    """The verbs in one namespace."""

    __slots__ = ("keys",)

    def __init__(self, namespace: str = "fusion") -> None:
        self.keys = Keys(namespace)
