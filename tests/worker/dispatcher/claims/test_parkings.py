"""Where wake-ups may bring jobs, and which of them are this dispatcher's."""

import pytest

from fusiond.broker.records import CarriedJob
from fusiond.worker.dispatcher.claims.parkings import TRUSTED, Parkings
from fusiond.worker.runtime.wire import boot_ns


class Noted:
    """A broker, which only notes what is taken back."""

    def unpark(self, queue, tokens):
        return queue, list(tokens)


def parked(free=1):
    """Parkings with a token in queue q."""
    found = Parkings("mark", lambda: free)
    return found, found.park("q")


def job(token, after=0):
    return CarriedJob(token, after, b"id", b"task", b"", b"[[],{}]")


def test_a_job_is_trusted_from_its_enqueue():
    """That was so long after the token was left."""
    before = boot_ns()
    found, token = parked()
    made = boot_ns()
    while boot_ns() < made + 30_000_000:
        pass
    attempt = found.take("q", job(token, after=20))
    assert (attempt.token, attempt.attempts) == (token, 1)
    assert before <= attempt.lease - (TRUSTED + 20) * 1_000_000 <= made


def test_a_job_is_not_trusted_for_longer_than_from_now():
    """Where Redis' clock was set forward since the token was left."""
    found, token = parked()
    assert found.take("q", job(token, after=3_600_000)).lease <= boot_ns() + TRUSTED * 1_000_000


def test_a_job_of_another_dispatcher_is_not_taken():
    """Nor one under a token that has brought its job already, nor of another queue."""
    found, token = parked()
    assert found.take("q", job("another")) is None
    assert found.take("other", job(token)) is None
    assert found.take("q", job(token))
    assert found.take("q", job(token)) is None


def test_a_job_under_a_token_that_was_just_replaced_is_taken():
    """The claim that replaces it was sent before the job came."""
    found, token = parked()
    assert found.park("q") != token
    assert found.take("q", job(token))


def test_one_queue_for_each_free_child():
    """A queue may be asked again; another one once a job has come, or a child is free."""
    found, token = parked()
    assert found.park("other") == ""
    assert found.park("q")
    assert found.take("q", job(token))
    assert found.park("other")
    busy, _ = parked(free=0)
    assert busy.park("q") == ""


def test_a_token_without_a_free_child_is_taken_back():
    """Jobs of other queues have the children; and a claim that leaves no token takes none of the places."""
    found, token = parked(free=2)
    other = found.park("other")
    found.leave_excess(2)
    assert not found.is_leaving
    found.leave_excess(1)
    [(queue, tokens)] = found.unpark(Noted())
    assert (queue, tokens) in [("q", [token]), ("other", [other])]
    assert found.park("third")
    assert found.park("fourth") == ""
    found.note_none_left("third")
    assert found.park("fourth")


@pytest.mark.parametrize("names", [{"q"}, {"q", "other"}])
def test_tokens_are_taken_back_once(names):
    """Those of the queues that are left, and a token that was replaced as well."""
    found, first = parked()
    second = found.park("q")
    found.leave(names)
    assert found.unpark(Noted()) == [("q", [first, second])]
    assert found.unpark(Noted()) == []
