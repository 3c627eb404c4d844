"""
`python -m tests.chaos.matrix`: each failpoint, in each kind of process that has it, fires so many times under load.

For each step of tests/failpoints.py a daemon of its own:

1. start   it with the step's two points armed, each with every action
2. load    jobs, and what else the step needs to be passed: reloads, stopped dispatchers, restarts, other failpoints
3. keep    it going: what stopped itself goes on after a while, longer than a lease; an ended daemon is started again
4. peace   once every point has fired often enough: no more faults, and the same daemon ends all jobs
5. judge   the ledger by verdict.py; each firing is a fault of it

Prints a line for each point and kind of process; status 1 where a job came to harm or a point fired too seldom.
"""

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fusiond.client import Client
from fusiond.errors import FusionError, QueueFull
from tests import failpoints
from tests.chaos import ledger, plant, trial, verdict
from tests.chaos.faults import TERM, Fault, Pulse
from tests.chaos.load import Load, Mix
from tests.chaos.package import LEASE, LOGGED, MARGIN, RENEW, SHORTER, Edit
from tests.chaos.plant import Plant
from tests.failpoints import (
    CHILD,
    DISPATCHER,
    HOOK,
    LOG,
    REDIS,
    RELAY,
    SCHEDULER,
    SERVER,
    STEPS,
    SUPERVISOR,
    VARIABLE,
)
from tests.support.running import send, until

#: what each point does, and how often, relative to the others
ACTIONS = {"kill": 0.4, "stop": 0.2, "raise": 0.4}
#: s that a process is stopped: past its lease where it holds any
PAST_LEASE, SHORT_STOP = LEASE + 0.6, 0.4
#: jobs a second
RATE = 60.0
#: jobs that may wait, quick ones, or the producer does: a daemon that is hit without end must come to rest in time
BACKLOG = 200
#: of which the time is taken in which every job has to end after the last fault
PEACE = trial.Plan(jobs=0, seconds=0, faults=0)
#: s; of a point that fires too seldom, for each firing that is wanted, and at least
PATIENCE, LEAST = 10.0, 60.0
#: the steps of these daemons, which have no outbox: `tests.chaos.outboxes` has the relay's
OWN = [name for name, step in STEPS.items() if step.actor != RELAY]
#: actor of a failpoint → kind of process
KINDS = {
    CHILD: plant.CHILD, SERVER: plant.SERVER, DISPATCHER: plant.DISPATCHER,
    SCHEDULER: plant.SCHEDULER, SUPERVISOR: plant.SUPERVISOR, REDIS: plant.WRAPPER,
}  # fmt: skip
#: actors of which each worker group has its own
OF_GROUPS = (CHILD, SERVER, DISPATCHER)
ISOLATIONS = {"f": "fork", "p": "process"}
#: steps that are one isolation's alone: a fresh child gets one job, another one batches
ONLY = {"receive": ["process"], "receive-one": ["fork"]}

FILE = """
broker: {{url: embedded}}
retry_policies: {{hardy: {{max_crashes: 1000, max_attempts: 1000, backoff: [50ms]}}}}
queues: {{quick: {{max_length: {turn}}}, slow: {{max_length: 100}}, timed: {{}}}}
defaults:
  tasks: {{retry: hardy, pass_job: job, result_ttl: 1h}}
  workers:
    directory: {app}
    environment: {{RUNS: {runs}}}
    drain_timeout: 1s
tasks:
  quick: {{run: work.run, queue: quick}}
  slow: {{run: work.run, queue: slow}}
  timed: {{run: work.run, queue: timed}}
cron:
  ticking: {{task: timed, every: 1s, args: [0.0], missed: all, overlap: allow}}
workers:
"""
GROUP = "  {name}: {{queues: '*', processes: 2, isolation: {isolation}, max_jobs: {jobs}{more}}}\n"
#: the programs' pauses, which would make most of a trial
QUICKER = (
    *SHORTER,
    *LOGGED,
    Edit(
        "worker/dispatcher/claims/leases.py",
        f"MARGIN = {LEASE}, {RENEW}, {MARGIN}",
        f"MARGIN = {LEASE}, {RENEW / 3}, {MARGIN}",
    ),
    Edit("schedule/sweeping.py", "PERIOD = 60.0", "PERIOD = 0.3"),
    Edit("schedule/publishing.py", "PUBLISH = 60.0", "PUBLISH = 0.4"),
)


@dataclass(frozen=True)
class Course:
    """How a step comes to be passed."""

    #: that its points fire, when they are passed
    probability: float
    #: s between two of what else is done to the daemon, and what that is
    pause: float = 0.0
    does: str = ""
    #: more failpoints
    more: str = ""
    #: of `after`, where `before` leaves little of it
    later: float = 0.0
    #: the jobs
    mix: Mix = Mix()  # noqa: RUF009 - immutable
    actions: tuple = tuple(ACTIONS)


