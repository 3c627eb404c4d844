"""Cron entries on the whole daemon: file, scheduler, Redis, worker."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.config import model
from fusiond.job import JobStatus
from tests.support.running import Running, until

SECOND = 1000
FILE = """
defaults: {tasks: {result_ttl: 1h}}
tasks: {hello: {run: fusiond.tasks.echo}}
cron:
  each: {task: hello, every: 1s, missed: all, overlap: allow, args: [hi], kwargs: {n: 1}}
workers: {main: {queues: [default], processes: 2, isolation: process}}
"""
MORE = FILE.replace("cron:\n", "cron:\n  more: {task: hello, every: 1s, overlap: allow}\n")


class Cron:
    """A daemon, and the jobs of its entries."""

    def __init__(self, running):
        self.daemon, self.broker = running, Verbs()

    def run(self, verb):
        with connect(model.Broker(url=self.daemon.url), self.daemon.runtime) as connection:
            return connection.run(verb)

    def finished(self, entry="each"):
        """The jobs of an entry that have run, by tick."""
        jobs = self.run(self.broker.jobs("default", JobStatus.FINISHED, count=1000))
        head = f"cron:{entry}:"
        return {int(job.id.removeprefix(head)): job for job in jobs if job.id.startswith(head)}

    def wait_for(self, count, entry="each"):
        """At least so many ticks whose jobs have run."""
        return until(lambda: len(found := sorted(self.finished(entry))) >= count and found, self.daemon.text)

    def last_tick(self):
        return self.run(self.broker.cron_state("each")).last


@pytest.fixture
def cron():
    running = Running()
    try:
        yield Cron(running)
    finally:
        running.close()


def without_gaps(ticks):
    return list(ticks) == list(range(ticks[0], ticks[-1] + 1, SECOND))


def test_a_file_with_an_entry_is_all_it_takes(cron):
    """Each tick's job runs once with the entry's arguments, and its output is in the log under its id."""
    cron.daemon.start(FILE)
    # Of two that run beside each other the later one may be first to end.
    ticks = until(lambda: without_gaps(ticks := cron.wait_for(3)) and ticks, cron.daemon.text)
    jobs = cron.finished()
    assert all(json.loads(jobs[tick].result) == {"args": ["hi"], "kwargs": {"n": 1}} for tick in ticks)
    assert {jobs[tick].attempts for tick in ticks} == {1}
    until(lambda: any("hi n=1" in line and jobs[ticks[0]].id in line for line in cron.daemon.text().splitlines()))


def test_kill_9_of_the_scheduler_loses_no_tick(cron):
    """The supervisor starts another, which goes on from the last decision in Redis."""
    cron.daemon.start(FILE)
    cron.wait_for(1)
    for _ in range(2):
        pid = cron.daemon.pid("scheduler")
        cron.daemon.kill(pid)
        until(lambda pid=pid: (cron.daemon.pid("scheduler") or pid) != pid)
        tick = cron.last_tick()
        until(lambda tick=tick: cron.last_tick() > tick)
    until(lambda: without_gaps(cron.wait_for(3)), cron.daemon.text)


@pytest.mark.proof
def test_a_reload_adds_and_removes_entries_in_place(cron):
    """The scheduler and the worker keep their pids; the new entry ticks at once, the removed one no more."""
    cron.daemon.start(FILE)
    pids = {name: program["pid"] for name, program in cron.daemon.programs().items()}
    assert cron.daemon.reload(MORE)["result"] == "applied"
    cron.wait_for(2, "more")
    assert cron.daemon.reload(FILE)["result"] == "applied"
    ended = max(cron.finished("more"))
    tick = cron.last_tick()
    until(lambda: cron.last_tick() > tick + 2 * SECOND)
    assert max(cron.finished("more")) <= max(ended, tick + SECOND)
    until(lambda: without_gaps(cron.wait_for(4)), cron.daemon.text)
    assert {name: program["pid"] for name, program in cron.daemon.programs().items()} == pids


def test_a_webhook_by_cron_that_is_retried_carries_one_id(cron):
    """The receiver says 503 once: the same job comes again with the same id, signed, and then finishes."""
    seen = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.headers)
            self.send_response(503 if len(seen) == 1 else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        cron.daemon.start(f"""
retry_policies: {{soon: {{delay: 100ms, backoff: fixed, jitter: 0%, retry_on: [ConnectionError]}}}}
tasks: {{notify: {{run: fusiond.tasks.webhook, retry: soon, pass_job: job}}}}
cron:
  each:
    task: notify
    every: 1s
    args: ["http://127.0.0.1:{server.server_port}/", {{n: 1}}]
    kwargs: {{secret_env: HOOK_SECRET, allow_private: true}}
workers: {{main: {{queues: [default], environment: {{HOOK_SECRET: s3cret, FUSION_WEBHOOK_HOSTS: 127.0.0.1}}}}}}
""")
        jobs = cron.wait_for(1) and cron.finished()
        server.shutdown()
    first = jobs[min(jobs)]
    assert [headers["webhook-id"] for headers in seen[:2]] == [first.id, first.id]
    assert all(headers["webhook-signature"].startswith("v1,") for headers in seen)
    assert first.attempts == 2
