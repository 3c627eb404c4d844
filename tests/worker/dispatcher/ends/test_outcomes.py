"""How an attempt ends: each thing that a child may say, and each death that it may die, by the task's policy."""

import json
import signal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.broker.records import Outcome
from fusiond.config.model import RETRY_POLICIES, Config, RetryPolicy, Task, WorkerGroup
from fusiond.worker.dispatcher.ends import verdicts
from fusiond.worker.dispatcher.ends.outcomes import Outcomes
from fusiond.worker.pool.attempt import Attempt, KillReason
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.runtime import wire

TASK = Task("t", "m.f", result_ttl=5, failure_ttl=7)
NONE = RETRY_POLICIES["none"]
POLICY = RetryPolicy(max_attempts=3, backoff="fixed", delay=2, jitter_share=0, max_crashes=1)
ERROR = json.dumps({"code": "EXCEPTION", "type": "E", "message": "m", "traceback": ""}).encode()


def attempt(number=1, crashes=0, rescues=0, **fields):
    made = Attempt("q", b"id", "token", b"t", b"[]", b"", number, crashes, rescues, 0, 0)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def said(kind, follows=wire.GIVE_UP, payload=ERROR):
    return wire.OutcomeMessage(1, kind, follows, 0.0, payload)


def ran(one, message, policy=POLICY):
    return verdicts.outcome_of_run(one, message, TASK, policy, Random(1))


def killed(one, reason=None, status=-9, policy=POLICY):
    return verdicts.killed(one, reason, status, TASK, policy, rand=Random(1))


def code(outcome):
    return json.loads(outcome.payload)["code"]


# -- what Redis answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["finished", "released", "unknown"])
def test_an_outcome_without_an_error_is_not_told_as_a_failure(kind):
    """Redis may say so of a job that was given back and failed later, or in a damaged reply."""
    conf = GroupConfig(Config(), WorkerGroup("main"))
    outcomes = Outcomes(conf, lambda *told: pytest.fail(str(told)), pytest.fail)
    outcomes.note_settled("q", [(attempt(), Outcome(b"id", "token", kind))], [3])
    assert outcomes.counts["finished" if kind == "finished" else "released"] == 1


# -- what the history will say ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["plain", "two\nlines", 'a "quote" \\', "\ud800", "é" * 20_000, "\0\x7f\u2028"])
def test_what_the_history_will_say(text):
    """One line of JSON each, whatever the job has said; of what it has printed the last 32 kB."""
    error = json.dumps({"code": "EXCEPTION", "type": "shop.Error", "message": text, "traceback": ""}).encode()
    tried = attempt(
        1, claimed=1_000_000, ran=0.25, cpu=0.1, release="a, b", output_tail=bytearray(text.encode(errors="replace"))
    )
    outcome = verdicts.with_history(tried, Outcome(b"id", "token", "retry", 0, 0, error), 2_001_000_000, "box")
    assert b"\n" not in outcome.about + outcome.printed
    said = json.loads(b"{%b}" % outcome.about[1:])
    known = text.encode(errors="replace").decode()
    assert said == {
        "host": "box",
        "ended": 2000,
        "began": 1750,
        "with": "100,,,a, b",
        "error": f"shop.Error: {known}"[:500],
    }
    assert known.encode().endswith(json.loads(outcome.printed).encode())
    assert len(json.loads(outcome.printed).encode()) in (len(known.encode()), 32768)


def test_what_a_job_that_goes_back_has_printed_is_no_news():
    """And what never began has no begin."""
    released = verdicts.released(attempt(), "not begun")
    outcome = verdicts.with_history(attempt(1, output_tail=bytearray(b"x")), released, 5_000_000, "box")
    assert (outcome.about, outcome.printed) == (b',"host":"box","ended":5', b"")


# -- expiry -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["retry", "snoozed"])
def test_a_retry_after_the_expiry_is_not_made(kind):
    """The job fails at once with its own exception; a delay shorter by a millisecond is in time."""
    again = Outcome(b"id", "token", kind, 3000, "1 2" if kind == "snoozed" else 0, ERROR)
    late = attempt(1)
    late.expires = 5_000_000_000
    assert verdicts.in_time(late, again, TASK, 1_999_999_999) is again
    outcome = verdicts.in_time(late, again, TASK, 2_000_000_000)
    assert (outcome.kind, outcome.ms, outcome.extra, outcome.why) == ("failed", 7000, 0, "expired")
    raised = json.loads(ERROR)
    said = f"{raised['message']}; not retried: that would be after `expires`"
    assert json.loads(outcome.payload) == raised | {"code": "EXPIRED", "message": said}


def test_a_crash_after_the_expiry_counts_as_one_and_is_not_retried():
    """What goes back to its queue instead of being retried expires at its next claim, if at all."""
    late = attempt(1)
    late.expires = 1
    died = killed(late, None, -9)
    assert died.kind == "retry"
    outcome = verdicts.in_time(late, died, TASK, 2)
    assert (outcome.kind, outcome.extra) == ("failed", 1)
    assert json.loads(outcome.payload)["message"].startswith("its process was killed by SIGKILL")
    gone = killed(late, KillReason.SERVER)
    assert verdicts.in_time(late, gone, TASK, 2) is gone