_CANCELED = Mix(short=0.6, canceled=0.5)
_CRASHES, _UNBEGUN, _SERVERS = "task.before:kill:0.1", "begin.before:kill:0.1", "reap.after:kill:0.03"
COURSES = {
    DISPATCHER: Course(0.15),
    SERVER: Course(0.15),
    CHILD: Course(0.15),
    SCHEDULER: Course(0.45, later=0.7),
    SUPERVISOR: Course(0.45, 0.1, "reload", later=0.9),
    REDIS: Course(0.4, 0.2, "end redis", later=0.8),
    "exchange": Course(0.04),
    "wake": Course(0.04),
    "bring": Course(0.04),
    "given": Course(0.3),
    "renew": Course(0.25),
    "fence": Course(0.4, mix=_CANCELED, later=0.7),
    "kill": Course(0.4, mix=_CANCELED, later=0.7),
    "release": Course(0.4, more=_UNBEGUN),
    "crash": Course(0.3, more=_CRASHES),
    "died": Course(0.15, more=_CRASHES),
    "orphans": Course(0.5, more=_SERVERS, later=0.9),
    # A fork server that cannot load is for good, until a reload: an error at that moment is taken for the file's.
    "preload": Course(0.4, more=_SERVERS, later=0.7, actions=("kill", "stop")),
    "reap": Course(0.15, more=_CRASHES),
    "adopt": Course(0.15, more=_CRASHES),
    "report-death": Course(0.15, more=_CRASHES),
    "apply": Course(0.45, 0.1, "reload", later=0.9),
    "configure": Course(0.45, 0.1, "reload", later=0.9),
    "accept": Course(0.45, 0.1, "kill the supervisor", later=0.9),
    "spawn": Course(0.08, 0.1, "reload"),
    "ended": Course(0.4, 0.1, "reload", "declare.after:exit:0.2", later=0.6),
    "stop": Course(0.4, 0.1, "end the daemon", later=0.6),
    # Each turn of the loop passes it.
    "tell": Course(0.01, 0.1, "reload"),
    "write": Course(0.3, 0.1, "reload", later=0.6),
}


class Firing(NamedTuple):
    """One line of the log of failpoints."""

    #: epoch s
    at: float
    pid: int
    actor: str
    #: a worker group, or "-"
    where: str
    point: str
    action: str
    #: s; of a stop
    seconds: float

    @property
    def fault(self):
        """An error may end a process, at once, later or not at all."""
        kind = TERM if self.action == "raise" else KINDS[self.actor]
        return Fault(kind, self.pid, self.at, self.seconds)

    @property
    def row(self):
        """Point and kind of process, with the isolation where there are two."""
        return self.point, label(self.actor, ISOLATIONS.get(self.where[0]))


def label(actor, isolation):
    return f"{actor}, {isolation}" if isolation and actor in OF_GROUPS else actor


def read(line):
    at, pid, actor, where, point, what = line.split()
    action, _, seconds = what.partition("=")
    return Firing(float(at), int(pid), actor, where, point, action, float(seconds or 0))


def rows(step):
    """All rows that a step should have."""
    actor = STEPS[step].actor
    isolations = ONLY.get(step, ISOLATIONS.values()) if actor in OF_GROUPS else [None]
    return [(f"{step}.{side}", label(actor, isolation)) for isolation in isolations for side in ("before", "after")]


def rules(step, course, actions):
    """The value of FUSIOND_FAILPOINTS."""
    stopped = PAST_LEASE if STEPS[step].actor in OF_GROUPS else SHORT_STOP
    chosen = {action: ACTIONS[action] for action in course.actions if action in actions}
    armed = [
        f"{step}.{side}:{action}{f'={stopped}' if action == 'stop' else ''}:{probability * share:.6f}"
        for side, probability in (("before", course.probability), ("after", course.later or course.probability))
        for action, share in chosen.items()
    ]
    return ",".join([*armed, *([course.more] if course.more else [])])


