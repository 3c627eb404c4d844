"""How long a lease is trusted."""

from fusiond.broker import script
from fusiond.worker.dispatcher.claims.leases import FIRST_LEASE, FIRST_RENEWAL, FIRST_TRUST, LATEST_BEGIN
from fusiond.worker.pool.run_times import PENDING
from fusiond.worker.pool.watchdog import _LOST_LINGER, WATCH

#: s; everything may stand still for so long
FREEZE = 4.0


def test_a_first_lease_is_trusted_for_longer_than_everything_may_stand_still():
    """As late as the job may begin, it is renewed in time; and who gives it up does so before its lease is over."""
    assert (
        f"FIRST_LEASE, LARGEST_GIVEN = {FIRST_LEASE * 1000:.0f}, "
        in (script._LUA / "shared/claim_on_enqueue.lua").read_text()
    )
    assert LATEST_BEGIN + PENDING + FIRST_RENEWAL + FREEZE < FIRST_TRUST
    assert FIRST_TRUST + 2 * WATCH + _LOST_LINGER / 1e9 < FIRST_LEASE
