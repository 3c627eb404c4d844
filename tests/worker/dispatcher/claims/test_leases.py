"""What the answer to a renewal changes of an attempt."""

from fusiond.worker.dispatcher.claims.leases import mark
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.runtime.wire import boot_ns

HELD, MINUTE = 1, 60_000_000_000


def test_only_an_answer_in_time_confirms_a_job():
    """The child of one that is not confirmed by the end of its first lease is killed; a later answer says that, too."""
    for left, unconfirmed in ((MINUTE, False), (-1, True)):
        attempt = Attempt("q", b"id", "token", b"t", b"[]", b"", 1, 0, 0, boot_ns() + left, 0, unconfirmed=True)
        mark(attempt, HELD, boot_ns() + MINUTE)
        assert attempt.unconfirmed is unconfirmed
    mark(attempt, HELD, boot_ns() + MINUTE)
    assert not attempt.unconfirmed
