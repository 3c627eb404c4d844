"""
Failpoints: have a process be killed, stop, fail or dawdle at a named step of its protocol. For proofs alone.

    FUSIOND_HOOK=…/tests/failpoints.py FUSIOND_FAILPOINTS=settle.before:kill:0.01,fork.after:stop=2

The daemon loads this file into each of its programs (fusiond/hook.py). A rule is POINT:ACTION[:PROBABILITY]; several
are separated by commas.

1. name   a step is a function; STEPS says whose and which. Each has two points, `.before` and `.after`
2. arm    a process wraps its own steps that the variable names; without it no code of ours is touched, or run
3. note   each firing is a line of FUSIOND_FAILPOINTS_LOG, if that is set, before anything is done; once that file is
          gone, so is every failpoint
4. act    kill, exit: this process ends · stop: until somebody who reads the log sends SIGCONT, after so many seconds if
          it says so · raise: OSError · delay: the whole process sleeps

The dispatcher hands the rules on to its fork server; task code does not see the variables.

Standard library only, nothing of tests/, CPython 3.9 and later: the fork server has it under the application's own
interpreter.
"""

from __future__ import annotations

import errno
import functools
import os
import signal
import sys
import time
from typing import Any, Callable, NamedTuple

#: what the daemon loads; what is armed, and where each firing is noted
HOOK = {"FUSIOND_HOOK": __file__}
VARIABLE, LOG = "FUSIOND_FAILPOINTS", "FUSIOND_FAILPOINTS_LOG"
SUPERVISOR, REDIS, SCHEDULER, RELAY = "supervisor", "redis", "scheduler", "outbox"
DISPATCHER, SERVER, CHILD = "dispatcher", "fork-server", "child"
#: whether an action takes seconds
ACTIONS = {"kill": False, "stop": None, "exit": False, "raise": False, "delay": True}

#: from `inspect`, which is too much for a fork server
_GENERATOR, _COROUTINE = 0x20, 0x80


class Step(NamedTuple):
    """A function that is a step of a protocol."""

    #: the kind of process that it runs in
    actor: str
    #: module within the package, and name within the module
    module: str
    name: str


