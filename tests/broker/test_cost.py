"""What a plain job costs Redis: who uses no key of the file, such as a limit or a callback, does not pay for it."""

import pytest

from fusiond.broker.records import NewJob, Outcome, Renewal

HOUR = 3_600_000
#: a claim that finds nothing, and what one takes besides that finds a job
IDLE = {"time": 1, "zrem": 1, "get": 1, "hmget": 1, "llen": 1, "zrange": 4, "zpopmin": 1, "zcard": 1, "set": 1}
FOUND = {"mget": 1, "mset": 1, "zadd": 1}
END = {"time": 1, "zrem": 2, "mget": 1, "mset": 1, "zadd": 1, "zrangebyscore": 1, "zcard": 1}
#: as many as before any of these keys was there; a change of them must be worth it to every job
COST = {
    "idle": IDLE,
    "enqueue": {"time": 1, "hmget": 1, "incr": 1, "set": 2, "zadd": 1, "del": 1, "publish": 1},
    "claim": IDLE | FOUND,
    "renew": {"time": 1, "zrem": 1, "getrange": 1, "zadd": 1},
    "finished": END,
    "failed": END,
    "canceled": END,
    "retry": {"time": 1, "zrem": 2, "mget": 1, "mset": 1, "zadd": 1, "zrange": 1},
    "released": {"time": 1, "zrem": 2, "mget": 1, "mset": 1, "zadd": 1, "del": 1},
}


@pytest.mark.parametrize("end", ["finished", "failed", "canceled", "retry", "released"])
def test_a_plain_job_takes_these_commands(run, broker, redis, end):
    """A claim that finds nothing, an enqueue that wakes, a claim, a renewal and a settle, beside the call itself."""
    run(broker.configure("q", tasks={"t": (1, None)}))
    # once before: Redis then knows the scripts, and no id is a first one
    for id_ in ("before", "counted"):
        calls = {
            "idle": _claim(broker, f"idle-{id_}"),
            "enqueue": broker.enqueue("q", [NewJob(id_, "t", b"[[],{}]")]),
            "claim": _claim(broker, id_),
            "renew": broker.renew("q", [Renewal(id_, id_, "")], 15000),
            end: broker.settle("q", [Outcome(id_, id_, end, 0 if end == "released" else HOUR, payload=b"")]),
        }
        found = {name: _commands(run, redis, call) for name, call in calls.items()}
        if end == "released":
            run(_claim(broker, f"again-{id_}"))
    assert found == {name: COST[name] for name in calls}


def _claim(broker, nonce):
    return broker.claim("q", 1, dispatcher="d", nonce=nonce, lease_ms=HOUR, max_rescues=9)


def _commands(run, redis, call):
    """Name of each command that it takes → how often."""
    redis("CONFIG", "RESETSTAT")
    run(call)
    lines = redis("INFO", "commandstats").decode().splitlines()
    calls = {line[len("cmdstat_") : line.index(":")]: int(line.split("calls=")[1].split(",")[0]) for line in lines[1:]}
    return {name: number for name, number in calls.items() if name not in ("evalsha", "config|resetstat", "info")}
