"""A job's text in Redis: as docs/protocol.md shows it, with large arguments, and spoilt."""

import json

import pytest

from fusiond.broker.records import NewJob, Outcome
from fusiond.job import new_id, new_token
from tests.support.job_text import decode, encode
from tests.support.queue_state import broken, findings

HOUR = 3_600_000
SMALL, LARGE = b'[["hello"],{}]', b'[["%b"],{}]' % (b"x" * 5000)


@pytest.fixture
def place(run, broker, redis):
    return Place(run, broker, redis)


class Place:
    """One queue, and what is in it."""

    def __init__(self, run, broker, redis):
        self.run, self.broker, self.redis = run, broker, redis

    def enqueue(self, args=SMALL, **options):
        job = NewJob(new_id(), "echo", args, **options)
        assert self.run(self.broker.enqueue("q", [job])) == ["stored"]
        return job.id

    def claim(self, want=1):
        token = new_token()
        call = self.broker.claim("q", want, dispatcher="d", nonce=token, lease_ms=HOUR, max_rescues=3)
        return token, self.run(call).jobs

    def settle(self, job, token, kind="finished", **more):
        return self.run(self.broker.settle("q", [Outcome(job, token, kind, **{"ms": HOUR, "payload": b"null"} | more)]))

    def text(self, job):
        return self.redis("GET", f"test:{{q}}:job:{job}")

    def keys(self):
        return {key.decode().removeprefix("test:{q}:job:") for key in self.redis("KEYS", "test:{q}:job:*")}

    def age(self, status, job):
        """Its time is over."""
        self.redis("ZADD", f"test:{{q}}:{status}", "XX", 1, job)

    def is_sound(self):
        return self.run(findings(self.broker, "q")) == []


# As it is shown


def test_a_text_from_its_enqueue_to_its_end(place):
    """Each line and each word as the protocol's page says."""
    job = place.enqueue(log_tag="red", expires_ms=HOUR)
    (created, rest) = place.text(job).split(b" ", 1)
    assert created[:1] == b"c"
    assert rest == b'l4,17 x3600000\necho\n{"log_tag":"red"}\n[["hello"],{}]'
    token, (claimed,) = place.claim()
    words = {word[:1]: word[1:] for word in place.text(job).split(b"\n")[0].decode().split(" ")}
    assert (words["t"], words["n"], words["x"]) == (token, "1", "3600000")
    assert set(words) == set("tclxbns")
    assert (claimed.args, claimed.header, claimed.attempts) == (SMALL, b'{"log_tag":"red"}', 1)
    assert place.settle(job, token) == [1]
    state, _, header, args, result = place.text(job).split(b"\n")
    assert (header, args, result) == (b'{"log_tag":"red"}', SMALL, b"null")
    assert [word[:1].decode() for word in state.split(b" ")] == list("zclxbnveR")


def test_the_two_ways_to_write_a_text_agree(place):
    """What the hot paths of enqueue, claim and settle put together is what any other verb would have written."""
    job = place.enqueue()
    texts = [place.text(job)]
    token, _ = place.claim()
    texts.append(place.text(job))
    place.settle(job, token)
    texts.append(place.text(job))
    assert [encode(decode(text)) for text in texts] == texts


# Large arguments


def test_large_arguments_have_a_key_of_their_own(place):
    """No text of the job has them, every claim gives them, and a requeue keeps them."""
    job = place.enqueue(LARGE, log_tag="red")
    assert place.keys() == {job, f"{job}/args"}
    for kind, status in (("retry", "scheduled"), ("released", "queued"), ("failed", "failed")):
        token, (claimed,) = place.claim()
        assert (claimed.args, claimed.header) == (LARGE, b'{"log_tag":"red"}')
        assert place.settle(job, token, kind, ms=0 if kind == "released" else HOUR) == [1]
        assert place.run(place.broker.status("q", job)) == status
        assert len(place.text(job)) < 700
        assert place.is_sound()
        place.age("scheduled", job)
    assert place.run(place.broker.requeue("q", [job])) == [1]
    token, (claimed,) = place.claim()
    assert claimed.args == LARGE
    assert place.settle(job, token) == [1]
    assert json.loads(place.run(place.broker.job("q", job)).args) == json.loads(LARGE)
    assert place.run(place.broker.enqueue("q", [NewJob(job, "echo", LARGE)])) == ["same"]
    assert place.run(place.broker.enqueue("q", [NewJob(job, "echo", LARGE[:-1])])) == ["conflict"]


@pytest.mark.parametrize("how", ["sweep", "settle", "discard"])
def test_large_arguments_go_with_their_job(place, how):
    """Whichever verb drops it."""
    job = place.enqueue(LARGE)
    token, _ = place.claim()
    place.settle(job, token, "failed" if how == "discard" else "finished")
    if how == "discard":
        place.redis("SET", f"test:{{q}}:job:{job}", place.text(job).replace(b" e", b" e-99999999", 1))
        assert place.run(place.broker.discard("q", [job])) == [1]
        assert place.keys() == set()
        return
    place.age("finished", job)
    if how == "sweep":
        place.run(place.broker.sweep("q"))
        assert place.keys() == set()
    else:
        other = place.enqueue()
        token, _ = place.claim()
        place.settle(other, token)
        assert place.keys() == {other}


@pytest.mark.parametrize("damage", ["missing", "cut", "a list"])
def test_a_job_whose_large_arguments_are_spoilt_is_set_aside(place, damage):
    """A claim and fsck both find it, and what is left is kept."""
    for find in ("claim", "fsck"):
        job, key = place.enqueue(LARGE), None
        key = f"test:{{q}}:job:{job}/args"
        text = place.text(job)
        place.redis("UNLINK", key)
        if damage == "cut":
            place.redis("SET", key, b'[["xx')
        elif damage == "a list":
            place.redis("LPUSH", key, "x")
        if find == "claim":
            assert place.claim()[1] == []
        else:
            (found,) = place.run(findings(place.broker, "q"))
            assert (found.kind, found.job) == ("no-job", job)
            place.run(place.broker.inspect("q", "keys", [job.encode()], repair=True))
        entry = place.run(broken(place.broker, "q"))[0]
        assert entry.reason == f"job {job} is not a job"
        assert entry.raw == text + (b'[["xx' if damage == "cut" else b"")
        assert place.keys() == set()
        assert place.is_sound()


# Spoilt