STEPS = {
    # Redis' round trips, and what is made of the answers
    "exchange": Step(DISPATCHER, "worker.dispatcher.claims.lane", "Lane.settle_and_claim"),
    "settle": Step(DISPATCHER, "worker.dispatcher.claims.lane", "Lane._settled"),
    "claim": Step(DISPATCHER, "worker.dispatcher.waiting", "Waiting.add"),
    "renew": Step(DISPATCHER, "worker.dispatcher.claims.leases", "Leases._renew"),
    "fence": Step(DISPATCHER, "worker.dispatcher.loop", "Dispatcher.on_leases_changed"),
    "wake": Step(DISPATCHER, "worker.dispatcher.claims.claim_planner", "ClaimPlanner.claim_from"),
    "bring": Step(DISPATCHER, "worker.dispatcher.loop", "Dispatcher.hear"),
    "given": Step(DISPATCHER, "worker.dispatcher.claims.reservations", "Reservations.answered"),
    # between dispatcher and children
    "hand": Step(DISPATCHER, "worker.pool.slots", "ChildHandle.send_jobs"),
    "outcome": Step(DISPATCHER, "worker.dispatcher.ends.attempt_settler", "AttemptSettler.on_outcome"),
    "release": Step(DISPATCHER, "worker.dispatcher.waiting", "Waiting.put_back"),
    "crash": Step(DISPATCHER, "worker.dispatcher.ends.attempt_settler", "AttemptSettler.on_cut_off"),
    "kill": Step(DISPATCHER, "worker.pool.slots", "ChildHandle.kill_for"),
    "died": Step(DISPATCHER, "worker.pool.children", "Children.on_died"),
    "orphans": Step(DISPATCHER, "worker.pool.fork_server.server_handle", "ServerHandle._lose"),
    # the fork server
    "preload": Step(SERVER, "worker.runtime.startup", "preload"),
    "command": Step(SERVER, "worker.runtime.forkserver", "ForkServer._command"),
    "fork": Step(SERVER, "worker.runtime.forkserver", "ForkServer._fork"),
    "reap": Step(SERVER, "worker.runtime.forkserver", "ForkServer._reap"),
    "adopt": Step(SERVER, "worker.runtime.leftovers", "Leftovers.kill"),
    "report-death": Step(SERVER, "worker.runtime.forkserver", "ForkServer._say"),
    # a child
    "receive": Step(CHILD, "worker.runtime.child", "Child._batch"),
    "receive-one": Step(CHILD, "worker.runtime.wire", "read_one_job"),
    "begin": Step(CHILD, "worker.runtime.wire", "Page.begin"),
    "task": Step(CHILD, "worker.runtime.run", "run"),
    "report": Step(CHILD, "worker.runtime.run", "write_all"),
    # the scheduler
    "publish": Step(SCHEDULER, "schedule.publishing", "Publisher._publish"),
    "configure": Step(SCHEDULER, "schedule.publishing", "Publisher._configure"),
    "declare": Step(SCHEDULER, "schedule.publishing", "Publisher._declare"),
    "apply": Step(SCHEDULER, "schedule.scheduler", "Scheduler._apply"),
    "tick": Step(SCHEDULER, "schedule.ticking", "Ticker._decide"),
    "sweep": Step(SCHEDULER, "schedule.sweeping", "Sweeper._step"),
    # the supervisor
    "accept": Step(SUPERVISOR, "supervise.start", "_accept"),
    "spawn": Step(SUPERVISOR, "supervise.supervisord.process", "Process.spawn"),
    "stop": Step(SUPERVISOR, "supervise.supervisord.process", "Process.stop"),
    "ended": Step(SUPERVISOR, "supervise.supervisord.process", "Process.finish"),
    "write": Step(SUPERVISOR, "config.accepted.snapshot", "write_atomically"),
    "promote": Step(SUPERVISOR, "supervise.reload.transaction", "promote"),
    "tell": Step(SUPERVISOR, "supervise.process_table", "ProcessTable._tell_one"),
    # a reload
    "reload.read": Step(SUPERVISOR, "supervise.reload.transaction", "Transaction._take"),
    "reload.plan": Step(SUPERVISOR, "supervise.reload.transaction", "Transaction._plan"),
    "reload.start": Step(SUPERVISOR, "supervise.reload.transaction", "Transaction._try"),
    "reload.commit": Step(SUPERVISOR, "supervise.reload.transaction", "Transaction._commit"),
    "reload.apply": Step(SUPERVISOR, "supervise.reload.transaction", "Transaction._apply"),
    "reload.outcome": Step(SUPERVISOR, "supervise.reload.reloads", "Reloads._finish"),
    # the relay of an outbox
    "row.hold": Step(RELAY, "outbox.relay", "Relay._hold"),
    "row.begin": Step(RELAY, "outbox.row_carrier", "RowCarrier.begin"),
    "row.read": Step(RELAY, "outbox.table", "Table.new_rows"),
    "row.reread": Step(RELAY, "outbox.table", "Table.queued_rows"),
    "row.assign": Step(RELAY, "outbox.table", "Table.assign"),
    "row.store": Step(RELAY, "outbox.hand_over", "HandOver._store"),
    "row.confirm": Step(RELAY, "outbox.row_carrier", "RowCarrier._confirm"),
    "row.delete": Step(RELAY, "outbox.table", "Table.delete"),
    "row.end": Step(RELAY, "outbox.row_carrier", "RowCarrier._end"),
    # the embedded Redis
    "redis.lock": Step(REDIS, "broker.redis.embedded", "lock"),
    "redis.start": Step(REDIS, "broker.redis.embedded", "start"),
    "redis.ready": Step(REDIS, "broker.redis.embedded", "answers"),
    "redis.stop": Step(REDIS, "broker.redis.embedded", "stop"),
}


class Rule(NamedTuple):
    """What happens at a point, and how often."""

    step: str
    after: bool
    action: str
    #: s; of a stop: how long until somebody continues it, 0: not said
    seconds: float
    probability: float

    @property
    def point(self) -> str:
        """`settle.before`."""
        return f"{self.step}.{'after' if self.after else 'before'}"

    @property
    def what(self) -> str:
        """`stop=2`."""
        return f"{self.action}={self.seconds:g}" if self.seconds else self.action


def parse(text: str) -> list[Rule]:
    """The rules that a value of the variable stands for. Raises ValueError with a sentence."""
    return [_rule(part.strip()) for part in text.split(",") if part.strip()]


