"""What a newer version of the same layout may have written: an older one keeps it in jobs, and else leaves it out."""

import json

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.event_verbs import DAEMONS
from fusiond.broker.hosts.daemons import Published
from fusiond.broker.records import NewJob, Outcome
from fusiond.broker.ticks import DecidedTicks
from fusiond.flows.progress import RunState, StepState
from fusiond.flows.shapes import FlowShape, Shape, StepShape
from fusiond.job import new_id, new_token
from tests.support.queue_state import broken, findings

HOUR = 3_600_000


def claim(run, broker):
    """Token and job."""
    token = new_token()
    (job,) = run(broker.claim("q", 1, dispatcher="d", nonce=token, lease_ms=HOUR, max_rescues=3)).jobs
    return token, job


@pytest.mark.parametrize("kind", ["finished", "retry", "released", "failed"])
def test_a_word_of_a_job_is_kept(run, broker, redis, kind):
    """From its claim to its end, where another version may look at it again."""
    job = new_id()
    run(broker.enqueue("q", [NewJob(job, "echo", b"[[],{}]")]))
    key = f"test:{{q}}:job:{job}"
    state, rest = redis("GET", key).split(b"\n", 1)
    redis("SET", key, state + b" Vnew:er%20\n" + rest)
    token, given = claim(run, broker)
    assert (given.id.decode(), given.args) == (job, b"[[],{}]")
    assert run(broker.renew("q", [(job, token, "permit")], HOUR))
    assert run(broker.settle("q", [Outcome(job, token, kind, ms=HOUR, payload=b"{}")])) == [1]
    assert b" Vnew:er%20" in redis("GET", key).split(b"\n")[0]
    assert run(broker.job("q", job)).task == "echo"
    assert run(findings(broker, "q")) == run(broken(broker, "q")) == []


def test_a_word_of_a_job_is_kept_when_it_moves(run, broker, redis):
    """To another queue."""
    job = new_id()
    run(broker.enqueue("q", [NewJob(job, "echo", b"[[],{}]")]))
    state, rest = redis("GET", f"test:{{q}}:job:{job}").split(b"\n", 1)
    redis("SET", f"test:{{q}}:job:{job}", state + b" Vnew:er%20\n" + rest)
    run(broker.move("q", "other"))
    assert b" Vnew:er%20" in redis("GET", f"test:{{other}}:job:{job}").split(b"\n")[0]


def test_more_in_a_decided_tick_is_left_out():
    """The tick has its job, whichever scheduler enqueues it."""
    decided = DecidedTicks("nightly", "q", "report", b"[[],{}]", 1, None, None, (1000,), (0,))
    assert DecidedTicks.from_text(json.dumps({**json.loads(decided.to_text()), "colour": "red"})) == decided


def test_more_about_a_cron_entry_is_left_out(run, broker, redis):
    """A field beside those that are known, which a write does not touch."""
    redis("HSET", "test:cron", "nightly colour", "red")
    assert run(broker.cron_write(run(broker.cron_state("nightly")), last=1000))
    assert run(broker.cron_states())["nightly"].last == run(broker.cron_state("nightly")).last == 1000
    assert redis("HGET", "test:cron", "nightly colour") == b"red"


def test_more_in_the_records_of_daemons_is_left_out(run, broker, redis):
    """A word behind a daemon's own; a key of the catalogue, and of a task, a cron entry and a flow in it."""
    task = {"queue": "q", "priority": 1, "colour": "red"}
    cron = {"nightly": {"digest": "x", "task": "t", "colour": "red"}}
    flows = {"f": {"flow": "f", "flows": {}, "colour": "red"}}
    published = run(
        broker.publish_catalogue("d", "h", {"t": task}, priorities={}, queues=["q"], cron=cron, flows=flows)
    )
    body = json.loads(redis("HGET", "test:catalog", published.content).partition(b"\n")[2]) | {"colour": "red"}
    redis("HSET", "test:catalog", published.content, b"99999999999999\n" + json.dumps(body).encode())
    redis("HSET", "test:daemons", "d", redis("HGET", "test:daemons", "d") + b" newer")
    found = run(broker.catalogue())
    assert (set(found.tasks), set(found.flows)) == ({"t"}, {"f"})
    assert [each.entry for each in run(broker.cron_declarations())] == ["nightly"]
    assert [each.daemons for each in run(broker.files_in_force())] == [("d",)]
    # The daemon that wrote it notices that it is not its own, and publishes again.
    assert not run(broker.stay_alive("d", Published(*published)))


def test_more_in_a_run_of_a_flow_is_left_out():
    """In its state, its steps and its shape."""
    state = RunState({"first": StepState()})
    said = json.loads(state.to_json()) | {"colour": "red"}
    said["steps"]["first"]["colour"] = "red"
    assert RunState.from_json(json.dumps(said)) == state
    shape = Shape("f", {"f": FlowShape({"first": StepShape("t")}, "q")})
    said = json.loads(shape.to_json()) | {"colour": "red"}
    said["flows"]["f"]["colour"] = said["flows"]["f"]["steps"]["first"]["colour"] = "red"
    assert Shape.from_json(json.dumps(said)) == shape


def test_an_event_of_an_unknown_name_is_told(run, broker):
    """With the words that are known."""
    run(broker.keep_events(DAEMONS, "100 0"))
    run(broker.record_event(DAEMONS, "painted", "ada@host", [("o", "wall"), ("Z", "red")]))
    (event,) = (
        run(plain(as_is, "XRANGE", f"test:{{{DAEMONS}}}:events", "-", "+"))
        and run(broker.events_behind(DAEMONS, 0, 10)).events
    )
    assert (event.name, event.words["Z"]) == ("painted", "red")
    assert event.document()["about"] == "wall"
