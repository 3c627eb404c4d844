"""Where wake-ups may bring jobs, and which of them are this dispatcher's."""

import pytest

from fusiond.broker.records import GivenJob
from fusiond.worker.dispatcher.claims.leases import FIRST_TRUST
from fusiond.worker.dispatcher.claims.reservations import Reservations
from fusiond.worker.runtime.wire import boot_ns


def reserved(free=1):
    """Reservations with a token in queue q."""
    found = Reservations("mark")
    found.free = free
    return found, found.reserve("q")


def job(token, after=0):
    return GivenJob(token, after, b"id", b"task", b"", b"[[],{}]")


def test_a_job_is_trusted_from_its_enqueue():
    """That was so long after the token was left."""
    before = boot_ns()
    found, token = reserved()
    made = boot_ns()
    while boot_ns() < made + 30_000_000:
        pass
    attempt = found.take("q", job(token, after=20))
    assert (attempt.token, attempt.attempts) == (token, 1)
    assert before <= attempt.lease - int(FIRST_TRUST * 1e9) - 20_000_000 <= made


def test_a_job_is_not_trusted_for_longer_than_from_now():
    """Where Redis' clock was set forward since the token was left."""
    found, token = reserved()
    assert found.take("q", job(token, after=3_600_000)).lease <= boot_ns() + FIRST_TRUST * 1e9


def test_a_job_of_another_dispatcher_is_not_taken():
    """Nor one under a token that has brought its job already, nor of another queue."""
    found, token = reserved()
    assert found.take("q", job("another")) is None
    assert found.take("other", job(token)) is None
    assert found.take("q", job(token))
    assert found.take("q", job(token)) is None


def test_one_queue_for_each_free_child():
    """A queue may be asked again; another one once a job has come, or a child is free."""
    found, token = reserved()
    assert found.reserve("other") == ""
    assert found.reserve("q")
    assert found.take("q", job(token))
    assert found.reserve("other")
    busy, _ = reserved(free=0)
    assert busy.reserve("q") == ""


def test_a_token_without_a_free_child_is_taken_back():
    """Jobs of other queues have the children; and a claim that leaves no token takes none of the places."""
    found, token = reserved(free=2)
    other = found.reserve("other")
    found.take_back_excess(2)
    assert not found.is_taking_back
    found.take_back_excess(1)
    assert found.is_taking_back
    assert found.questions() in ([("q", [token], True)], [("other", [other], True)])
    third = found.reserve("third")
    assert found.reserve("fourth") == ""
    found.note_none_left("third", third)
    assert found.reserve("fourth")


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_message_may_be_lost(is_lost):
    """The answer to a question brings its job; a job of which a message has told meanwhile comes once."""
    found, first = reserved()
    second = found.reserve("q")
    found.ask_all()
    [question] = found.questions()
    assert question == ("q", [first, second], False)
    if not is_lost:
        assert found.take("q", job(first))
    attempts = found.answered(question, [job(first), None])
    assert [attempt.token for attempt in attempts] == [first] * is_lost
    # The newest may still be given a job.
    assert found.take("q", job(second))


def test_what_redis_refuses_is_asked_again():
    """Tokens are taken back until Redis has said so, and are forgotten then."""
    found, token = reserved()
    found.take_back({"q", "none"})
    [question] = found.questions()
    assert not found.is_taking_back
    found.ask_again(question)
    found.ask_all()
    assert found.questions() == [question] == [("q", [token], True)]
    assert found.answered(question, [None]) == []
    found.ask_all()
    assert found.questions() == []
