"""Unique jobs over two daemons on one Redis: calls, schedules, pushes, retries, reloads, kills."""

import time

import pytest

from fusiond.broker.redis.connection import connect
from fusiond.client import Client
from fusiond.config import model
from tests.chaos import hunt
from tests.support.running import Running, until

TASKS = """
import os, pathlib, time

def note(value, log, seconds=0.0):
    with open(log, "a") as file:
        file.write(f"{value} {time.time():.6f} begin\\n")
    time.sleep(seconds)
    with open(log, "a") as file:
        file.write(f"{value} {time.time():.6f} end\\n")

def once_failing(value, log):
    note(value, log)
    mark = pathlib.Path(log + ".failed")
    if not mark.exists():
        mark.touch()
        raise ValueError
    until_told(value, log)

def until_told(value, log):
    # until the file LOG.go is there
    note(value, log)
    while not os.path.exists(log + ".go"):
        time.sleep(0.01)
"""
FILE = """
retry_policies: {soon: {max_attempts: 2, delay: 1s}}
tasks:
  ended: {run: jobs.note, unique: {by: [args.0], until: ended}}
  told: {run: jobs.until_told, unique: {by: [args.0], until: ended}}
  waiting: {run: jobs.until_told, unique: {by: [args.0], until: started, on_conflict: replace}}
  started: {run: jobs.note, unique: {by: [args.0], until: started, on_conflict: replace, max_wait: 2s}}
  refusing: {run: jobs.note, unique: {by: [args.0], for: 1h, on_conflict: refuse}}
  briefly: {run: jobs.note, unique: {by: [args.0], for: 2s, on_conflict: refuse}}
  failing: {run: jobs.once_failing, retry: soon, unique: {by: [args.0], until: ended}}
"""


class Daemon(Running):
    """A daemon on a given Redis."""

    def __init__(self, url, text):
        super().__init__()
        (self.app / "jobs.py").write_text(TASKS)
        workers = f"workers: {{main: {{queues: '*', directory: {self.app}, processes: 4}}}}\n"
        self.body = f"broker: {{url: '{url}'}}\n{text}{workers}"
        self.write(self.body)
        self.start()


@pytest.fixture
def start(redis_server, tmp_path):
    """Starts two daemons on the test's own Redis: the client, the file of notes, and the daemons."""
    running, url, notes = [], Running.broker_url or redis_server.url, tmp_path / "notes"
    notes.touch()

    def start(text=FILE):
        running.extend(Daemon(url, text) for _ in range(2))
        return Client(url), notes, running

    yield start
    for daemon in running:
        daemon.close()


@pytest.fixture
def run(redis_server, tmp_path):
    with connect(model.Broker(url=Running.broker_url or redis_server.url), tmp_path) as connection:
        yield connection.run


def most_at_once(notes):
    """How many jobs of one value ran at the same time, at most."""
    running, most = {}, 0
    for line in sorted(notes.read_text().splitlines(), key=lambda line: line.split()[1]):
        value, _, what = line.split()
        running[value] = running.get(value, 0) + (1 if what == "begin" else -1)
        most = max(most, running[value])
    return most


def begins(notes):
    return sum(line.endswith("begin") for line in notes.read_text().splitlines())


def test_until_ended_no_second_one_runs_beside_it(start):
    """Eight children of two daemons, and calls all the time: one of each value at a time, one after the other."""
    client, notes, _ = start()
    end, stored = time.monotonic() + 3, []
    while time.monotonic() < end or begins(notes) <= 6:
        stored += [client.enqueue("ended", value, str(notes), 0.1) for value in range(3)]
    new = [job for job in stored if not job.existing]
    until(lambda: all(job.status().ended for job in new), "all have ended")
    assert most_at_once(notes) == 1
    assert begins(notes) == len(new)


def test_a_reload_makes_a_task_unique_in_place(start):
    """New jobs have a lock; those that were there have none."""
    client, notes, daemons = start("tasks: {plain: {run: jobs.note}}\n")
    for daemon in daemons:
        daemon.reload(daemon.body.replace("jobs.note}", "jobs.note, unique: {by: [args.0], until: ended}}"))
    until(lambda: client.enqueue("plain", 1, str(notes), 0.3).existing, "the client knows it")


@pytest.mark.proof
def test_locks_hold_under_kills_and_stops():
    """I19, with a look at all jobs and locks after each call; the hunt for seeded bugs shows that it can fail."""
    assert hunt.stand("unique jobs") == []
