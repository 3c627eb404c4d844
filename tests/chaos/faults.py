"""
Kills, stops and cut connections, each noted.

A fault names the process that it hit and those that go with it, so that a second run of a job can be mapped to the
fault that explains it.
"""

import contextlib
import os
import random
import signal
import threading
import time
from typing import NamedTuple

from fusiond.broker.call import as_is, plain
from fusiond.errors import BrokerError
from tests.chaos.package import LEASE
from tests.chaos.plant import CHILD, DISPATCHER, REDIS, SCHEDULER, SERVER, SUPERVISOR, WRAPPER
from tests.support.running import descendants, send

#: faults that are not the end of a process: every connection to Redis is cut in the middle of its commands · Redis is
#: away for longer than a glance, for whatever reason, which is measured
CUT, AWAY = "connections cut", "Redis away"
#: what is done beside a kill or a stop of a kind of process, each function says what
AMBUSH, SNARE, AT_TICK, WHOLE_GROUP = "ambush", "snare", "at a tick", "whole group"
#: a dispatcher is told to end, as by an operator who has it started again: SIGTERM
TERM = "dispatcher ended"


class Fault(NamedTuple):
    """One fault."""

    #: of plant.py, or CUT, AWAY, TERM
    kind: str
    pid: int
    #: epoch s
    at: float
    #: s that the process was stopped, or Redis away; 0: it was killed
    stopped: float = 0.0
    #: pids of the dispatchers that end with it
    takes: frozenset = frozenset()

    @property
    def until(self):
        """Epoch s."""
        return self.at + self.stopped

    @property
    def ends(self):
        """Whether it ended a process."""
        return bool(self.pid) and not self.stopped

    @property
    def kills(self):
        """Whether it did so by SIGKILL."""
        return self.ends and self.kind != TERM


#: how often each is done in a short storm, which is to meet everything
WEIGHTS = {
    CHILD: 56, SNARE: 4, SERVER: 10, DISPATCHER: 10, AMBUSH: 2, TERM: 2, SCHEDULER: 6, REDIS: 4, WRAPPER: 3,
    SUPERVISOR: 3, CUT: 4,
}  # fmt: skip
#: and in a long one
LONG = {
    CHILD: 74, SNARE: 4, SERVER: 8, DISPATCHER: 7, AMBUSH: 0.5, SCHEDULER: 3.5, AT_TICK: 0.5, REDIS: 0.5, WRAPPER: 0.4,
    SUPERVISOR: 1, CUT: 1, WHOLE_GROUP: 0.1, TERM: 0.5,
}  # fmt: skip
#: a stop is short, or longer than a lease of package.py
STOPS = (0.1, 0.3, 1.0, 4.5)


def kill(plant, kind, pid, faults):
    """SIGKILL; a supervisor gets a successor on the same state, at once."""
    plant.remember()
    takes = frozenset(plant.pids(DISPATCHER)) if kind == SUPERVISOR else frozenset()
    fault = Fault(kind, pid, time.time(), takes=takes)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        faults.append(fault)
    if kind == SUPERVISOR:
        plant.process.wait()
        plant.start_up(wait=False)


