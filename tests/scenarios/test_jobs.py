"""What a producer is promised of one daemon, and of two on one Redis: order, due times, refusals."""

import time

import pytest

from fusiond.client import Client
from fusiond.errors import JobFailed, QueueFull, UnknownTask
from fusiond.job import JobStatus
from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, Running, until
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


@pytest.mark.parametrize("isolation", ["process", "fork"])
def test_priorities_then_arrival(start, isolation):
    """Of what waits, more priority goes first, and inside a priority what came first, by name or by number."""
    daemon = start(isolation=isolation)
    client = daemon.client()
    assert daemon.order("suspend", "orders").status == 0
    words = {200: [], "high": [], "low": []}
    for number in range(60):
        priority = ("low", 200, "high")[number % 3]
        words[priority].append(f"{priority}-{number}")
        client.options(priority=priority).enqueue("note", words[priority][-1], str(daemon.notes))
    assert daemon.order("resume", "orders").status == 0
    until(lambda: len(daemon.noted()) == 60, daemon.text)
    assert [word for word, _, _ in daemon.noted()] == words[200] + words["high"] + words["low"]


@pytest.mark.proof
def test_no_wake_up_is_lost(start):
    """A job that is enqueued while a claim is on its way begins at once: no job waits for the poll."""
    daemon = start(processes=4, polls=False)
    client, enqueued = daemon.client(), {}
    for number in range(1000):
        enqueued[f"n{number}"] = time.time()
        client.enqueue("note", f"n{number}", str(daemon.notes))
        time.sleep((0, 0.0005, 0.001, 0.002, 0.004)[number % 5])  # while the last one is claimed, runs, is settled
    until(lambda: len(daemon.noted()) == len(enqueued), daemon.text)
    waited = sorted(at - enqueued[word] for word, at, _ in daemon.noted())
    print("waited, ms: median {:.1f}, p99 {:.1f}, max {:.1f}".format(*(1000 * waited[i] for i in (500, 990, -1))))
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


def test_an_expired_job_fails_and_never_runs(start):
    """What was not begun in time fails with EXPIRED; its neighbours run."""
    daemon = start()
    client = daemon.client()
    assert daemon.order("suspend", "orders").status == 0
    late = client.options(expires=0.05).enqueue("note", "late", str(daemon.notes))
    kept = client.options(expires="1h").enqueue("note", "kept", str(daemon.notes))
    time.sleep(0.06)  # its time is over then
    assert daemon.order("resume", "orders").status == 0
    with pytest.raises(JobFailed, match="had not begun when it expired") as caught:
        late.result(timeout=PATIENCE)
    assert caught.value.code == "EXPIRED"
    kept.result(timeout=PATIENCE)
    assert [word for word, _, _ in daemon.noted()] == ["kept"]


def test_a_suspended_queue_takes_jobs_and_runs_none(start):
    """Others go on; what waits begins at the resume, in its order."""
    daemon = start()
    client = daemon.client()
    assert daemon.order("suspend", "orders").status == 0
    jobs = [client.enqueue("note", f"n{number}", str(daemon.notes)) for number in range(5)]
    client.enqueue("little", "other", str(daemon.notes)).result(timeout=PATIENCE)
    assert {job.status() for job in jobs} == {JobStatus.QUEUED}
    began = time.time()
    assert daemon.order("resume", "orders").status == 0
    for job in jobs:
        job.result(timeout=PATIENCE)
    assert [word for word, _, _ in daemon.noted()] == ["other", "n0", "n1", "n2", "n3", "n4"]
    print(f"resumed after {daemon.noted()[1][1] - began:.3f} s, the command included")


def test_a_full_queue_refuses_and_stores_nothing(start):
    """At max_length the producer's call raises; what is in runs, and there is room again."""
    daemon = start()
    client = daemon.client()
    assert daemon.order("suspend", "small").status == 0
    for number in range(5):
        client.enqueue("little", f"n{number}", str(daemon.notes))
    with pytest.raises(QueueFull, match="'small' is at its max_length"):
        client.enqueue("little", "one too many", str(daemon.notes))
    with pytest.raises(QueueFull):
        client.enqueue_many([("little", ["more", str(daemon.notes)])] * 2)
    assert daemon.order("resume", "small").status == 0
    until(lambda: len(daemon.noted()) == 5, daemon.text)
    client.enqueue("little", "again", str(daemon.notes)).result(timeout=PATIENCE)
    assert [word for word, _, _ in daemon.noted()] == ["n0", "n1", "n2", "n3", "n4", "again"]


def test_an_unknown_task_is_refused_at_the_call(start):
    """With the nearest name that there is; nothing is stored."""
    daemon = start()
    with pytest.raises(UnknownTask, match="note"):
        daemon.client().enqueue("nota", 1)
    assert daemon.order("job", "list", "--json").json == []


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
