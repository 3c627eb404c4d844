"""The clock of a simulation: nothing in a script asks Redis for the time, or waits for a key to expire."""

import re

import pytest

from fusiond.broker import script
from fusiond.broker.verbs import Verbs
from fusiond.simulation.virtual_redis import TIMES, virtual_redis

#: a script or include → why a key that Redis lets expire by its own clock changes no simulation
HARMLESS = {
    "claim": "the note of the last claim, for a repeat; who waits for work",
    "claim_on_enqueue": "who waits for work; a simulated claim leaves no token",
    "given": "the same",
    "configure": "the same",
    "suspend_tasks": "the same",
    "pools": "pools, which a simulation does not know",
    "end_handed": "rows of outboxes, which a simulation does not have",
    "tally": "counters, which are off",
    "ticks": "400 days",
    "flow_write": "flows, which a simulation does not have",
    "inspect_locks": "fsck",
    "rights": "asks what this user may do",
}


@pytest.mark.parametrize("path", sorted(script._LUA.rglob("*.lua")), ids=lambda path: path.stem)
def test_no_script_has_another_clock(path):
    """A new use of TIME, or of a key that expires, must be given the virtual clock, or be named with its reason."""
    text = path.read_text()
    for old, new in TIMES.get(path.stem, {}).items() if path.parent.name == "shared" else ():
        assert old in text
        text = text.replace(old, new)
    code = re.sub(r"--.*", "", text)
    uses = re.search(r"'(TIME|PX|P?EXPIRE|PTTL|TTL)'", code)
    assert not uses or path.stem in HARMLESS, f"{path.name}: {uses}"


def test_the_clock_is_what_the_simulation_says():
    """A day passes at once: a scheduled job is due, and the lock of a unique one has expired."""
    from fusiond.broker.records import NewJob

    verbs = Verbs("sim")
    with virtual_redis() as redis:
        redis.now = 1_800_000_000_000
        redis.run(verbs.declare({"default": None}))
        unique = "3600000,skip,0,1"
        first, same = (NewJob(id_, "t", b"[[],{}]", unique=unique) for id_ in ("first", "same"))
        later = NewJob("later", "t", b"[[],{}]", delay_ms=80_000_000)
        assert redis.run(verbs.enqueue("default", [first, later]))[0] == "stored"
        assert redis.run(verbs.enqueue("default", [same]))[0] != "stored"
        redis.now += 86_400_000
        assert redis.run(verbs.enqueue("default", [same]))[0] == "stored"
        claim = verbs.claim("default", 5, dispatcher="d", nonce="n" * 22, lease_ms=1, max_rescues=1)
        waited = {job.id: job.waited_ms for job in redis.run(claim).jobs}
        assert waited == {b"first": 86_400_000, b"later": 0, b"same": 0}
    # Outside of a simulation the scripts have the clock of Redis again.
    assert b"redis.call('TIME')" in script.script("claim").source
