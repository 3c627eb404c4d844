"""Limits hold over two daemons on one Redis, and what they stop goes on as soon as it may."""

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.config import model
from fusiond.errors import EnqueueError
from tests.support.running import until

TASKS = """
import time

def note(word, log, seconds=0.0, **more):
    with open(log, "a") as file:
        file.write(f"{word} {time.time():.6f} begin\\n")
    time.sleep(seconds)
    with open(log, "a") as file:
        file.write(f"{word} {time.time():.6f} end\\n")

def nothing():
    pass
"""


WORKERS = "workers: {main: {queues: '*', directory: {app}, processes: %d, drain_timeout: 1s}}\n"


@pytest.fixture
def start(daemons, tmp_path):
    """Starts daemons whose polls make up for nothing: the client, and the file of notes."""
    notes = tmp_path / "notes"
    notes.touch()

    def start(text, *processes):
        for count in processes:
            daemons.start(text + WORKERS % count, TASKS, polls=False)
        return daemons.client(), notes, daemons.running

    return start


@pytest.fixture
def run(daemons, tmp_path):
    with connect(model.Broker(url=daemons.url), tmp_path) as connection:
        yield connection.run


def noted(notes):
    """(word, epoch s, begin or end), oldest first."""
    lines = (line.split() for line in notes.read_text().splitlines())
    return sorted(((word, float(at), what) for word, at, what in lines), key=lambda each: each[1])


def begins(found):
    return [at for _, at, what in found if what == "begin"]


def ends(found):
    return [at for _, at, what in found if what == "end"]


QUEUES = """
queues: {few: {max_running: 2}}
tasks: {note: {run: jobs.note, queue: few}, free: {run: jobs.note}}
"""


TASKS_WITH_LIMITS = """
queues: {shared: {max_length: 500}, elsewhere: {}}
tasks:
  sync: {run: jobs.note, queue: shared, limit: {by: [kwargs.account], max_running: 1}}
  other: {run: jobs.note, queue: shared}
"""


def test_calls_that_a_limit_cannot_count_are_refused(start):
    """One that lacks the argument, and one that goes to another queue; each says which and why."""
    client, notes, _ = start(TASKS_WITH_LIMITS, 1)
    with pytest.raises(EnqueueError, match=r"limit by kwargs\.account, but in this call kwargs\.account is missing"):
        client.enqueue("sync", "a", str(notes))
    with pytest.raises(EnqueueError, match="neither a text, nor a boolean"):
        client.enqueue("sync", "a", str(notes), account=1.5)
    with pytest.raises(EnqueueError, match="which holds in its queue 'shared' alone"):
        client.options(queue="elsewhere").enqueue("sync", "a", str(notes), account="a")
    client.options(queue="shared").enqueue("sync", "a", str(notes), account="a")
    until(lambda: ends(noted(notes)), "the good call has run")


def test_a_limited_queue_has_its_turn_beside_a_deep_one(start, run):
    """Jobs of the other queue that wait in the children would have each child that becomes free."""
    other = QUEUES.replace("free: {run: jobs.note}", "free: {run: jobs.nothing}")
    client, notes, [daemon] = start(other, 1)
    assert daemon.reload(daemon.body.replace("processes: 1", "processes: 1, isolation: process"))["result"] == "applied"
    client.enqueue_many([("free", []) for _ in range(10_000)])
    until(lambda: client.counts()["default"].finished > 1000, "they run")
    jobs = client.enqueue_many([("note", [str(n), str(notes)]) for n in range(10)])
    until(lambda: len(noted(notes)) == 20, "the jobs of the limited queue have run")
    records = [until(lambda job=job: (now := run(Verbs().job("few", job.id))).ended_at and now) for job in jobs]
    # By turns: many of the other's jobs are claimed at once only where they have no child to wait for.
    finished = Verbs().keys.of("default", "finished")
    kept = 1000 * model.Task("free", "jobs.nothing").result_ttl
    span = [min(each.created_at for each in records) + kept, max(each.ended_at for each in records) + kept]
    assert run(plain(as_is, "ZCOUNT", finished, *span)) < 4000


def words(notes):
    """Of the jobs that have begun."""
    return [word for word, _, what in noted(notes) if what == "begin"]


FAIR = """
queues: {shared: {fair_by: [kwargs.account]}}
tasks: {sync: {run: jobs.note, queue: shared}}
"""


def test_tenants_take_turns_over_two_daemons_and_a_reload_gives_turns_to_who_waits(start):
    """A tenant with one job runs it before the hundreds of another that were there first."""
    client, notes, [one, other] = start(FAIR.replace("[kwargs.account]", "[]"), 1, 1)
    flood = [("sync", ["flood", str(notes), 0.1], {"account": "flood"}) for _ in range(2000)]
    client.enqueue_many([*flood, ("sync", ["late", str(notes)], {"account": "late"})])
    until(lambda: len(noted(notes)) > 4, "the first ones run")
    # Both daemons have the same Redis: the file of one says that there are turns.
    one.reload(one.body.replace("[]", "[kwargs.account]"))
    other.reload(other.body.replace("[]", "[kwargs.account]"))
    turns = len(begins(noted(notes)))
    until(lambda: "late" in words(notes), "it has its turn")
    client.enqueue("sync", "next", str(notes), account="next")
    before = len(begins(noted(notes)))
    until(lambda: "next" in words(notes), "it has its turn")
    assert words(notes).index("next") - before <= 6
    # those who waited get their turns a page at a time
    assert words(notes).index("late") - turns < 100
