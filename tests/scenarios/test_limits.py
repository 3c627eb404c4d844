"""Limits hold over two daemons on one Redis, and what they stop goes on as soon as it may."""

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.client import Client
from fusiond.config import model
from fusiond.errors import EnqueueError
from tests.support.running import Running, until
from tests.support.seldom_polls import seldom_polls

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


class Daemon(Running):
    """A daemon on a given Redis, whose polls make up for nothing."""

    def __init__(self, url, notes, text, *, processes):
        super().__init__()
        (self.app / "jobs.py").write_text(TASKS)
        self.notes = notes
        workers = (
            f"workers: {{main: {{queues: '*', directory: {self.app}, processes: {processes}, drain_timeout: 1s}}}}\n"
        )
        self.body = f"broker: {{url: '{url}'}}\n{text}{workers}"
        self.write(self.body)
        self.start(environment=seldom_polls(self.directory))


@pytest.fixture
def start(redis_server, tmp_path):
    """Starts daemons on the test's own Redis: the client, and the file of notes."""
    running, url, notes = [], Running.broker_url or redis_server.url, tmp_path / "notes"
    notes.touch()

    def start(text, *processes):
        for count in processes:
            daemon = Daemon(url, notes, text, processes=count)
            running.append(daemon)
        return Client(url), notes, running

    yield start
    for daemon in running:
        daemon.close()


@pytest.fixture
def run(redis_server, tmp_path):
    with connect(model.Broker(url=Running.broker_url or redis_server.url), tmp_path) as connection:
        yield connection.run


def noted(notes):
    """(word, epoch s, begin or end), oldest first."""
    lines = (line.split() for line in notes.read_text().splitlines())
    return sorted(((word, float(at), what) for word, at, what in lines), key=lambda each: each[1])


def most_at_once(found):
    """How many of them ran at the same time."""
    running = most = 0
    for _, _, what in found:
        running += 1 if what == "begin" else -1
        most = max(most, running)
    return most


def begins(found):
    return [at for _, at, what in found if what == "begin"]


def ends(found):
    return [at for _, at, what in found if what == "end"]


QUEUES = """
queues: {few: {max_running: 2}, slow: {rate_limit: 20/s}}
tasks: {note: {run: jobs.note, queue: few}, rated: {run: jobs.note, queue: slow}, free: {run: jobs.note}}
"""


def test_max_running_holds_over_two_daemons_and_each_end_lets_the_next_begin(start):
    """Two daemons with eight children: never more than two at once; a wake-up that nobody got would cost an hour."""
    client, notes, _ = start(QUEUES, 4, 4)
    client.enqueue_many([("note", [str(n), str(notes), 0.1]) for n in range(20)])
    until(lambda: len(noted(notes)) == 40, "all jobs have run")
    assert most_at_once(noted(notes)) == 2


def test_a_rate_holds_over_two_daemons(start, run):
    """A burst of two and 20 a second, whoever claims; who is stopped comes back by itself, and not after an hour."""
    client, notes, _ = start(QUEUES, 4, 4)
    jobs = client.enqueue_many([("rated", [str(n), str(notes)]) for n in range(30)])
    until(lambda: len(noted(notes)) == 60, "all jobs have run")
    at = [run(Verbs().job("slow", job.id)).started_at for job in jobs]
    # 28 of them wait for 50 ms each; by the clock of Redis, which has let them begin
    assert max(at) - min(at) >= 1.399


def test_a_reload_lifts_a_limit_in_place(start):
    """Jobs that it held back begin at once, in the same children."""
    client, notes, [daemon] = start(QUEUES.replace("max_running: 2", "max_running: 1"), 4)
    client.enqueue_many([("note", [str(n), str(notes), 60.0]) for n in range(3)])
    until(lambda: len(begins(noted(notes))) == 1, "the first one runs")
    daemon.reload(daemon.body.replace("max_running: 1", "max_running: 3"))
    until(lambda: len(begins(noted(notes))) == 3, "the others run beside it")
    assert not ends(noted(notes))


TASKS_WITH_LIMITS = """
queues: {shared: {max_length: 500}, elsewhere: {}}
tasks:
  sync: {run: jobs.note, queue: shared, limit: {by: [kwargs.account], max_running: 1}}
  other: {run: jobs.note, queue: shared}
"""


def of(found, account):
    return [each for each in found if each[0].startswith(account)]


def test_one_job_of_each_account_runs_over_two_daemons(start):
    """Each account by itself, the next one as one ends: a wake-up that nobody got would cost an hour; others beside."""
    client, notes, _ = start(TASKS_WITH_LIMITS, 4, 4)
    jobs = [("sync", [f"{account}{n}", str(notes), 0.1], {"account": account}) for account in "abc" for n in range(8)]
    client.enqueue_many([*jobs, *[("other", [f"x{n}", str(notes)]) for n in range(20)]])
    until(lambda: len(noted(notes)) == 88, "all jobs have run")
    found = noted(notes)
    assert [most_at_once(of(found, account)) for account in "abc"] == [1, 1, 1]
    firsts, lasts = ([each(of(found, account))[at] for account in "abc"] for each, at in ((begins, 0), (ends, -1)))
    assert max(firsts) < min(lasts), "no account waited for the end of another"
    assert begins(of(found, "x"))[-1] < ends(of(found, "a"))[-1], "the others waited for no place"


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


def test_a_reload_lifts_a_task_s_limit_in_place(start):
    """What it held begins at once; a new limit by another argument holds from then on."""
    client, notes, [daemon] = start(TASKS_WITH_LIMITS, 4)
    client.enqueue_many([("sync", [f"a{n}", str(notes), 60.0], {"account": "a"}) for n in range(3)])
    until(lambda: client.counts("shared")["shared"].held == 2, "two are held")
    daemon.reload(daemon.body.replace("max_running: 1}", "max_running: 3}"))
    until(lambda: len(begins(noted(notes))) == 3, "the others run beside it")
    assert not ends(noted(notes))


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
