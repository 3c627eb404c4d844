"""
What is carried out, and how each job is accounted for.

1. side by side  two hosts on one Redis go from the old version to the new one, one after the other, and back: by a
                 shutdown and by kill -9; meanwhile old and new producers enqueue without a pause
2. in place      one daemon with the embedded Redis does the same in its own state directory
3. judge         each acknowledged job and run has finished; what ran twice has its reason in the job's history; each
                 tick has one job; no more jobs of the limited queue ran at once than it allows; no program crashed
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.client import Client
from fusiond.config import model
from fusiond.job import JobStatus
from tests.support.queue_state import broken, findings
from tests.support.redis_server import Server
from tests.support.running import MEMORY, Running, run_down, until

HERE = Path(__file__).parent
QUEUES = ("default", "narrow")
MOST = 2
FILE = """
broker: {{url: '{url}'}}
retry_policies:
  hardy: {{max_crashes: 1000}}
  again: {{max_attempts: 3, delay: 100ms, max_crashes: 1000}}
events: {{}}
queues: {{default: {{}}, narrow: {{max_running: 2}}}}
defaults:
  tasks: {{pass_job: job, result_ttl: 1d, retry: hardy}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, pass_environment: [UPGRADE_VERSION], drain_timeout: 5s}}
tasks:
  plain: {{run: work.run}}
  flawed: {{run: work.flawed, retry: again}}
  narrow: {{run: work.narrow, queue: narrow}}
  alone: {{run: work.run, unique: {{by: [kwargs.key], until: ended}}}}
