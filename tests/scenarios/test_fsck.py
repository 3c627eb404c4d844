"""Fsck and `suspend --all` beside a daemon that works."""

import contextlib

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.verbs import Verbs
from fusiond.client import Client
from fusiond.job import JobStatus
from tests.support.fusiond_command import fusiond
from tests.support.running import Running, until

TASKS = '''
import time

def note(number, log):
    """Leaves a line for each run."""
    time.sleep(0.002)
    with open(log, "a") as file:
        file.write(f"{number}\\n")
'''
BODY = """
broker: {{url: "{url}"}}
queues: {{orders: {{}}{more}}}
tasks: {{note: {{run: jobs.note, queue: orders}}{task}}}
workers: {{main: {{queues: "*", directory: {app}, processes: 2, isolation: process}}}}
"""


class Daemon(Running):
    """A daemon on a given Redis."""

    def __init__(self, url):
        super().__init__()
        (self.app / "jobs.py").write_text(TASKS)
        self.url, self.notes = url, self.directory / "notes"
        self.notes.touch()

    def body(self, more="", task=""):
        return BODY.format(url=self.url, app=self.app, more=more, task=task)

    def order(self, *words):
        """A person's command."""
        return fusiond(*words, cwd=self.directory)

    def enqueue(self, *numbers):
        log = str(self.notes)
        return Client(self.url).enqueue_many([("note", [number, log]) for number in numbers])

    def ran(self):
        return sorted(map(int, self.notes.read_text().split()))


@pytest.fixture
def daemon(redis_server):
    with contextlib.closing(Daemon(redis_server.url)) as daemon:
        # Without the scheduler, whose sweep repairs the same, once a minute.
        yield daemon.start(daemon.body(), "--only", "main")


def test_a_namespace_is_checked_and_mended_while_its_daemon_works(daemon, redis_server):
    """While jobs run nothing is found; of jobs that were lost by hand each is found, comes back, and runs once."""
    count, more = 0, 500
    while len(daemon.ran()) == count:  # until a look ended before the jobs did
        daemon.enqueue(*range(count, count + more))
        until(lambda: len(daemon.ran()) > count, daemon.text)  # noqa: B023 - of this round
        count, more = count + more, 2 * more
        report = daemon.order("fsck", "--json")
        assert (report.status, report.json["findings"]) == (0, [])
    until(lambda: len(daemon.ran()) == count, daemon.text)

    verbs = Verbs("fusion")
    with redis_server.connect("fusion") as connection:
        connection.run(verbs.suspend("orders", by="operator", on=True))
        lost = daemon.enqueue(*range(count, count + 100))
        connection.run(plain(as_is, "UNLINK", "fusion:{orders}:queue"))
        connection.run(verbs.suspend("orders", by="operator", on=False))
    daemon.enqueue(*range(count + 100, count + 200))
    report = daemon.order("fsck", "--repair", "--json")
    assert report.status == 0
    assert sorted(each["job"] for each in report.json["findings"]) == sorted(job.id for job in lost)
    assert {each["outcome"] for each in report.json["findings"]} == {"repaired"}
    until(lambda: len(daemon.ran()) == count + 200, daemon.text)
    assert daemon.ran() == list(range(count + 200))
    assert daemon.order("fsck").status == 0


def test_a_queue_that_a_reload_adds_is_suspended_with_all(daemon, redis_server):
    """Nothing of it runs before `resume --all`, which the workers hear of at once."""
    assert daemon.order("suspend", "--all").status == 0
    assert daemon.reload(daemon.body(", later: {}", ", late: {run: jobs.note, queue: later}"))["result"] == "applied"
    job = Client(daemon.url).enqueue("late", 7, str(daemon.notes))
    with redis_server.connect("fusion") as connection:
        assert connection.run(Verbs("fusion").counts("later")).suspended_by_operator
    assert "later: resumed" in daemon.order("resume", "--all").out
    until(lambda: job.status() == JobStatus.FINISHED, daemon.text)
    assert daemon.ran() == [7]
