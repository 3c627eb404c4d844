"""What is promised of a group with many queues, and of two daemons on one Redis."""

import pytest

from tests.support.running import until

TASKS = '''
import os, time

def note(word, log, seconds=0.0):
    """Leaves a line for each run: word, epoch s, fork server."""
    with open(log, "a") as file:
        file.write(f"{word} {time.time():.6f} {os.getppid()}\\n")
    time.sleep(seconds)
'''
FILE = """
queues: {orders: {}, small: {}, a: {}, b: {}, c: {}, d: {}, e: {}, f: {}}
tasks: {note: {run: jobs.note, queue: orders}}
workers: {main: {queues: "*", directory: {app}, processes: %d, isolation: process}}
"""


def noted(log):
    """(word, epoch s, fork server) of each run, oldest first."""
    lines = (line.split() for line in log.read_text().splitlines())
    return [(word, float(at), int(pid)) for word, at, pid in lines]


@pytest.fixture
def log(tmp_path):
    log = tmp_path / "notes"
    log.touch()
    return log


def test_empty_queues_hold_up_no_other(daemons, log):
    """A group with one process and many queues: what waits in one of them runs, one job right after the other."""
    daemon = daemons.start(FILE % 1, TASKS, polls=False)
    client = daemons.client()
    for number in range(20):
        client.enqueue("note", f"n{number}", str(log))
    until(lambda: len(noted(log)) == 20, daemon.text)


def test_two_daemons_share_the_work(daemons, log):
    """Each job runs once, on either; a cron entry of both ticks once; one dies whole, the other finishes the rest."""
    file = FILE % 2 + f"cron: {{each: {{task: note, every: 1s, args: [tick, {log}]}}}}\n"
    one, _ = (daemons.start(file, TASKS) for _ in range(2))
    client = daemons.client()
    jobs = []

    def both_take_part():
        first = len(jobs)
        jobs.extend(client.enqueue("note", f"n{first + more}", str(log), 0.02) for more in range(20))
        return len({pid for word, _, pid in noted(log) if word != "tick"}) == 2

    until(both_take_part, one.text)
    for job in jobs:
        job.result(timeout=60)
    words = [word for word, _, _ in noted(log) if word != "tick"]
    assert sorted(words) == sorted(f"n{number}" for number in range(len(jobs)))

    rest = [client.enqueue("note", f"r{number}", str(log), 0.05) for number in range(100)]
    until(lambda: sum(word.startswith("r") for word, _, _ in noted(log)) > 20)
    one.children()
    one.kill(one.process.pid)
    for job in rest:
        job.result(timeout=60)
    words = [word for word, _, _ in noted(log) if word.startswith("r")]
    assert set(words) == {f"r{number}" for number in range(100)}
    # what the dead one's two children had begun, or ended and not told, and nothing else
    print(f"{len(words) - 100} jobs ran again")
    assert len(words) - 100 <= 20
    ticks = [int(at) for word, at, _ in noted(log) if word == "tick"]
    assert len(ticks) <= ticks[-1] - ticks[0] + 2
