"""
`python -m tests.chaos.hosts`: three daemons on one Redis, one of them stopped past its leases and continued, again and
again; status 1 where a job came to harm, was begun late, or was settled late.

At random a whole daemon is stopped, as a host that is suspended, or a dispatcher alone, whose children go on.
"""

import signal
import sys
import time

from tests.chaos import redis, strikes
from tests.chaos.faults import Fault
from tests.chaos.package import LEASE
from tests.chaos.plant import DISPATCHER
from tests.support.running import send


def suspended(site):
    """SIGSTOP of all that the daemon is, or of a dispatcher; SIGCONT after longer than a lease."""
    kinds = site.rand.choice(site.hosts).kinds()
    if site.rand.random() < 0.5:
        kinds = dict([site.rand.choice([each for each in kinds.items() if each[1] == DISPATCHER])])
    began = time.time()
    send(signal.SIGSTOP, *kinds)
    site.nap(LEASE + 0.5, LEASE + 1.5)
    send(signal.SIGCONT, *kinds)
    site.faults += [Fault(kind, pid, began, time.time() - began) for pid, kind in kinds.items()]


#: many jobs that run when a host is stopped
MIX = redis.MIX._replace(short=0.6, long=0.015)
SCENARIOS = {"suspended": redis.Scenario(suspended, 30, mix=MIX, hosts=3)}

if __name__ == "__main__":
    sys.exit(strikes.main("hosts", __doc__, SCENARIOS, redis.carry_out))