# -- what a child says ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "crashes", "rescues", "kind"),
    [
        (1, 0, 0, "retry"),
        (2, 0, 0, "retry"),
        (3, 0, 0, "failed"),
        (3, 1, 0, "retry"),
        (4, 1, 1, "retry"),
        (4, 1, 0, "failed"),
    ],
)
def test_failed(number, crashes, rescues, kind):
    """max_attempts counts exceptions: neither crashes nor rescues."""
    outcome = ran(attempt(number, crashes, rescues), said(wire.FAILED, follows=wire.RETRY))
    assert (outcome.kind, outcome.extra, outcome.payload) == (kind, 0, ERROR)
    assert outcome.ms == (2000 if kind == "retry" else 7000)


def asking(seconds):
    """The error of an exception with this `retry_after`."""
    return json.dumps({**json.loads(ERROR), "retry_after": seconds}).encode()


@pytest.mark.parametrize("number", [1, 2, 50])
def test_snoozed(number):
    """After the first delay, whatever the number of the attempt; the longest time goes with it."""
    outcome = ran(attempt(number), said(wire.FAILED, follows=wire.SNOOZE))
    assert outcome == Outcome(b"id", "token", "snoozed", 2000, "86400000 7000", ERROR)


def test_at_most_once_is_not_snoozed():
    """A reload may have changed the policy since the job began; then it begins once, and fails."""
    assert ran(attempt(), said(wire.FAILED, follows=wire.SNOOZE), NONE).kind == "failed"


@pytest.mark.parametrize("follows", [wire.RETRY, wire.SNOOZE])
@pytest.mark.parametrize(("asked", "waits"), [(0, 0), (7, 7000), (0.25, 250), (1e6, 600_000)])
def test_an_exception_says_when(follows, asked, waits):
    """`retry_after`, at most max_delay, for a retry and for a snooze."""
    assert ran(attempt(), said(wire.FAILED, follows=follows, payload=asking(asked))).ms == waits


@pytest.mark.parametrize("asked", ["7", True, -1, None, [7], float("nan"), float("inf")])
def test_what_is_no_delay_is_no_error_either(asked):
    """Task code can write to its socket too: such an error is replaced by one that says so."""
    outcome = ran(attempt(), said(wire.FAILED, follows=wire.RETRY, payload=asking(asked)))
    assert (outcome.ms, json.loads(outcome.payload)["message"]) == (2000, "its error cannot be read")


@given(st.binary(max_size=50))
def test_an_error_that_is_none_is_replaced(payload):
    """What is stored can always be read."""
    error = json.loads(ran(attempt(), said(wire.FAILED, payload=payload)).payload)
    assert set(error) == {"code", "type", "message", "traceback"}


# -- deaths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, -signal.SIGKILL, -signal.SIGSEGV, -99])
@pytest.mark.parametrize(("crashes", "kind"), [(0, "retry"), (1, "failed"), (5, "failed")])
def test_a_crash(status, crashes, kind):
    """Counted, tried again at once, and failed above max_crashes, with what the kernel said of it."""
    outcome = killed(attempt(9, crashes), status=status)
    assert (outcome.kind, outcome.extra, outcome.why, code(outcome)) == (kind, 1, "crashed", "WORKER_CRASHED")
    assert outcome.ms == (0 if kind == "retry" else 7000)
    message = json.loads(outcome.payload)["message"]
    assert (signal.Signals(-status).name if status in (-9, -11) else str(abs(status))) in message


def test_a_hard_timeout():
    """A crash with a code of its own, the seconds, and the policy's delay."""
    outcome = killed(attempt(hard_timeout=1.5), KillReason.TIMEOUT)
    assert outcome.ms == 2000
    assert (outcome.kind, outcome.extra, outcome.why, code(outcome)) == ("retry", 1, "timeout", "TIMEOUT")
    assert "1.5 s" in json.loads(outcome.payload)["message"]
    assert killed(attempt(crashes=1), KillReason.TIMEOUT).kind == "failed"


@pytest.mark.parametrize("reason", [None, *KillReason])
def test_a_lost_lease(reason):
    """It is somebody else's: nothing is settled, whatever else happened."""
    assert killed(attempt(lost=True), reason) is None
    assert killed(attempt(), KillReason.LOST) is None


@pytest.mark.parametrize(
    "reason", [None, KillReason.CANCELED, KillReason.TIMEOUT, KillReason.SHUTDOWN, KillReason.PROTOCOL_ERROR]
)
def test_canceled(reason):
    """However the child of a canceled job died, the job is canceled and no crash counted."""
    outcome = killed(attempt(canceled=True), reason)
    assert (outcome.kind, outcome.extra, outcome.ms, code(outcome)) == ("canceled", 0, 7000, "CANCELED")


@pytest.mark.parametrize(
    ("reason", "code_"),
    [
        (None, "WORKER_CRASHED"),
        (KillReason.PROTOCOL_ERROR, "WORKER_CRASHED"),
        (KillReason.TIMEOUT, "TIMEOUT"),
        (KillReason.SHUTDOWN, "INTERRUPTED"),
    ],
)
def test_none_fails_whatever_cut_it_off(reason, code_):
    """`none` is at most once: no death of its child has the job run again, and no shutdown."""
    outcome = killed(attempt(hard_timeout=1.5), reason, policy=NONE)
    assert (outcome.kind, outcome.ms, code(outcome)) == ("failed", 7000, code_)


def test_only_one_attempt_without_crashes_is_at_most_once():
    """By whatever name: `none`, and what is declared so."""
    assert [NONE.at_most_once, RetryPolicy(1, max_crashes=0).at_most_once] == [True, True]
    others = [POLICY, RETRY_POLICIES["standard"], RetryPolicy(1), RetryPolicy(2, max_crashes=0)]
    assert not any(policy.at_most_once for policy in others)