class Fired(Plant):
    """A daemon with failpoints; `tend()` reads what has fired, continues what has stopped, starts it again."""

    def __init__(self, step, actions, groups):
        super().__init__(QUICKER)
        self.course = COURSES.get(step) or COURSES[STEPS[step].actor]
        self.fired = self.directory / "fired"
        self.fired.touch()
        self.environment |= {**HOOK, VARIABLE: rules(step, self.course, actions), LOG: str(self.fired)}
        self.environment["PYTHONDONTWRITEBYTECODE"] = ""  # whoever starts this may want none; a thousand starts do
        self._groups = groups if STEPS[step].actor in OF_GROUPS else 1
        self._turn, self.entries = BACKLOG, ["ticking"]
        self.firings, self._read = [], 0
        #: epoch s, pid
        self._stopped = []
        self.next_turn()

    def next_turn(self):
        """The file, again: one group is to be replaced, the others follow in place."""
        self._turn += 1
        turn = f", environment: {{RUNS: {self.runs}, TURN: '{self._turn}'}}"
        groups = [
            GROUP.format(name=f"{letter}{n}", isolation=isolation, jobs=jobs, more="" if n else more)
            for letter, isolation, jobs, more in (("f", "fork", 1, turn), ("p", "process", 3, ""))
            for n in range(self._groups)
        ]
        self.write(FILE.format(app=self.app, runs=self.runs, turn=self._turn) + "".join(groups))

    def begin(self):
        """Start it, whatever becomes of it."""
        self.start(environment=self.environment, wait=False)

    def tend(self):
        """One look."""
        with self.fired.open() as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self._read += len(whole)
        fresh = [read(line) for line in whole.splitlines()]
        self.firings += fresh
        self._stopped += [(firing.at + firing.seconds, firing.pid) for firing in fresh if firing.seconds]
        self._continue(time.time())
        if self.process.poll() is not None:
            self.begin()

    @property
    def holds(self):
        """Whether a process is stopped."""
        return bool(self._stopped)

    def _continue(self, now):
        for at, pid in [each for each in self._stopped if each[0] <= now]:
            self._stopped.remove((at, pid))
            send(signal.SIGCONT, pid)

    def disarm(self):
        """Without its log no failpoint fires."""
        self.fired = self.fired.rename(self.directory / "fired.over")

    def kinds(self):
        try:
            return super().kinds()
        except OSError:
            return {}


class Patient(Load):
    """A producer that waits while a queue is full."""

    def _insist(self, ask):
        while not self._over.is_set():
            try:
                return super()._insist(ask)
            except QueueFull:
                time.sleep(0.05)
        return None


class Hand(threading.Thread):
    """Does to a daemon what its step's course says, until `over` is set; notes what of it is a fault."""

    def __init__(self, daemon, over):
        super().__init__(daemon=True)
        self._daemon, self._over = daemon, over
        self._do = {"reload": self._reload, "end redis": self._end_redis}
        self._do |= {"end the daemon": self._end, "kill the supervisor": self._kill}
        self.faults = []

    def run(self):
        course = self._daemon.course
        while course.does and not self._over.wait(course.pause):
            # A daemon that is just ending, or has not come up yet, is asked again.
            with contextlib.suppress(FusionError, OSError, AssertionError):
                if self._daemon.status()["ready"]:
                    self._do[course.does]()

    def _reload(self):
        self._daemon.next_turn()
        self._daemon.reload()

    def _end_redis(self):
        for pid in self._daemon.pids(plant.WRAPPER):
            self._hit(plant.WRAPPER, pid, signal.SIGTERM)

    def _end(self):
        self._hit(plant.SUPERVISOR, self._daemon.process.pid, signal.SIGTERM)

    def _kill(self):
        self._hit(plant.SUPERVISOR, self._daemon.process.pid, signal.SIGKILL)

    def ends(self, daemon):
        """Whether this daemon was told to end, and is on its way."""
        return any(fault.kind == plant.SUPERVISOR and fault.pid == daemon.process.pid for fault in self.faults)

    def _hit(self, kind, pid, number):
        fault = Fault(kind, pid, time.time())
        os.kill(pid, number)
        self.faults.append(fault)


@dataclass
class Outcome:
    """Of one step."""

    step: str
    jobs: int = 0
    #: row → action → firings
    fired: dict = field(default_factory=dict)
    violations: list = field(default_factory=list)

    def short(self, times):
        """Rows that fired less often."""
        return [row for row, counts in self.fired.items() if counts.total() < times]


def survey(step, times, *, actions=tuple(ACTIONS), groups=3, seed=0, log=None):
    """Have a step's points fire so many times; its Outcome. `groups`: of each isolation, where they are what is hit."""
    outcome = Outcome(step)
    try:
        with Fired(step, actions, groups) as daemon:
            try:
                found = _carry_out(daemon, step, times, seed, outcome)
                outcome.violations += verdict.judge(found)
            finally:
                if log:
                    Path(log).joinpath(f"{step}.log").write_text(daemon.text())
                    Path(log).joinpath(f"{step}.fired").write_text(daemon.fired.read_text())
    except Exception as error:
        outcome.violations.append(f"it does not come to rest: {type(error).__name__}: {error}"[-3000:])
    return outcome


