"""The history of a job: which of its attempts did not finish."""

import json

import pytest

from fusiond.broker.records import NewJob, Outcome
from fusiond.job import new_id, new_token
from tests.support.past import contradictions
from tests.support.queue_state import findings

HOUR = 3_600_000
ERROR = b'{"code":"EXCEPTION","type":"E","message":"m","traceback":""}'
#: as settle gets it of an attempt that began 10 ms after its claim
ABOUT = b',"host":"box","began":10,"ended":30,"error":"E: m"'


class Lane:
    """A queue with one job."""

    def __init__(self, run, broker, redis):
        self.run, self.broker, self.redis, self.id = run, broker, redis, new_id()
        self.run(broker.enqueue("q", [NewJob(self.id, "t", b"[[],{}]")]))

    def claim(self, lease_ms=HOUR):
        self.redis("ZADD", "test:{q}:scheduled", "XX", 1, self.id)
        token = new_token()
        asked = self.broker.claim("q", 1, dispatcher="d", nonce=token, lease_ms=lease_ms, max_rescues=2, has="0 t")
        return token if self.run(asked).jobs else None

    def settle(self, token, kind, extra=0, payload=ERROR, why="", printed=b"", about=ABOUT):
        payload = b"null" if kind == "finished" else payload
        outcome = Outcome(self.id, token, kind, 0, extra, payload, why, about, printed)
        return self.run(self.broker.settle("q", [outcome]))

    def attempt(self, *outcome, **more):
        self.settle(self.claim(), *outcome, **more)
        return self.record

    def lose(self):
        """Its lease expires, and the next claim takes the job back."""
        self.claim()
        self.redis("ZADD", "test:{q}:started", "XX", 1, self.id)
        self.run(self.broker.rescue("q"))
        return self.record

    @property
    def record(self):
        record = self.run(self.broker.job("q", self.id))
        assert [*contradictions(record)] == []
        return record

    @property
    def outcomes(self):
        return [(past.attempt, past.outcome) for past in self.record.history]


@pytest.fixture
def lane(run, broker, redis):
    return Lane(run, broker, redis)


def test_each_way_in_which_an_attempt_may_end(lane, run, broker):
    """With its number, by which the counters count it or do not; a repeat of the settle adds nothing."""
    token = lane.claim()
    assert [lane.settle(token, "retry") for _ in range(2)] == [[1], [2]]
    lane.attempt("retry", 1, why="crashed")
    lane.attempt("snoozed", f"{HOUR} {HOUR}")
    lane.attempt("released", payload=b"", why="not begun")
    lane.attempt("released", payload=b"begun", why="shutdown")
    lane.attempt("unknown", why="unknown task")
    lane.lose()
    last = lane.attempt("failed", 1, why="timeout")
    assert lane.outcomes == [
        (1, "retry"), (2, "crashed"), (3, "snoozed"), (3, "not begun"), (3, "shutdown"), (3, "unknown task"),
        (3, "rescued"), (4, "timeout"),
    ]  # fmt: skip
    assert (last.attempts, last.crashes, last.rescues, last.interrupted) == (4, 2, 1, 1)
    lane.run(broker.requeue("q", [lane.id]))
    record = lane.attempt("finished")
    assert (record.status, record.attempts, lane.outcomes[-1]) == ("finished", 1, (0, "requeued"))
    assert run(findings(broker, "q")) == []


def test_an_attempt_has_its_times_its_host_and_its_error(lane):
    """Begin and end by the clock of Redis, from the time of the claim."""
    token = lane.claim()
    claimed = lane.record.started_at
    lane.settle(token, "retry")
    (past,) = lane.record.history
    assert (past.began_at, past.ended_at) == (claimed + 10, claimed + 30)
    assert (past.host, past.error, past.worker) == ("box", "E: m", "")
    lane.lose()
    lost = lane.record.history[-1]
    assert (lost.began_at, lost.host, len(lost.worker)) == (None, "", 4)
    assert lost.ended_at >= claimed


def test_it_is_bounded(lane):
    """The last 20 attempts."""
    for number in range(30):
        lane.attempt("retry", about=b',"error":"%d"' % number)
    assert [past.error for past in lane.record.history] == [str(number) for number in range(10, 30)]


def test_what_the_last_failure_has_printed(lane):
    """Until another attempt that fails has printed something; any text, whatever else the job has."""
    said = 'a "b"\n\\n é'
    lane.attempt("retry", printed=json.dumps(said, ensure_ascii=False).encode())
    lane.attempt("retry")
    assert (lane.record.printed, lane.record.printed_attempt) == (said, 1)
    lane.attempt("failed", printed=b'"last"')
    record = lane.record
    assert (record.printed, record.printed_attempt, record.error) == ("last", 3, ERROR)
