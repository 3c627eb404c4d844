"""Where wake-ups may bring jobs, and which of them are this dispatcher's."""

import pytest

from fusiond.broker.records import CarriedJob
from fusiond.worker.dispatcher.claims.parkings import Parkings
from fusiond.worker.pool.attempt import UNCONFIRMED


class Noted:
    """A broker, which only notes what is taken back."""

    def unpark(self, queue, tokens):
        return queue, list(tokens)


def parked(free=1):
    """Parkings with a token in queue q."""
    found = Parkings("mark", lambda: free)
    return found, found.park("q")


def job(token):
    return CarriedJob(token, b"id", b"task", b"", b"[[],{}]")


def test_a_job_that_has_come_is_not_confirmed():
    """Nothing that looks at its lease lets it begin."""
    found, token = parked()
    attempt = found.take("q", job(token))
    assert (attempt.token, attempt.attempts, attempt.lease) == (token, 1, UNCONFIRMED)


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


@pytest.mark.parametrize("names", [{"q"}, {"q", "other"}])
def test_tokens_are_taken_back_once(names):
    """Those of the queues that are left, and a token that was replaced as well."""
    found, first = parked()
    second = found.park("q")
    found.leave(names)
    assert found.unpark(Noted()) == [("q", [first, second])]
    assert found.unpark(Noted()) == []
