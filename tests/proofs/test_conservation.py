"""A slice of `python -m tests.chaos.conservation`: no job waits beside an idle child (I11)."""

import pytest

from tests.chaos import conservation

#: s; other tests run beside this one, and a child that gets no CPU looks idle; what a long job holds up waits longer
LIMIT = 2.5


@pytest.mark.parametrize("isolation", conservation.ISOLATIONS)
def test_no_job_waits_beside_an_idle_child(isolation):
    """Two daemons, quick jobs in bursts among long ones of the same name."""
    ledger = conservation.carry_out(isolation, seconds=6.0)
    assert conservation.judge(ledger, LIMIT) == []
    assert len(ledger.acked) > conservation.MANY