flows: {{pair: {{steps: {{first: {{task: plain}}, second: {{task: flawed, after: [first]}}}}}}}}
cron: {{tick: {{task: plain, every: 1s, missed: all, overlap: allow}}}}
workers: {{main: {{queues: '*', processes: 2}}}}
"""


class Host(Running):
    """A daemon with a state directory of its own, which a daemon of another version can take over."""

    def __init__(self, url=""):
        """`url`: of its Redis; empty: it has one of its own."""
        super().__init__()
        self.version, self.embedded = None, not url
        self.url = url or self.url
        if self.embedded and MEMORY.is_dir():
            self.state = MEMORY / self.directory.name
        shutil.copy(HERE / "work.py", self.app)

    def begin(self, version, runs):
        """Start this version; it is ready when this returns."""
        self.version, self.command = version, version.command
        url = "embedded" if self.embedded else self.url
        environment = {**version.environment, "UPGRADE_VERSION": version.name}
        self.start(FILE.format(url=url, app=self.app, runs=runs), environment=environment)
        until(lambda: self.status()["ready"], self.text, step=0.1)

    def end(self, *, killed):
        """A shutdown; or all of its processes at once, as if its power had failed."""
        if not killed:
            assert self.stop() == 0, self.text()
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            self.send(number)
        self.process.wait()
        until(lambda: not self.children())

    def send(self, number):
        """A signal to all of its processes."""
        for pid in (self.process.pid, *self.children()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def close(self):
        """As `Running`."""
        super().close()
        shutil.rmtree(self.state, ignore_errors=True)


class Producer:
    """One of a version, in a process of its own."""

    def __init__(self, version, url, path):
        self._path = path
        with path.open("wb") as out:
            words = [version.python, "-P", HERE / "producer.py", url, version.name]
            environment = {**os.environ, **version.environment}
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=out, env=environment)

    def acks(self):
        """[kind, full name] of each job and run."""
        return [json.loads(line) for line in _lines(self._path)]

    def end(self):
        """It enqueues no more."""
        self._process.stdin.close()
        assert self._process.wait(60) == 0


class Play:
    """The hosts, the producers, and what was seen."""

    def __init__(self, stack, old, new, *, in_place):
        place = Running()
        stack.callback(place.close)
        self.runs, self.versions, self.in_place = place.directory / "runs", (old, new), in_place
        self.runs.touch()
        url = ""
        if not in_place:
            server = Server(place.directory).start()
            stack.callback(server.close)
            url = server.url
        self.hosts = []
        for _ in range(1 if in_place else 2):
            self.hosts.append(Host(url))
            stack.callback(self.hosts[-1].close)
            self.hosts[-1].begin(old, self.runs)
        self.url = self.hosts[0].url
        self.producers = [Producer(each, self.url, place.directory / f"acks-{each.name}") for each in self.versions]
        for producer in self.producers:
            stack.callback(producer.end)

    def work(self, count=4):
        """Wait until each producer, and each version that runs, has done more."""
        want = self._done()
        goals = {name: number + count for name, number in want.items()}
        until(lambda: all(self._done()[name] >= goal for name, goal in goals.items()), self.text, timeout=120, step=0.1)

    def replace(self, host, version, *, killed):
        """Another version in the place of one."""
        self.hosts[host].end(killed=killed)
        self.hosts[host].begin(version, self.runs)
        self.work()

    def freeze(self, host, seconds):
        """Stop all of a host for so long, as a machine that is suspended."""
        self.hosts[host].children()
        self.hosts[host].send(signal.SIGSTOP)
        time.sleep(seconds)
        self.hosts[host].send(signal.SIGCONT)
        self.work()

    def text(self):
        """The logs."""
        return "\n".join(host.text() for host in self.hosts)

    def _done(self):
        begun = Counter(line[4] for line in _begun(self.runs))
        running = {host.version.name for host in self.hosts}
        acks = {f"acks of {each}": len(producer.acks()) for each, producer in enumerate(self.producers)}
        return acks | {name: begun[name] for name in running}

    def judge(self):
        """End it; what is wrong, in sentences."""
        for producer in self.producers:
            producer.end()
        acks = [ack for producer in self.producers for ack in producer.acks()]
        with Client(self.url) as client, connect(model.Broker(url=self.url), self.hosts[0].runtime) as connection:
            jobs = {name for kind, name in acks if kind != "flow"}
            flows = {name for kind, name in acks if kind == "flow"}
            _settle(client, jobs, flows, self.text)
            ticks = sorted({line[2] for line in _begun(self.runs) if line[2].startswith("cron:tick:")})
            _settle(client, {f"default/{id_}" for id_ in ticks}, set(), self.text)
            for host in self.hosts[1:]:
                host.end(killed=False)
            wrong = [*self._jobs(connection.run, ticks), *_ticks(ticks), *_narrow(_read(self.runs))]
            bad = [each for queue in QUEUES for each in connection.run(broken(Verbs(), queue))]
            wrong += [f"a body cannot be read: {each}" for each in bad]
            self.hosts[0].end(killed=False)
            if not self.in_place:
                wrong += [str(each) for queue in QUEUES for each in connection.run(findings(Verbs(), queue))]
        # The log has the tracebacks of failed jobs, too, which name no file of fusiond.
        if re.search(r'File "[^"]*/fusiond/', self.text()):
            wrong.append("a program has logged a traceback")
        return wrong

    def _jobs(self, run, ticks):
        """`ticks`: those that have settled; others may begin meanwhile."""
        runs = Counter((line[1], line[2]) for line in _begun(self.runs))
        for producer in self.producers:
            for kind, name in producer.acks():
                queue, _, id_ = name.partition("/")
                if kind != "flow" and not runs[queue, id_]:
                    yield f"{name} has never run"
        for (queue, id_), times in runs.items():
            if id_.startswith("cron:tick:") and id_ not in ticks:
                continue
            record = run(Verbs().job(queue, id_))
            if record is None or record.status is not JobStatus.FINISHED:
                yield f"{queue}/{id_} began, and is {record and record.status}"
            elif times > 1 + len(record.history):
                yield f"{queue}/{id_} ran {times} times; its history has {[past.outcome for past in record.history]}"

    def counts(self):
        """For the report."""
        begun = Counter(line[4] for line in _begun(self.runs))
        again = sum(begun.values()) - len({line[2] for line in _begun(self.runs)})
        ticks = len({line[2] for line in _begun(self.runs) if line[2].startswith("cron:")})
        acks = [len(producer.acks()) for producer in self.producers]
        return f"acknowledged {acks}, runs {dict(begun)}, of these {again} again, ticks {ticks}"


def side_by_side(stack, old, new, *, frozen=0.0):
    """Two hosts there and back; the Play. `frozen`: s for which an old host is stopped beside a new one; 0: none is."""
    play = Play(stack, old, new, in_place=False)
    play.work()
    play.replace(0, new, killed=False)
    if frozen:
        play.freeze(1, frozen)
    play.replace(1, new, killed=True)
    play.replace(0, old, killed=True)
    if frozen:
        play.freeze(0, frozen)
        play.replace(1, old, killed=False)
    return play


def in_place(stack, old, new, *, frozen=0.0):
    """One host there by a shutdown, and back by kill -9; then, with `frozen`, the other way round."""
    play = Play(stack, old, new, in_place=True)
    play.work()
    play.replace(0, new, killed=False)
    play.replace(0, old, killed=True)
    if frozen:
        play.replace(0, new, killed=True)
        play.freeze(0, frozen)
        play.replace(0, old, killed=False)
    return play


def _settle(client, jobs, flows, text):
    left = {*jobs}, {*flows}

    def count():
        left[0].difference_update([name for name in left[0] if client.job(name).status().ended])
        ended = ("finished", "failed", "canceled")
        left[1].difference_update([name for name in left[1] if client.flow_run(name).status() in ended])
        return len(left[0]) + len(left[1])

    run_down(count, lambda: f"{left} have not ended\n{text()}", step=0.2)
    for name in flows:
        assert client.flow_run(name).status() == "finished", name


def _ticks(ids):
    """Each second has a tick, from the first to the last that had a job."""
    ticks = sorted(int(id_.rpartition(":")[2]) for id_ in ids)
    for before, after in pairwise(ticks):
        if after - before != 1000:
            yield f"no tick had a job from {before} to {after}"


def _narrow(lines):
    """
    No more than MOST jobs of the queue ran at once.

    Of a job that began again the last run counts: before it, the job had lost its lease, and with it its place.
    """
    began, ended = ({line[2]: line[5] for line in lines if line[:2] == [what, "narrow"]} for what in ("begin", "end"))
    spans = [(at, ended[id_]) for id_, at in began.items() if id_ in ended]
    for at, _ in spans:
        beside = sum(other <= at < end for other, end in spans)
        if beside > MOST:
            yield f"{beside} jobs of the limited queue ran at once at {at}"


def _begun(path):
    return [line for line in _read(path) if line[0] == "begin"]


def _read(path):
    return [json.loads(line) for line in _lines(path)]


def _lines(path):
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
