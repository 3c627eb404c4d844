"""
`python -m tests.chaos.attempts`: jobs that fail, crash and hang by themselves, and a daemon whose processes are killed
under jobs of `none`; status 1 where a job has begun more often than its policy says (I15).

1. by itself   jobs of three policies raise, end their process, or run into their hard timeout
2. outside     jobs of `none` are cut off: their dispatchers are killed as they run, then a child, a fork server; a
               dispatcher is stopped past its lease, its children go on; the daemon is told to end
3. judge       from the lines that each run leaves

Only jobs of `none` are there when something is killed from outside: they may not begin twice even then.
"""

import os
import random
import signal
import sys
import time

from tests.chaos import ledger, repeat
from tests.chaos.package import LEASE, SHORTER
from tests.chaos.plant import CHILD, Plant, played
from tests.support.running import alive, send, until

FILE = """
broker: {{url: embedded}}
retry_policies:
  twice: {{max_attempts: 2, backoff: [50ms], jitter: 0%, max_crashes: 1}}
  single: {{max_attempts: 1, backoff: [50ms], jitter: 0%, max_crashes: 2}}
defaults:
  tasks: {{pass_job: job, result_ttl: 1h, timeout: {{soft: 20s, hard: 30s}}}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 300ms}}
tasks:
{tasks}
workers:
  forked: {{processes: 2, isolation: fork}}
  reused: {{processes: 2, isolation: process}}
"""
TASKS = """
import os, time
import work

def good(seconds=0.0, *, job):
    work.run(seconds, job=job)

def fails(*, job):
    work._note("begin", job)
    raise ValueError

def crashes(*, job):
    work._note("begin", job)
    os._exit(1)

def hangs(*, job):
    work._note("begin", job)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
"""
#: policy → how often a job of it may begin where it fails, and where it crashes or hangs
MOST = {"none": (1, 1), "twice": (2, 2), "single": (1, 3)}
#: what a job does → more keys of its task
CONDUCTS = {"good": "", "fails": "", "crashes": "", "hangs": ", timeout: {soft: 100ms, hard: 200ms}"}
#: of each conduct and policy
JOBS = 4


class Attempts(Plant):
    """The daemon, with a task for each conduct and policy. Two groups serve them: one finds what the other has lost."""

    declares = ("good_none",)

    def __init__(self, edits):
        super().__init__((*SHORTER, *edits))
        (self.app / "conduct.py").write_text(TASKS)
        tasks = "".join(
            f"  {conduct}_{policy}: {{run: conduct.{conduct}, retry: {policy}{more}}}\n"
            for conduct, more in CONDUCTS.items()
            for policy in MOST
        )
        self.write(FILE.format(app=self.app, runs=self.runs, tasks=tasks))


def violations(edits=(), seed=0):
    """What has begun too often, or has not ended, a sentence each."""
    cuts = [_kill_child, _kill_server, _kill_dispatchers, _stop_dispatcher, _end_daemon]
    random.Random(seed).shuffle(cuts)

    def story(plant, client):
        jobs = _by_themselves(client)
        plant.rest("default")
        for cut in cuts:
            jobs |= _cut_off(plant, client, cut)
        plant.rest("default")
        return judge(jobs, ledger.read_runs(plant.runs))

    return played(Attempts(edits), "I15", story)


def judge(jobs, runs):
    """`jobs`: id → how often it may begin."""
    for id_, most in jobs.items():
        if len(runs[id_]) > most:
            yield f"I15 job {id_} has begun {len(runs[id_])} times, {most} are allowed: {runs[id_]}"


def _by_themselves(client):
    """Jobs that need nobody to go wrong: id → how often each may begin."""
    found = {}
    for policy, (failing, crashing) in MOST.items():
        for conduct, most in (("good", 1), ("fails", failing), ("crashes", crashing), ("hangs", crashing)):
            jobs = client.enqueue_many([(f"{conduct}_{policy}", [], {}) for _ in range(JOBS)])
            found |= {job.id: most for job in jobs}
    return found


def _cut_off(plant, client, cut):
    """Jobs of `none` run in every child, and more wait; then this fault."""
    until(lambda: len(plant.pids(CHILD)) >= 4, plant.text)
    ids = [job.id for job in client.enqueue_many([("good_none", [0.8], {})] * 6)]
    running = until(lambda: len(now := _running(plant, ids)) >= 2 and now, plant.text)
    cut(plant, running)
    return dict.fromkeys(ids, 1)


def _running(plant, ids):
    """The runs of these jobs that have begun and not ended, whose child lives."""
    every = ledger.read_runs(plant.runs)
    return [run for id_ in ids for run in every.get(id_, ()) if run.ended is None and alive(run.child)]


def _kill_dispatchers(_plant, running):
    send(signal.SIGKILL, *{run.dispatcher for run in running})


def _kill_child(_plant, running):
    send(signal.SIGKILL, running[0].child)


def _kill_server(_plant, running):
    send(signal.SIGKILL, running[0].server)


def _stop_dispatcher(_plant, running):
    """Past its leases; the other group's dispatcher finds that out."""
    os.kill(running[0].dispatcher, signal.SIGSTOP)
    time.sleep(LEASE + 0.5)
    os.kill(running[0].dispatcher, signal.SIGCONT)


def _end_daemon(plant, _running):
    """Its jobs are killed at `drain_timeout`; started again, it has them failed already."""
    plant.stop()
    plant.start_up()


if __name__ == "__main__":
    sys.exit(repeat.main("attempts", __doc__, violations))
