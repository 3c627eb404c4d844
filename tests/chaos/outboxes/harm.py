"""
Keep two relays alive, kill and stop them at their failpoints, and harm others while one stands still.

1. arm     each start of a relay with a few failpoints of the story
2. hear    what has fired: a relay that was killed is started again; one that has stopped goes on after some time
3. strike  meanwhile: the database is killed, or Redis is killed, or it loses what its disk or its replica does not have
4. kill    applications, once a second

Whatever may make a job run twice is noted: when Redis has lost something.
"""

import random
import signal
import time
from collections import Counter
from typing import NamedTuple

from tests.chaos.outboxes.site import LEASE
from tests.failpoints import parse
from tests.support.running import send

#: s that a relay stands still: until another one has taken over; until its rows' jobs may not be stored any more, and
#: the markers of another one's are gone
WHILE, LONG = 1.9, 7.0
#: s from one kill of an application to the next
PAUSE = 1.0
#: s after which a relay that has gone on is killed, so that it gets other failpoints
THEN = 1.0
#: s in which a relay that has noted a failpoint is killed or has stopped
GRACE = 0.3
#: failpoints of one start of a relay; not all, so that the rare ones fire, too
FEW = 3


class Loss(NamedTuple):
    """Redis was killed, or has lost something."""

    #: epoch s; and when it was there again
    at: float
    until: float


class Harm:
    """What is done to a site. By the main thread: whatever another thread has started ends with it."""

    def __init__(self, site, story, rand):
        self._site, self._story, self._rand = site, story, rand
        self._read = 0
        #: monotonic s, signal, pid: what goes on then, or is killed
        self._signals = []
        #: monotonic s of the last kill that no failpoint was for
        self._killed_at = time.monotonic()
        self.losses, self.done = [], Counter()

    def go_on(self):
        """What is due now."""
        self._keep_relays()
        while len(self._site.applications) < self._story.applications:
            self._site.start_application(self._rand.randrange(10**9), self._story.slowest, self._story.pause)
        self._hear()
        self._send_due()
        if self._story.kills_applications and time.monotonic() - self._killed_at > PAUSE:
            self._kill_application()
        if self._story.armed == 1 and not self._signals and time.monotonic() - self._killed_at > 2 * PAUSE:
            self._killed_at = time.monotonic()
            # So that the other one, which has failpoints, gets the outbox: a relay that is soon back has it still.
            self._site.relays[1].rest(LEASE + 0.3)

    def end(self):
        """Return when no application runs, no failpoint fires, and relays run that have none."""
        while self._site.applications:
            self._site.kill_application()
        self._site.fired.rename(self._site.fired.with_suffix(".old"))
        time.sleep(GRACE)
        self._hear()
        while self._signals:
            self._send_due()
            time.sleep(0.02)
        while any(relay.is_dead for relay in self._site.relays):
            self._keep_relays()
            time.sleep(0.02)

    def _keep_relays(self):
        for place, relay in enumerate(self._site.relays):
            if relay.is_dead and not relay.rests:
                few = min(FEW, len(self._story.rules)) if place < self._story.armed else 0
                relay.start(",".join(self._rand.sample(self._story.rules, few)))

    def _log(self):
        fired = self._site.fired
        return fired if fired.exists() else fired.with_suffix(".old")

    def _hear(self):
        text = self._log().read_bytes()[self._read :]
        self._read += len(text)
        for line in text.decode().splitlines():
            _, pid, _, _, point, action = line.split()
            self.done[f"{point} {action}"] += 1
            if action == "stop":
                self._strike(int(pid))

    def _strike(self, pid):
        """While this relay stands still."""
        meanwhile = self._rand.choice(self._story.meanwhile)
        self.done[meanwhile] += 1
        if meanwhile == "the database is killed":
            self._site.data.restart()
        elif meanwhile in ("Redis is killed", "Redis loses"):
            at = time.time()
            (self._site.redis.lose if meanwhile == "Redis loses" else self._site.redis.restart)()
            self.losses.append(Loss(at, time.time()))
        seconds = {"it waits": WHILE, "it waits long": LONG}.get(meanwhile, self._rand.uniform(0.0, WHILE))
        at = time.monotonic() + seconds
        self._killed_at = time.monotonic() + seconds
        self._signals += [(at, signal.SIGCONT, pid), (at + THEN, signal.SIGKILL, pid)]

    def _send_due(self):
        for due in [each for each in self._signals if each[0] <= time.monotonic()]:
            send(*due[1:])
            self._signals.remove(due)

    def _kill_application(self):
        self._killed_at = time.monotonic()
        if self._site.applications:
            self._site.kill_application(self._rand.randrange(len(self._site.applications)))
            self.done["an application is killed"] += 1


def rules(points, actions, probability):
    """A failpoint for each."""
    made = [f"row.{point}:{action}:{probability}" for point in points for action in actions]
    parse(",".join(made))
    return tuple(made)


def seeded(seed):
    """What chooses."""
    return random.Random(seed)
