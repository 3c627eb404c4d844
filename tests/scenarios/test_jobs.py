"""What a producer is promised of one daemon, and of two on one Redis: order, due times, refusals."""

import time

import pytest

from fusiond.client import Client
from tests.support.fusiond_command import fusiond
from tests.support.running import Running, until
from tests.support.seldom_polls import seldom_polls

TASKS = '''
import os, time

def note(word, log, seconds=0.0):
    """Leaves a line for each run: word, epoch s, fork server."""
    with open(log, "a") as file:
        file.write(f"{word} {time.time():.6f} {os.getppid()}\\n")
    time.sleep(seconds)
'''
FILE = """
broker: {{url: "{url}"}}
queues: {{orders: {{}}, small: {{max_length: 5}}, a: {{}}, b: {{}}, c: {{}}, d: {{}}, e: {{}}, f: {{}}}}
tasks:
  note: {{run: jobs.note, queue: orders}}
  little: {{run: jobs.note, queue: small}}
cron:
  each: {{task: note, every: 1s, args: [tick, {log}], suspended: {quiet}}}
workers: {{main: {{queues: "*", directory: {app}, processes: {processes}, isolation: {isolation}}}}}
"""


class Daemon(Running):
    """A daemon on a given Redis."""

    def __init__(self, url, *, processes=1, isolation="process", cron=False, log=None, polls=True):
        """`polls`: False: only after so long that what waits for a poll waits for ever."""
        super().__init__()
        (self.app / "jobs.py").write_text(TASKS)
        self.url, self.notes = url, log or self.directory / "notes"
        self.notes.touch()
        self.write(
            FILE.format(
                url=url, app=self.app, log=self.notes, processes=processes, isolation=isolation, quiet=not cron
            ).replace("True", "true")
        )
        self.start(environment=None if polls else seldom_polls(self.directory))

    def client(self):
        return Client(self.url)

    def order(self, *words):
        """A person's command."""
        return fusiond(*words, cwd=self.directory)

    def noted(self):
        """(word, epoch s, fork server) of each run, oldest first."""
        lines = (line.split() for line in self.notes.read_text().splitlines())
        return [(word, float(at), int(pid)) for word, at, pid in lines]


@pytest.fixture
def start(redis_server):
    """Starts a daemon on the test's own Redis."""
    running = []

    def start(**options):
        running.append(Daemon(Running.broker_url or redis_server.url, **options))
        return running[-1]

    yield start
    for daemon in running:
        daemon.close()

    # what was missed waits for the poll, which is far away here; how busy the machine is says nothing


def test_empty_queues_hold_up_no_other(start):
    """A group with one process and many queues: what waits in one of them runs, one job right after the other."""
    daemon = start(polls=False)
    client = daemon.client()
    for number in range(20):
        client.enqueue("note", f"n{number}", str(daemon.notes))
    until(lambda: len(daemon.noted()) == 20, daemon.text)


def test_delayed_jobs_begin_when_they_are_due(start):
    """Not before, and not a poll later: an idle dispatcher has a timer for the next one."""
    daemon = start(processes=2, polls=False)
    client, due = daemon.client(), {}
    for number in range(8):
        seconds = 1.0 + 0.25 * number
        due[f"n{number}"] = time.time() + seconds
        client.enqueue_in(seconds, "note", f"n{number}", str(daemon.notes))
    due["at"] = time.time() + 2.1
    client.enqueue_at(due["at"], "note", "at", str(daemon.notes))
    until(lambda: len(daemon.noted()) == len(due), daemon.text)
    late = sorted(at - due[word] for word, at, _ in daemon.noted())
    print("begun after their due time, ms:", [round(seconds * 1000, 1) for seconds in late])
    assert late[0] > -0.002


def test_two_daemons_share_the_work(start, tmp_path):
    """Each job runs once, on either; a cron entry of both ticks once; one dies whole, the other finishes the rest."""
    log = tmp_path / "notes"
    one, two = start(processes=2, cron=True, log=log), start(processes=2, cron=True, log=log)
    client = one.client()
    jobs = []

    def both_take_part():
        first = len(jobs)
        jobs.extend(client.enqueue("note", f"n{first + more}", str(log), 0.02) for more in range(20))
        return len({pid for word, _, pid in one.noted() if word != "tick"}) == 2

    until(both_take_part, one.text)
    for job in jobs:
        job.result(timeout=60)
    words = [word for word, _, _ in one.noted() if word != "tick"]
    assert sorted(words) == sorted(f"n{number}" for number in range(len(jobs)))

    rest = [client.enqueue("note", f"r{number}", str(log), 0.05) for number in range(100)]
    until(lambda: sum(word.startswith("r") for word, _, _ in one.noted()) > 20)
    one.children()
    one.kill(one.process.pid)
    for job in rest:
        job.result(timeout=60)
    words = [word for word, _, _ in two.noted() if word.startswith("r")]
    assert set(words) == {f"r{number}" for number in range(100)}
    # what the dead one's two children had begun, or ended and not told, and nothing else
    print(f"{len(words) - 100} jobs ran again")
    assert len(words) - 100 <= 20
    ticks = [int(at) for word, at, _ in two.noted() if word == "tick"]
    assert len(ticks) <= ticks[-1] - ticks[0] + 2