def _rule(text: str) -> Rule:
    point, _, rest = text.partition(":")
    action, _, probability = rest.partition(":")
    step, _, side = point.rpartition(".")
    if step not in STEPS or side not in ("before", "after"):
        raise _wrong(f"there is no failpoint {point!r}", f"{', '.join(STEPS)}, each with .before and .after")
    action, equals, seconds = action.partition("=")
    if action not in ACTIONS or ACTIONS[action] not in (None, bool(equals)):
        raise _wrong(f"{point} cannot {action + equals + seconds!r}", "kill, stop, stop=S, exit, raise, delay=S")
    return Rule(
        step,
        side == "after",
        action,
        _number(point, seconds, "seconds") if equals else 0.0,
        _number(point, probability, "probability", most=1.0) if probability else 1.0,
    )


def _number(point: str, text: str, name: str, most: float = 1e6) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 < number <= most:
        raise _wrong(f"{point}: {text!r} is no {name}", f"numbers above 0, up to {most:g}")
    return number


def _wrong(what: str, known: str) -> ValueError:
    return ValueError(f"{VARIABLE}: {what}; there are {known}")


def hook(actor: str, where: str, find: Callable[[str], Any]) -> None:
    """
    Wrap this process' steps that the variable names; nothing where it is not set.

    Args:
        actor: what kind of process this is.
        where: which one of them, for the log: a worker group's name.
        find: module within the package → the module.

    Raises:
        ValueError: the variable means nothing.
    """
    _arm(parse(os.environ.get(VARIABLE, "")), (actor,), where, os.environ.get(LOG, ""), find)


def handed() -> dict[str, str]:
    """What a fork server needs to be armed as well."""
    return {"rules": os.environ.get(VARIABLE, ""), "log": os.environ.get(LOG, "")}


def main(control: int, setup: dict[str, Any]) -> None:
    """The fork server's, armed: its arguments are that one's, and `setup` has what `handed` returned."""
    given = setup["hook"]
    _arm(parse(given["rules"]), (SERVER, CHILD), setup["group"], given["log"], _beside)
    _beside("worker.runtime.forkserver").main(control, setup)


def _beside(module: str) -> Any:
    """In the fork server's package of a private name, of which this file is a part."""
    return sys.modules[f"{__package__}.{module.rpartition('.')[2]}"]


def _arm(rules: list[Rule], actors: tuple[str, ...], where: str, log: str, find: Callable[[str], Any]) -> None:
    for name, step in STEPS.items():
        mine = [rule for rule in rules if rule.step == name]
        if mine and step.actor in actors:
            owner, _, attribute = step.name.rpartition(".")
            home = find(step.module)
            home = getattr(home, owner) if owner else home
            pass_by = functools.partial(_pass_by, mine, f"{step.actor} {where or '-'}", log)
            if step.actor == CHILD:
                # The fork server rehearses a child's steps itself.
                pass_by = functools.partial(_elsewhere, os.getpid(), pass_by)
            setattr(home, attribute, _wrapped(getattr(home, attribute), pass_by))


def _wrapped(function: Any, pass_by: Callable[[bool], None]) -> Any:
    """The function between its two points; of a coroutine or a generator, all of its run is."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        pass_by(False)
        result = function(*args, **kwargs)
        pass_by(True)
        return result

    @functools.wraps(function)
    async def wait(*args: Any, **kwargs: Any) -> Any:
        pass_by(False)
        result = await function(*args, **kwargs)
        pass_by(True)
        return result

    @functools.wraps(function)
    def go(*args: Any, **kwargs: Any) -> Any:
        pass_by(False)
        result = yield from function(*args, **kwargs)
        pass_by(True)
        return result

    flags = function.__code__.co_flags
    return wait if flags & _COROUTINE else go if flags & _GENERATOR else call


def _elsewhere(home: int, pass_by: Callable[[bool], None], after: bool) -> None:
    if os.getpid() != home:
        pass_by(after)


def _pass_by(rules: list[Rule], who: str, log: str, after: bool) -> None:
    for rule in rules:
        # From the kernel: forks of one process would all draw the same number.
        if rule.after == after and int.from_bytes(os.urandom(4), "little") < rule.probability * 2**32:
            if _noted(log, f"{time.time():.6f} {os.getpid()} {who} {rule.point} {rule.what}\n"):
                _act(rule)
            return


def _noted(log: str, line: str) -> bool:
    if log:
        try:
            descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return False
        # One write to a file that is opened to append: a kill cannot tear it.
        os.write(descriptor, line.encode())
        os.close(descriptor)
    return True


def _act(rule: Rule) -> None:
    if rule.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif rule.action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif rule.action == "exit":
        os._exit(1)
    elif rule.action == "raise":
        raise OSError(errno.EIO, f"failpoint {rule.point}")
    else:
        time.sleep(rule.seconds)
