"""
Situations of their own that an invariant needs: each is carried out on real daemons, and judged.

A seeded bug names a situation in place of a plan of load and faults.
"""

from functools import partial

from tests.chaos import addressing, attempts, capacity, conservation, expiry, frozen, moving, rollout, victims

#: name → function of edits and seed that returns the violations
SITUATIONS = {
    "a bunch in which one is meant": victims.violations,
    "a fork server frozen for good": frozen.violations,
    "bursts of forked children": partial(conservation.violations, isolation="fork"),
    "bursts of reused children": partial(conservation.violations, isolation="process"),
    "entries on the move": moving.violations,
    "failures that pass": capacity.violations,
    "files in trouble": addressing.violations,
    "jobs that are cut off": attempts.violations,
    "jobs that expire": expiry.violations,
    "roll-outs and roll-backs": rollout.violations,
}
