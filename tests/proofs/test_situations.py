"""Slices of the situations of `python -m tests.chaos`: the right code stands them; each has bugs that it must find."""

from functools import partial

import pytest

from tests.chaos import addressing, attempts, capacity, expiry, frozen, limits, locks, moving, pools, rollout, victims

#: what is promised → the violations that a slice finds
SLICES = {
    "I10 a frozen fork server holds up no job": frozen.violations,
    "I12 each tick has one run, wherever its task moves": moving.violations,
    "I13 no job is stranded by a roll-out that is taken back": partial(rollout.violations, seed=1),
    "I14 capacity returns after failures that pass": partial(
        capacity.violations, names=("directory", "state", "imports", "frozen"), seconds=1.0
    ),
    "I15 no job begins too often": attempts.violations,
    "I16 no job begins too late": expiry.violations,
    "I17 no command acts on another file's daemon": partial(
        addressing.violations, commands=2, troubles=("broken_beside", "killed", "lying_pointer")
    ),
    "I18 a victim is the job that was meant": partial(victims.violations, rounds=2),
    "I18 a victim among many at once is the job that was meant": partial(victims.violations, rounds=2, many=True),
    "I19 locks hold": locks.violations,
    "I20 no job begins beside too many": limits.violations,
    "I27 no more slots of a pool are held than there are": pools.violations,
}


@pytest.mark.parametrize("promise", SLICES)
def test_the_right_code_stands(promise):
    """`python -m tests.chaos --bugs` puts mistakes into it that must be found."""
    assert SLICES[promise]() == []
