"""A claim of many jobs is stored once, and their texts stay as they are (lua/shared/claims.lua)."""

import shutil

import pytest
from hypothesis.stateful import run_state_machine_as_test

from fusiond.broker import script
from fusiond.broker.records import NewJob, Outcome
from fusiond.job import new_id, new_token
from tests.proofs.test_queue_model import QueueMachine, many
from tests.support.job_text import decode, encode
from tests.support.queue_state import broken, findings

HOUR = 3_600_000
#: as in claim.lua
NOTED = 32


@pytest.fixture
def place(run, broker, redis):
    return Place(run, broker, redis)


class Place:
    """One queue, whose jobs are claimed many at once."""

    def __init__(self, run, broker, redis):
        self.run, self.broker, self.redis = run, broker, redis

    def enqueue(self, count=NOTED, args=b"[[],{}]", **options):
        jobs = [NewJob(new_id(), "echo", args, **options) for _ in range(count)]
        self.run(self.broker.enqueue("q", jobs))
        return [job.id for job in jobs]

    def claim(self, want=NOTED, token=None, dispatcher="d"):
        """With a token: it is asked again."""
        again, token = token is not None, token or new_token()
        call = self.broker.claim(
            "q", want, dispatcher=dispatcher, nonce=token, lease_ms=HOUR, max_rescues=3, again=again
        )
        return token, [job.id.decode() for job in self.run(call).jobs]

    def settle(self, token, *jobs, kind="finished", ms=HOUR, payload=b"null"):
        return self.run(self.broker.settle("q", [Outcome(job, token, kind, ms, payload=payload) for job in jobs]))

    def text(self, job):
        return self.redis("GET", f"test:{{q}}:job:{job}")

    def job(self, job):
        return self.run(self.broker.job("q", job))

    def noted(self):
        """Field → value."""
        flat = self.redis("HGETALL", "test:{q}:claims")
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def claimed_at(self, token):
        return int(self.noted()[token.encode()].split(b" ")[0])

    def now(self):
        seconds, micros = self.redis("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def statuses(self):
        counts = self.run(self.broker.counts("q"))
        return {name: count for name in STATUSES if (count := getattr(counts, name))}

    def save(self):
        """Every key."""
        return [(key, self.redis("PEXPIRETIME", key), self.redis("DUMP", key)) for key in self.redis("KEYS", "*")]

    def restore(self, saved):
        """Redis is what it was then."""
        self.redis("FLUSHALL")
        for key, expiry, dump in saved:
            self.redis("RESTORE", key, max(expiry, 0), dump, "ABSTTL")

    def is_sound(self):
        return self.run(findings(self.broker, "q")) == []


def note_each_claim(lua):
    """In this copy of the scripts also a claim of a single job is stored once."""
    file, right = lua / "claim.lua", f"local NOTED = {NOTED} "
    assert file.read_text().count(right) == 1
    file.write_text(file.read_text().replace(right, "local NOTED = 1 "))


STATUSES = ("queued", "scheduled", "held", "started", "finished", "failed", "canceled")


@pytest.fixture
def always(monkeypatch, tmp_path):
    """Each claim is stored once."""
    lua = tmp_path / "lua"
    shutil.copytree(script._LUA, lua)
    note_each_claim(lua)
    monkeypatch.setattr(script, "_LUA", lua)
    script.script.cache_clear()
    yield
    script.script.cache_clear()


@pytest.mark.proof
@pytest.mark.usefixtures("always")
def test_the_verbs_do_what_the_model_does(redis_server):
    """Whatever is asked, in any order, repeated, late or rolled back, where each claim is stored once."""
    run_state_machine_as_test(lambda: QueueMachine(redis_server), settings=many(40, 30))


# From the claim to the end


def test_a_claim_of_many_writes_no_text(place):
    """It is stored once; whoever asks for a job is told that it runs, by which token, and since when."""
    ids = place.enqueue()
    texts = [place.text(job) for job in ids]
    token, got = place.claim()
    assert got == ids
    assert [place.text(job) for job in ids] == texts
    assert sorted(place.noted()) == sorted(f"{token}{what}".encode() for what in ("", " jobs", " left"))
    job = place.job(ids[0])
    assert (job.status, job.attempts) == ("started", 1)
    assert job.created_at <= job.started_at
    assert place.is_sound()


def test_it_is_forgotten_with_its_last_job(place):
    """In however many calls they end. A finished job has the text that it has after a claim of few."""
    ids = place.enqueue()
    token, _ = place.claim()
    assert place.settle(token, *ids[:5]) == [1] * 5
    assert place.noted()[f"{token} left".encode()] == b"%d" % (NOTED - 5)
    assert place.settle(token, *ids[5:]) == [1] * (NOTED - 5)
    assert place.noted() == {}
    (few,) = place.enqueue(1)
    other, _ = place.claim(1)
    place.settle(other, few)
    states = [[word[:1] for word in place.text(job).split(b"\n")[0].split(b" ")] for job in (ids[0], few)]
    assert states[0] == states[1]
    assert encode(decode(place.text(ids[0]))) == place.text(ids[0])
    assert (place.job(ids[0]).priority, place.job(few).priority) == (1, 1)
    assert place.is_sound()


# Repeats and fences


def test_a_clock_that_was_put_back(place):
    """The texts of jobs are written that were made later than now, as their age tells whose they are."""
    ids = place.enqueue()
    text = place.text(ids[0])
    late = text.replace(text[1:14], b"%d" % (int(text[1:14]) + HOUR), 1)
    for job in ids:
        place.redis("SET", f"test:{{q}}:job:{job}", late)
    token, got = place.claim()
    assert got == ids
    assert place.noted() == {}
    assert place.settle(token, *ids) == [1] * NOTED
    assert place.is_sound()


@pytest.mark.parametrize("wrong", ["text", "list"])
def test_a_key_of_another_type(place, wrong):
    """Claims write the texts then, and no job is lost."""
    place.redis(*(("SET", "test:{q}:claims", "x") if wrong == "text" else ("RPUSH", "test:{q}:claims", "x")))
    ids = place.enqueue()
    token, got = place.claim()
    assert got == ids
    assert decode(place.text(ids[0]))["token"] == token.encode()
    assert place.settle(token, *ids) == [1] * NOTED


# Damage


def test_a_claim_that_was_deleted(place):
    """Its jobs run again once their leases have expired, and fsck finds them."""
    ids = place.enqueue()
    token, _ = place.claim()
    place.redis("DEL", "test:{q}:claims")
    assert len(place.run(findings(place.broker, "q"))) == NOTED
    assert place.settle(token, *ids) == [0] * NOTED
    for job in ids[:-1]:
        place.redis("ZADD", "test:{q}:started", "XX", 1, job)
    assert sorted(place.claim()[1]) == sorted(ids[:-1])
    assert place.run(broken(place.broker, "q")) == []
    place.run(findings(place.broker, "q", repair=True))
    assert place.claim()[1] == ids[-1:]
    assert place.is_sound()


def test_a_claim_whose_jobs_were_deleted(place):
    """The sweep forgets it after an hour, and none that has a job still."""
    ids = place.enqueue(2 * NOTED)
    tokens = [place.claim()[0] for _ in range(2)]
    place.redis("DEL", *(f"test:{{q}}:job:{job}" for job in ids[:NOTED]))
    place.redis("ZREM", "test:{q}:started", *ids[:NOTED])
    place.run(place.broker.sweep("q"))
    assert len(place.noted()) == 6
    for token in tokens:
        place.redis("HSET", "test:{q}:claims", token, f"{place.claimed_at(token) - 2 * HOUR} 1 ")
    for job in ids[NOTED:]:
        text = place.text(job)
        created = text[1:14]
        place.redis("SET", f"test:{{q}}:job:{job}", text.replace(created, b"%d" % (int(created) - 3 * HOUR), 1))
    place.run(place.broker.sweep("q"))
    assert sorted(place.noted()) == sorted(f"{tokens[1]}{what}".encode() for what in ("", " jobs", " left"))