def stop(kind, pid, seconds, faults, over):
    """SIGSTOP, and SIGCONT after so many seconds, or when `over` is set; noted is what came of it."""
    fault = Fault(kind, pid, time.time(), seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        faults.append(fault)
        over.wait(seconds)
        faults[faults.index(fault)] = fault._replace(stopped=time.time() - fault.at)
        os.kill(pid, signal.SIGCONT)


class FaultsBeside:
    """
    Faults beside a load of some seconds, one after each pause: `with FaultsBeside(…) as faults`, `faults.look()`.

    A child, a dispatcher or Redis is killed, or a dispatcher is stopped for longer than its leases.
    """

    def __init__(self, plant, rand, pause, *, schedulers=0.0):
        """`pause`: s between two faults; `schedulers`: the share of faults that kill the scheduler."""
        self._plant, self._rand, self._pause, self._schedulers = plant, rand, pause, schedulers
        self._next = time.monotonic() + pause
        #: pid → monotonic s at which it goes on
        self._stopped = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._go_on(float("inf"))

    def look(self):
        """Let go on what was stopped for long enough; do the next fault if it is time."""
        now = time.monotonic()
        if now > self._next:
            self._next = now + self._pause
            self._hurt()
        self._go_on(now)

    def _hurt(self):
        kinds = (CHILD, DISPATCHER, DISPATCHER, REDIS)
        kind = SCHEDULER if self._rand.random() < self._schedulers else self._rand.choice(kinds)
        pids = [pid for pid in self._plant.pids(kind) if pid not in self._stopped]
        if not pids:
            return
        pid = self._rand.choice(pids)
        if kind == DISPATCHER and self._rand.random() < 0.5:
            self._stopped[pid] = time.monotonic() + LEASE + 0.5
            send(signal.SIGSTOP, pid)
        else:
            send(signal.SIGKILL, pid)

    def _go_on(self, now):
        for pid in [pid for pid, at in self._stopped.items() if now > at]:
            del self._stopped[pid]
            send(signal.SIGCONT, pid)


def cut(plant, faults, rand):
    """
    Cut each second connection while Redis is busy for 20 ms.

    What was sent meanwhile Redis does first where it was sent before our word, and its reply is lost; what was sent
    after it is not done.
    """
    with contextlib.suppress(BrokerError), plant.connect() as busy, plant.connect() as knife:
        clients = knife.run(plain(as_is, "CLIENT", "LIST")).decode().splitlines()
        ids = [line.split()[0].removeprefix("id=") for line in clients if rand.random() < 0.5]
        thread = threading.Thread(target=_keep_busy, args=(busy,))
        thread.start()
        time.sleep(rand.uniform(0.0, 0.018))
        faults.append(Fault(CUT, 0, time.time()))
        knife.run_many([plain(as_is, "CLIENT", "KILL", "ID", id_, "SKIPME", "yes") for id_ in ids])
        thread.join()


#: not until a time: within a script it stands still
_BUSY = "for _ = 1, 2000000 do end"


def _keep_busy(connection):
    with contextlib.suppress(BrokerError):
        connection.run(plain(as_is, "EVAL", _BUSY, 0))


def ambush(plant, faults, rand):
    """Stop Redis, kill a dispatcher that waits for it, and let Redis do what that one has asked for. False: none."""
    servers, dispatchers = plant.pids(REDIS), plant.pids(DISPATCHER)
    if not (servers and dispatchers):
        return False
    thread = threading.Thread(target=stop, args=(REDIS, servers[0], 0.3, faults, threading.Event()))
    thread.start()
    time.sleep(0.25)
    kill(plant, DISPATCHER, rand.choice(dispatchers), faults)
    thread.join()
    return True


def snare(plant, faults, rand):
    """Kill a child that was handed jobs and could not begin them."""
    if children := plant.pids(CHILD):
        pid = rand.choice(children)
        send(signal.SIGSTOP, pid)
        time.sleep(0.08)
        kill(plant, CHILD, pid, faults)


def tell_to_end(plant, faults, rand):
    """SIGTERM a dispatcher: it gives back what has not begun, and what has not ended within its drain_timeout."""
    if dispatchers := plant.pids(DISPATCHER):
        pid = rand.choice(dispatchers)
        faults.append(Fault(TERM, pid, time.time()))
        send(signal.SIGTERM, pid)


def at_tick(plant, faults, rand):
    """Kill the scheduler as it decides on the ticks of a second, or so that it had not begun to."""
    if rand.random() < 0.5:
        _await_tick(plant)
        for pid in plant.pids(SCHEDULER):
            kill(plant, SCHEDULER, pid, faults)
        return
    time.sleep(1.0 - (time.time() + 0.05) % 1.0)
    for pid in plant.pids(SCHEDULER):
        send(signal.SIGSTOP, pid)
        time.sleep(0.1)
        kill(plant, SCHEDULER, pid, faults)


def _await_tick(plant):
    """Until the first entry's next tick is decided, 3 s at most."""
    deadline = time.monotonic() + 3.0
    with contextlib.suppress(BrokerError), plant.connect() as connection:
        state = plant.broker.cron_state(plant.entries[0])
        before = connection.run(state).last
        while connection.run(state).last == before and time.monotonic() < deadline:
            pass


def stop_group(plant, faults, rand, seconds=3.6):
    """Stop a dispatcher with all that is under it, at work, for longer than its leases: as a host that sleeps."""
    _await_work(plant)
    if not (dispatchers := plant.pids(DISPATCHER)):
        return
    kinds, chosen = plant.kinds(), rand.choice(dispatchers)
    pids = [chosen, *(pid for pid, _ in descendants(chosen) if pid in kinds)]
    over = threading.Event()
    threads = [threading.Thread(target=stop, args=(kinds[pid], pid, seconds, faults, over)) for pid in pids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _await_work(plant, least=100, patience=3.0):
    """Until so many jobs wait, or for so long."""
    deadline = time.monotonic() + patience
    with contextlib.suppress(BrokerError), plant.connect() as connection:
        while time.monotonic() < deadline and connection.run(plant.broker.counts("quick")).queued < least:
            time.sleep(0.002)


_SPECIAL = {
    CUT: cut, AMBUSH: ambush, SNARE: snare, AT_TICK: at_tick, WHOLE_GROUP: stop_group, TERM: tell_to_end,
}  # fmt: skip
#: where nothing else is done, these count
_COUNTED = {CUT, WHOLE_GROUP, TERM}


class Injector(threading.Thread):
    """Faults at random, at a rate, until `count` were done or `end()` was called."""

    def __init__(self, plant, count, rate, *, stops=0.15, pauses=STOPS, weights=None, seed=0):
        """
        A thread that is not started.

        Args:
            plant: what is hit.
            count: kills, or stops where nothing else is done.
            rate: of them, 1/s.
            stops: the share of faults that stop a process in place of killing it; these come on top of the kills.
            pauses: how long a stop is, s.
            weights: in place of WEIGHTS.
            seed: of all chance.
        """
        super().__init__(daemon=True)
        self._plant, self._count, self._stops, self._pauses = plant, count, stops, pauses
        self._rate = rate / (1.0 - stops) if stops < 1.0 else rate
        self._weights = weights or WEIGHTS
        self._rand = random.Random(seed)
        self._over = threading.Event()
        self._stopping = []
        self._stopped = set()
        self._counted = self._kills = 0
        self.faults = []
        self.failure = None

    def run(self):
        due = time.monotonic()
        try:
            while self._done() < self._count:
                # What was missed while nothing was there to be hit is made up for at double the rate.
                due = max(due + 1.0 / self._rate, time.monotonic() - 30.0)
                wait = max(due - time.monotonic(), 0.5 / self._rate)
                if self._over.wait(wait):
                    return
                kind = self._rand.choices(list(self._weights), list(self._weights.values()))[0]
                while not self._strike(kind):
                    if self._over.wait(0.02):
                        return
            for thread in self._stopping:
                thread.join()
        except BaseException as error:
            self.failure = error

    def _done(self):
        """How many that count."""
        new = self.faults[self._counted :]
        self._counted += len(new)
        self._kills += sum(fault.kills for fault in new)
        nothing_else = self._stops == 1.0 or not set(self._weights) - _COUNTED
        return len(self.faults) if nothing_else else self._kills

    def _strike(self, kind):
        """One fault; False: there is nobody to hit. Another kind in its place would mostly be the supervisor."""
        if kind in _SPECIAL:
            return _SPECIAL[kind](self._plant, self.faults, self._rand) is not False
        pids = [pid for pid in self._plant.pids(kind) if pid not in self._stopped]
        if pids:
            self._hit(kind, self._rand.choice(pids))
        return bool(pids)

    def _hit(self, kind, pid):
        if kind != SUPERVISOR and self._rand.random() < self._stops:
            thread = threading.Thread(target=self._hold, args=(kind, pid, self._rand.choice(self._pauses)))
            thread.start()
            self._stopping = [each for each in self._stopping if each.is_alive()] + [thread]
        else:
            kill(self._plant, kind, pid, self.faults)

    def _hold(self, kind, pid, seconds):
        self._stopped.add(pid)
        stop(kind, pid, seconds, self.faults, self._over)
        self._stopped.discard(pid)

    def end(self):
        """No more faults; what is stopped goes on."""
        self._over.set()
        self.join(60)
        for thread in self._stopping:
            thread.join()
        if self.failure:
            raise self.failure


class Pulse(threading.Thread):
    """Asks Redis each 50 ms, and notes when it was away for longer than `least` seconds."""

    def __init__(self, plant, least=0.3):
        super().__init__(daemon=True)
        self._plant, self._least = plant, least
        self._over = threading.Event()
        self.faults = []

    def run(self):
        answered = time.time()
        with self._plant.connect() as connection:
            while not self._over.wait(0.05):
                try:
                    connection.run(plain(as_is, "PING"))
                except BrokerError:
                    continue
                now = time.time()
                if now - answered > self._least:
                    self.faults.append(Fault(AWAY, 0, answered, now - answered))
                answered = now

    def end(self):
        """Listen no more."""
        self._over.set()
        self.join(60)