def _carry_out(daemon, step, times, seed, outcome):
    daemon.begin()
    load = Patient(Client(daemon.url), 10**9, RATE, daemon.course.mix, seed)
    over = threading.Event()
    hand, pulse = Hand(daemon, over), Pulse(daemon)
    pulse.start()
    load.start()
    hand.start()
    deadline = time.monotonic() + LEAST + times * PATIENCE
    try:
        while time.monotonic() < deadline and _wanting(daemon, step, times):
            daemon.tend()
            load.check()
            time.sleep(0.02)
    finally:
        over.set()
        _calm(daemon, hand, load)
        outcome.jobs = len(load.acks)
        outcome.fired = counts(daemon.firings, step)
    trial._peace(PEACE, daemon, load)
    pulse.end()
    faults = [*hand.faults, *(firing.fault for firing in daemon.firings)]
    found = _read(daemon, load.acks, sorted(faults, key=lambda fault: fault.at))
    found.cancels, found.outages = load.cancels, pulse.faults
    return found


def _wanting(daemon, step, times):
    return any(each.total() < times for each in counts(daemon.firings, step).values())


def counts(firings, step):
    """Row → action → how often."""
    found = {row: Counter() for row in rows(step)}
    for firing in firings:
        if firing.row in found:
            found[firing.row][firing.action] += 1
    return found


def _calm(daemon, hand, load):
    """No more faults: without its log no failpoint fires; what has stopped goes on, and what has ended begins again."""
    daemon.disarm()
    stopping = threading.Thread(target=load.stop)
    stopping.start()
    noted = time.monotonic() + 0.3  # whoever had opened the log before
    while time.monotonic() < noted or daemon.holds or hand.is_alive() or stopping.is_alive() or hand.ends(daemon):
        daemon.tend()
        time.sleep(0.02)
    # On a busy machine whoever had opened the log may fire still, and end a daemon that comes up.
    until(lambda: _comes_up(daemon), daemon.text)
    load.check()


def _comes_up(daemon):
    daemon.tend()
    with contextlib.suppress(FusionError, OSError, AssertionError):
        return daemon.status()["ready"]


def _read(daemon, acks, faults):
    until(lambda: daemon.status()["settled"], daemon.text)
    found = ledger.read(daemon, acks, faults)
    daemon.remember()
    daemon.stop()
    found.strays = daemon.strays()
    return found


HEAD = f"| failpoint | process | {' | '.join(ACTIONS)} | fired | jobs | violations |\n|---|---|--:|--:|--:|--:|--:|--:|"


def table(outcome):
    """Lines of the table."""
    for (point, who), fired in outcome.fired.items():
        cells = [f"`{point}`", who, *(fired[a] for a in ACTIONS), fired.total(), outcome.jobs]
        yield f"| {' | '.join(map(str, [*cells, len(outcome.violations)]))} |"


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.matrix", description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=100, help="how often each point fires in each kind of process")
    parser.add_argument("--only", nargs="+", metavar="STEP", choices=OWN, default=OWN)
    parser.add_argument("--actions", default=",".join(ACTIONS), help=f"of {','.join(ACTIONS)}")
    parser.add_argument("--beside", type=int, default=1, metavar="N", help="so many daemons at once")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--logs", type=Path, help="keep the daemons' logs in this directory")
    given = parser.parse_args()
    actions = tuple(given.actions.split(","))
    failpoints.parse(",".join(f"claim.before:{action}" for action in actions))
    if given.logs:
        given.logs.mkdir(parents=True, exist_ok=True)
    print(HEAD, flush=True)
    with ProcessPoolExecutor(given.beside) as pool:
        ask = [
            pool.submit(survey, step, given.times, actions=actions, seed=given.seed, log=given.logs)
            for step in given.only
        ]
        outcomes = [_shown(one.result()) for one in ask]
    return _sum_up(outcomes, given.times)


def _shown(outcome):
    print(*table(outcome), sep="\n", flush=True)
    for violation in outcome.violations[:10]:
        print(f"  ✗ {violation}", file=sys.stderr, flush=True)
    return outcome


def _sum_up(outcomes, times):
    fired = sum(each.total() for outcome in outcomes for each in outcome.fired.values())
    bad = sum(len(outcome.violations) for outcome in outcomes)
    short = [f"{point} ({who})" for outcome in outcomes for point, who in outcome.short(times)]
    print(f"\n{len(outcomes)} steps, {fired} firings, {sum(o.jobs for o in outcomes)} jobs, {bad} violations")
    if short:
        print(f"fired less than {times} times: {', '.join(short)}")
    return 1 if bad or short else 0


if __name__ == "__main__":
    sys.exit(main())
