"""One of two daemons is killed, all of it at once: callbacks, waiting jobs, steered jobs, scaled groups."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from fusiond import hook
from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.client import Client
from fusiond.config import model
from fusiond.job import JobStatus
from tests.support.fusiond_command import fusiond
from tests.support.past import contradictions
from tests.support.running import Running, born, descendants, until

TASKS = """
import os, pathlib, time

class NotYet(Exception):
    retry_after = 0.05

class Again(Exception):
    retry_after = 0.05

def hold(began, gate):
    pathlib.Path(began, str(os.getpid())).touch()
    while not pathlib.Path(gate).exists():
        time.sleep(0.01)

def nothing():
    pass

def told(event):
    pass

def steered(directory, *, job):
    def is_first(step):
        mark = pathlib.Path(directory, step)
        return not mark.exists() and bool(mark.write_text(str(os.getpid())))

    if is_first("snoozed"):
        raise NotYet
    if is_first("failed"):
        print("what a failed attempt prints")
        raise Again
    if is_first("cut"):
        job.progress(0.5, "half")
        time.sleep(600)
    return "done"
"""
#: outboxes are emptied, and ranges looked at, all the time; the daemon of a group `dying` delivers nothing
HOOK = """
import os, signal

PERIOD = 0.2

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def hook(process, name, find):
    if process == "scheduler":
        find("schedule.sweeping").PERIOD = PERIOD
    if process == "dispatcher":
        find("worker.dispatcher.scaler").LOOK = 0.1
        find("worker.dispatcher.scaling").QUIET = 0.8
        if name == "dying":
            find("worker.dispatcher.ends.courier").Courier._deliver = die

def handed():
    return None

def main(control, setup):
    import sys
    sys.modules[__package__ + ".forkserver"].main(control, setup)
"""


class Daemon(Running):
    """A daemon on a given Redis."""

    def __init__(self, url, text, workers):
        super().__init__()
        (self.app / "pair.py").write_text(TASKS)
        own = self.directory / "own.py"
        own.write_text(HOOK.replace("0.2", "3600.0") if "dying" in workers else HOOK)
        defaults = f"defaults: {{workers: {{directory: {self.app}, drain_timeout: 1s}}}}\n"
        self.start(f"broker: {{url: '{url}'}}\n{defaults}{text}{workers}", environment={hook.VARIABLE: str(own)})

    def kill_whole(self):
        """At once, as a power cut does: all are stopped first, so that none sees another end."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (self.process.pid, *self.children()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        until(lambda: not self.children())

    def runs(self, pid):
        """Whether the process is one of this daemon's."""
        return (pid, born(pid)) in descendants(self.process.pid)


class Pair:
    """Two daemons on one Redis, and what is done to that."""

    def __init__(self, url):
        self.url, self.client, self.broker, self.daemons = url, Client(url), Verbs(), []

    def start(self, text, *workers):
        """With these groups; the daemons."""
        for each in workers:
            self.daemons.append(Daemon(self.url, text, f"workers: {{{each}}}\n"))
        return self.daemons

    def run(self, *calls):
        with connect(model.Broker(url=self.url), self.daemons[0].runtime) as connection:
            return [connection.run(call) for call in calls]

    def expire_leases(self, queue="default"):
        """Those of all jobs that run, and have the living look."""
        started, wake = self.broker.keys.of(queue, "started"), self.broker.keys.wake(queue)
        [ids] = self.run(plain(as_is, "ZRANGE", started, 0, -1))
        self.run(*(plain(as_is, "ZADD", started, "XX", 1, id_) for id_ in ids), plain(as_is, "PUBLISH", wake, "ready"))


@pytest.fixture
def pair(redis_server):
    pair = Pair(Running.broker_url or redis_server.url)
    yield pair
    for daemon in pair.daemons:
        daemon.close()


AFTER = """
queues: {first: {}, second: {}, told: {}}
tasks:
  parent: {run: pair.hold, queue: first, on_success: {task: told}}
  child: {run: pair.nothing, queue: second, on_success: {task: told}}
  told: {run: pair.told, queue: told}
"""
#: stores the job that waits, and dies before it tells the parent's queue
PRODUCER = """
import os, signal, sys
from fusiond.client import Client
from fusiond.producer.store import Store

Store.deliver = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
url, parent = sys.argv[1:]
Client(url).options(after=[parent], id="child").enqueue("child")
"""


def test_a_producer_and_a_daemon_die_between_a_job_and_the_one_that_waits_for_it(pair, tmp_path):
    """Neither had told the other queue; the other daemon does, which does not serve that of the parent."""
    first, _ = pair.start(AFTER, "dying: {queues: [first]}", "main: {queues: [second, told]}")
    gate = tmp_path / "gate"
    parent = pair.client.enqueue("parent", str(tmp_path), str(gate))
    words = [sys.executable, "-c", PRODUCER, pair.url, parent.name]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    child = pair.client.job("second/child")
    assert child.status() is JobStatus.DEFERRED
    told = plain(as_is, "EXISTS", pair.broker.keys.of("first", "children", parent.id))
    until(lambda: pair.run(told) == [1], "the parent's queue does not know that a job waits")
    gate.touch()
    until(lambda: parent.status().ended, first.text)
    first.kill_whole()
    child.result(timeout=60)
    # of the parent and of the child, however often each queue's outbox is emptied
    until(lambda: pair.client.counts("told")["told"].finished == 2, "a callback is missing")
    # The daemon takes an entry out of an outbox after its delivery.
    until(lambda: pair.run(*(pair.broker.deliver(queue) for queue in ("first", "second", "told"))) == [0, 0, 0])
    assert pair.client.counts("told")["told"].finished == 2


STEERED = """
retry_policies: {patient: {max_attempts: 2, delay: 1h, snooze_on: [pair.NotYet]}}
tasks: {steered: {run: pair.steered, retry: patient, pass_job: job}}
"""


def test_a_job_is_steered_and_keeps_its_history_over_a_kill(pair, tmp_path):
    """A snooze, a retry at its own delay, and a kill; each is told, and none counts for more than it was."""
    daemons = pair.start(STEERED, "main: {queues: '*'}", "main: {queues: '*'}")
    job = pair.client.enqueue("steered", str(tmp_path))
    until(job.progress, daemons[0].text)
    assert (job.progress().share, job.progress().message) == (0.5, "half")
    pid = int((tmp_path / "cut").read_text())
    [killed] = [daemon for daemon in daemons if daemon.runs(pid)]
    [living] = [daemon for daemon in daemons if daemon is not killed]
    killed.kill_whole()
    pair.expire_leases()
    assert job.result(timeout=60) == "done"
    [record] = pair.run(pair.broker.job("default", job.id))
    assert [past.outcome for past in record.history] == ["snoozed", "retry", "rescued"]
    assert [past.counted for past in record.history] == [False, True, True]
    assert [past.host for past in record.history[:2]] == [socket.gethostname()] * 2
    assert (record.attempts, record.rescues, record.crashes, record.progress) == (3, 1, 0, None)
    assert (record.printed, record.printed_attempt) == ("what a failed attempt prints\n", 1)
    assert list(contradictions(record)) == []
    shown = fusiond("job", "show", job.name, "-c", living.file, cwd=living.directory).out
    assert "snoozed" in shown
    assert "rescued" in shown
