"""
Situations of their own that an invariant needs: each is carried out on real daemons, and judged.

A seeded bug names a situation in place of a plan of load and faults.
"""

from functools import partial

from tests.chaos import (
    addressing,
    attempts,
    capacity,
    conservation,
    expiry,
    frozen,
    graphs,
    limits,
    locks,
    moving,
    pools,
    rollout,
    scaling,
    sequels,
    told,
    turns,
    victims,
)

#: name → function of edits and seed that returns the violations
SITUATIONS = {
    "a bunch in which one is meant": victims.violations,
    "a bunch side by side in which one is meant": partial(victims.violations, many=True),
    "a fork server frozen for good": frozen.violations,
    "a group replaced under long jobs": conservation.successions,
    "bursts of forked children": partial(conservation.violations, isolation="fork"),
    "bursts of reused children": partial(conservation.violations, isolation="process"),
    "bursts of threads": partial(conservation.violations, isolation="thread"),
    "entries on the move": moving.violations,
    "events under kills": told.violations,
    "failures that pass": capacity.violations,
    "flows under kills": graphs.violations,
    "files in trouble": addressing.violations,
    "jobs that are cut off": attempts.violations,
    "jobs that expire": expiry.violations,
    "limits under kills": limits.violations,
    "pools under kills": pools.violations,
    "processes that follow the load": scaling.violations,
    "roll-outs and roll-backs": rollout.violations,
    "tenants under kills": turns.violations,
    "unique jobs": locks.violations,
    "sequels": sequels.violations,
}
