"""What a call says of its job holds instead of what the task says: retry policy, result_ttl, failure_ttl."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fusiond.broker.call import as_is, plain
from fusiond.config.model import RetryPolicy
from fusiond.worker.pool.call_options import CallOptions, call_options

EACH = pytest.mark.parametrize(
    "group",
    [{"isolation": "fork"}, {"executor": "asyncio", "concurrency": 2}],
    ids=lambda group: group.get("executor") or group["isolation"],
)
#: it retries nothing that the stand-ins raise
STUBBORN = RetryPolicy(max_attempts=3, delay=0.0, jitter_share=0.0, retry_on=("no_such.Error",))
WILLING = RetryPolicy(max_attempts=3, delay=0.0, jitter_share=0.0, retry_on=("ValueError",), max_crashes=3)


def kept(place, record):
    """For how many ms an ended job is kept."""
    key = f"test:{{default}}:{record.status}"
    [score] = place.run(plain(as_is, "ZMSCORE", key, record.id))
    return float(score) - record.ended_at


@EACH
def test_the_policy_of_a_call(place, group):
    """With its exceptions, in the child, and its number of attempts; one that the file lacks is passed over."""
    policies = {"stubborn": STUBBORN, "willing": WILLING}
    program = place.start(**group, tasks={"say_and_end": {"retry": "stubborn"}}, policies=policies)

    def run(**header):
        return place.until(place.enqueue("say_and_end", place.path(), header=header))

    assert [run().attempts, run(retry=b'"gone"').attempts] == [1, 1]
    record = run(retry=b'"willing"', failure_ttl=b"3600")
    # Its second attempt crashes.
    assert (record.status, record.attempts, record.crashes) == ("failed", 4, 1)
    assert kept(place, record) == 3_600_000
    program.until_said("its call names retry policy 'gone'")


def test_a_call_may_have_its_job_begin_once_only(place):
    """`retry: none`: there is a permit, and an exception of any kind is the end. `result_ttl` is another option."""
    place.start(tasks={"say_and_end": {"retry": "willing"}}, policies={"willing": WILLING})
    once = place.until(place.enqueue("say_and_end", place.path(), header={"retry": b'"none"'}))
    assert (once.status, once.attempts, once.history[-1].outcome) == ("failed", 1, "failed")
    permit = place.run(plain(as_is, "GET", f"test:{{default}}:job:{once.id}")).partition(b"\n")[0]
    assert b" m" in permit
    long = place.until(place.enqueue("add", 1, 2, header={"result_ttl": b"7200"}))
    assert (json.loads(long.result), kept(place, long)) == (3, 7_200_000)


_LEAVES = st.sampled_from([None, True, -1, 0.5, float("nan"), float("inf"), 10**400, "", "none"])


@settings(max_examples=40)
@example(10**400)
@given(st.recursive(_LEAVES, lambda each: st.dictionaries(st.sampled_from(["retry", "a"]), each), max_leaves=4))
def test_no_header_raises(header):
    """Another program may have written it."""
    for said in (header, {"retry": header, "result_ttl": header}):
        found = call_options(json.dumps(said).encode())
        assert found.retry is None or isinstance(found.retry, str)
        assert found.result_ttl is None or 0 <= found.result_ttl <= 1e9
    assert call_options(b'{"retry": ') == call_options(b"") == CallOptions()
