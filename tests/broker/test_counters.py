"""Counters of what becomes of jobs: each outcome that was settled is counted once, and no other."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.broker.counters import LIMITS, MINUTE, Bound, Histogram, Measured, Rate, Tally, series
from fusiond.broker.records import NewJob, Outcome, TaskLimit
from fusiond.job import JobStatus
from tests.support.running import until

ERROR = b'{"code":"EXCEPTION","type":"E","message":"m","traceback":""}'
KEY = "test:{q}:metrics"
HOUR = 3600


class Counted:
    """A queue whose outcomes are counted."""

    def __init__(self, run, connection, broker, redis):
        self.run, self.connection, self.broker, self.redis = run, connection, broker, redis
        self.numbers = iter(range(10**6))

    def add(self, count=1, task="t", **options):
        for _ in range(count):
            name = f"{next(self.numbers):06}"
            self.run(self.broker.enqueue("q", [NewJob(name, task, b"[[],{}]", **options)]))

    def claim(self, want=1, nonce="n", lease_ms=HOUR * 1000, **options):
        options = {"dispatcher": "d", "max_rescues": 1} | options
        return self.run(self.broker.claim("q", want, nonce=nonce, lease_ms=lease_ms, **options))

    def settle(self, *outcomes, ran=0.02, waited=2.0, task="t"):
        return self.run(self.broker.settle("q", outcomes, [Measured(task, ran, waited)] * len(outcomes)))

    def run_one(self, kind="finished", nonce="n", task="t", ran=0.02, **options):
        """One job, to its outcome."""
        self.add(task=task)
        (job,) = self.claim(nonce=nonce).jobs
        outcome = Outcome(job.id, nonce, kind, 10**6, payload=ERROR, **options)
        assert self.settle(outcome, task=task, ran=ran) == [1]
        return outcome

    def read(self, **wanted):
        reading = self.broker.counters(["q"], **wanted)
        return reading.read(self.connection.run_many(reading.calls))["q"]

    @property
    def tally(self):
        return self.read().totals["t"]

    def turn_back(self, minutes=1):
        """What was counted in minutes so far was counted before."""
        key, moved = f"{KEY}:minutes", []
        flat = self.redis("HGETALL", key)
        for field, number in zip(flat[::2], flat[1::2], strict=True):
            name, at = field.decode().split(" ")
            moved += (f"{name} {int(at) - minutes}", number)
        self.redis("DEL", key)
        self.redis("HSET", key, *moved)
        return (int(at) - minutes) * MINUTE

    def expire_leases(self):
        for id_ in self.redis("ZRANGE", "test:{q}:started", 0, -1):
            self.redis("ZADD", "test:{q}:started", 1, id_)


@pytest.fixture
def within_a_minute():
    """A minute does not end in the next two seconds."""
    until(lambda: time.time() % MINUTE < MINUTE - 2)


@pytest.fixture
def counted(run, connection, broker, redis):
    return Counted(run, connection, broker, redis)


def test_outcomes_are_counted_by_task_with_their_times(counted):
    counted.run_one(ran=0.004)
    counted.run_one("failed", "m", ran=0.02)
    counted.run_one("canceled", "o", "other", ran=None)
    tally = counted.tally
    assert (tally.finished, tally.failed, tally.canceled, tally.ended) == (1, 1, 0, 2)
    assert tally.run == Histogram((1, 0, 1) + (0,) * 14, 0.024)
    assert (tally.wait.count, tally.wait.seconds) == (2, 4.0)
    assert counted.read().totals["other"] == Tally(canceled=1)


def test_claims_count_what_they_rescue_end_and_hold(counted):
    limit = {"t": TaskLimit(max_running=1)}
    counted.run(counted.broker.configure("q", tasks={"t": (1, None), "u": (1, None)}, limits=limit, metrics=True))
    counted.add(2, "u")
    counted.add(1, "t", expires_ms=0)
    counted.add(2)
    assert len(counted.claim(9).jobs) == 3
    assert (counted.tally.failed, counted.tally.held) == (1, 1)
    for rescues_allowed in (1, 1):
        counted.claim(9, nonce=f"m{next(counted.numbers)}")
        counted.expire_leases()
        rescue = {"want": 0, "nonce": f"r{next(counted.numbers)}", "max_rescues": rescues_allowed}
        counted.claim(**rescue)
        # its reply was lost
        counted.claim(**rescue)
    other = counted.read().totals["u"]
    assert (other.rescued, other.failed) == (2, 2)


def test_jobs_that_end_while_they_wait_are_counted(counted):
    """Canceled, replaced by another one, canceled since a parent of theirs has failed; each once."""
    run, broker = counted.run, counted.broker
    run(broker.configure("q", tasks={"t": (1, None)}, metrics=True))
    counted.add(2, unique="ended,replace,0,1")
    counted.add(delay_ms=10**6)
    counted.add()
    replaced, waiting, scheduled, parent = (f"{number:06}" for number in range(4))
    for _ in range(2):
        assert run(broker.cancel("q", scheduled)) in ("canceled", "ended")
    counted.add(after=f"0 0 q/{parent}")
    counted.add(after=f"0 0 q/{parent}", expires_ms=0)
    for _ in range(2):
        run(broker.sweep("q"))
    run(broker.deliver("q"))
    run(broker.cancel("q", parent))
    run(broker.deliver("q"))
    assert (counted.tally.canceled, counted.tally.failed) == (3, 2)
    assert {job.id for job in run(broker.jobs("q", JobStatus.CANCELED, count=9))} == {replaced, scheduled, parent}
    assert run(broker.status("q", waiting)) == "queued"


def test_without_the_key_nothing_is_counted(counted):
    """By a claim, since `configure` has not said so, nor by a settle that has nothing measured."""
    counted.add(2, expires_ms=0)
    counted.add(2)
    (*_, job) = counted.claim(9).jobs
    counted.add()
    assert counted.run(counted.broker.cancel("q", "000004")) == "canceled"
    counted.run(counted.broker.settle("q", [Outcome(job.id, "n", "finished", payload=b"1")]))
    assert counted.redis("KEYS", f"{KEY}*") == []


@pytest.mark.usefixtures("within_a_minute")
def test_minutes(counted):
    """Each minute counts all tasks together; a graph loses nothing."""
    counted.run_one(nonce="a")
    before = counted.turn_back(minutes=61)
    counted.run_one("failed", nonce="b", task="other")
    found = counted.read(with_minutes=True)
    assert min(found.minutes) == before
    assert [(tally.finished, tally.failed) for _, tally in sorted(found.minutes.items())] == [(1, 0), (0, 1)]
    assert (found.minutes[before].run, found.totals["t"].ended) == (found.totals["t"].run, 1)
    drawn = series([found, found], now=time.time(), count=63)
    assert [tally.ended for _, tally in drawn if tally.ended] == [2, 2]
    assert [start for start, _ in drawn] == list(range(drawn[0][0], drawn[-1][0] + 1, MINUTE))


@pytest.mark.usefixtures("within_a_minute")
def test_old_minutes_go_and_an_idle_queue_is_forgotten(counted):
    """Both keys have a TTL, and no minute is kept that is too old."""
    counted.run_one(nonce="a")
    old = counted.turn_back(minutes=120)
    counted.run_one(nonce="b")
    found = counted.read(with_minutes=True)
    assert (len(found.minutes), old in found.minutes, found.totals["t"].finished) == (1, False, 2)
    ttl = {key.decode(): counted.redis("PTTL", key) for key in counted.redis("KEYS", f"{KEY}*")}
    hours = {key.removeprefix(KEY).rstrip("0123456789"): round(ms / 3_600_000) for key, ms in ttl.items()}
    assert hours == {"": 720, ":minutes": 2, ":hour:": 720}


def test_each_hour_is_counted_by_task(counted):
    """Of the hours that are asked for; what is none of ours there counts as nothing."""
    counted.run_one(task="t", ran=0.02)
    counted.run_one("failed", task="u", ran=3.0, nonce="b")
    hour = int(time.time()) // HOUR
    counted.redis("HSET", f"{KEY}:hour:{hour - 5}", "f t", "7", "f u", "x", "R3 t", "-1")
    found = counted.run(counted.broker.hours(["q", "none"], [hour - 5, hour - 1, hour, hour + 1]))
    now = [tasks for (_, at), tasks in found.items() if at >= hour]
    assert sum(tasks["t"].finished for tasks in now if "t" in tasks) == 1
    assert [tasks["u"].run.quantile(0.5) for tasks in now if "u" in tasks] == [Bound(5.0)]
    assert found["q", hour - 5]["t"].finished == 7


def test_how_fast_jobs_come_and_go(counted):
    """Over the last minutes; a retry comes and goes once more. Without counts nobody knows how many come."""
    assert counted.run(counted.broker.rates(["q"], time.time()))["q"] == Rate(None, 0.0)
    for number in range(4):
        counted.run_one(nonce=f"n{number}")
    counted.add(6)
    minute = int(time.time()) // MINUTE
    counted.redis("DEL", f"{KEY}:minutes")
    counted.redis("HSET", f"{KEY}:minutes", f"i {minute - 5}", "0", f"f {minute - 5}", "4", f"i {minute - 50}", "0")
    rate = counted.run(counted.broker.rates(["q"], (minute - 5) * MINUTE + 100))["q"]
    assert (rate.arrives, rate.leaves) == (10 / 100, 4 / 100)
    ten = replace(counted.run(counted.broker.counts("q")), queued=10)
    assert rate.seconds_until_empty(ten) is None
    assert (Rate(0.5, 2.5).seconds_until_empty(ten), Rate(None, 2.0).seconds_until_empty(ten)) == (5.0, 5.0)
    assert Rate(9.0, 0.0).seconds_until_empty(replace(ten, queued=0)) == 0.0
    assert Rate(0.5, 2.5).seconds_until_empty(replace(ten, suspended_by_operator=True)) is None


def test_tasks_without_end_are_counted_together(counted):
    """Anybody may push jobs of any name; a task that is counted already stays so."""
    counted.run_one(task="known", nonce="before")
    counted.redis("HSET", KEY, *(word for n in range(10_000) for word in (f"f x{n}", "1")))
    counted.run_one(task="new", nonce="a")
    counted.run_one(task="newer", nonce="b")
    counted.run_one("failed", task="known", nonce="c")
    totals = counted.read().totals
    assert "new" not in totals
    assert totals["(other)"].finished == 2
    assert (totals["known"].finished, totals["known"].failed) == (1, 1)
    assert counted.redis("HLEN", KEY) < 10_020


@pytest.mark.parametrize("key", [KEY, f"{KEY}:minutes"])
def test_what_another_program_has_written_is_left_alone(counted, key):
    """A key of another type costs the counts, and no job; a field that is not a number counts as nothing."""
    counted.redis("SET", key, "text")
    counted.run_one(nonce="a")
    assert counted.redis("GET", key) == b"text"
    counted.redis("DEL", key)
    counted.redis("HSET", KEY, "f t", "many", "nothing", "1", "R99 t", "5")
    counted.run_one(nonce="b")
    assert (counted.tally.finished, counted.tally.run.count) == (0, 1)


@given(st.lists(st.floats(0, 8000), min_size=1), st.floats(0, 1))
def test_a_quantile_is_told_as_the_limit_of_its_bucket(times, share):
    """It is never exact: an interpolated time may be longer than anything has taken."""
    buckets = [0] * (len(LIMITS) + 1)
    for each in times:
        buckets[sum(limit < each for limit in LIMITS)] += 1
    found = Histogram(tuple(buckets), sum(times)).quantile(share)
    ranked = sorted(times)
    true = ranked[max(0, min(len(ranked) - 1, -int(-share * len(ranked) // 1) - 1))]
    number = sum(limit < true for limit in LIMITS)
    assert found == (Bound(LIMITS[number]) if number < len(LIMITS) else Bound(LIMITS[-1], above=True)) or not share
