"""A claim of many jobs is stored once, and their texts stay as they are (lua/shared/claims.lua)."""

import shutil
from collections import Counter

import pytest
from hypothesis.stateful import run_state_machine_as_test

from fusiond.broker import script
from fusiond.broker.call import as_is, scripted
from fusiond.broker.records import NewJob, Outcome
from fusiond.job import new_id, new_token
from tests.broker.test_model import QueueMachine, many
from tests.support.job_text import decode, encode
from tests.support.queue_state import broken, findings
from tests.support.running import until

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


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("failed", "failed"),
        ("canceled", "canceled"),
        ("retry", "scheduled"),
        ("snoozed", "scheduled"),
        ("unknown", "held"),
    ],
)
def test_other_ends(place, kind, status):
    """The texts say all that a claim of few would have written; a repeat is known as such."""
    ids = place.enqueue()
    token, _ = place.claim()
    extra = {"extra": "100000 100000"} if kind == "snoozed" else {}
    outcomes = [Outcome(job, token, kind, HOUR, payload=b'{"code":"X"}', **extra) for job in ids]
    assert place.run(place.broker.settle("q", outcomes)) == [1] * NOTED
    assert place.run(place.broker.settle("q", outcomes)) == [2] * NOTED
    assert place.statuses() == {status: NOTED}
    assert place.noted() == {}
    assert place.is_sound()


def test_a_release_returns_jobs_to_their_places(place):
    """Behind none that came later."""
    ids = place.enqueue()
    token, _ = place.claim()
    place.enqueue(3)
    assert place.settle(token, *ids, kind="released", ms=0, payload=b"") == [1] * NOTED
    assert place.claim()[1] == ids
    assert place.is_sound()


def test_a_renewal_writes_the_text(place):
    """So that a long job needs its claim no more."""
    ids = place.enqueue()
    token, _ = place.claim()
    assert place.run(place.broker.renew("q", [(job, token) for job in ids], HOUR)) == [1] * NOTED
    assert place.noted() == {}
    assert decode(place.text(ids[0]))["token"] == token.encode()
    assert place.settle(token, *ids) == [1] * NOTED
    assert place.is_sound()


def test_a_rescue(place):
    """The jobs get their places again, and the attempt that lost them settles nothing."""
    ids = place.enqueue()
    token, _ = place.claim()
    for job in ids:
        place.redis("ZADD", "test:{q}:started", "XX", 1, job)
    other, again = place.claim()
    assert again == ids
    assert place.job(ids[0]).rescues == 1
    assert place.noted() == {}
    assert place.settle(token, *ids) == [0] * NOTED
    assert place.settle(other, *ids) == [1] * NOTED
    assert place.is_sound()


def test_a_cancel_reaches_a_job_that_runs(place):
    """Its dispatcher hears of it by a renewal."""
    ids = place.enqueue()
    token, _ = place.claim()
    assert place.run(place.broker.cancel("q", ids[3])) == "asked"
    assert place.run(place.broker.renew("q", [(ids[3], token), (ids[4], token)], HOUR)) == [2, 1]
    assert place.is_sound()


# Repeats and fences


def test_a_claim_whose_reply_was_lost(place):
    """The same call gives the jobs again that have not ended meanwhile."""
    ids = place.enqueue()
    token, _ = place.claim()
    assert place.claim(token=token)[1] == ids
    place.settle(token, *ids[:4])
    assert place.claim(token=token)[1] == ids[4:]
    place.settle(token, *ids[4:])
    assert place.claim(token=token)[1] == []


def test_a_job_of_the_same_id_is_another_one(place):
    """An attempt of a job that was deleted does not settle the one that has its id now."""
    ids = place.enqueue()
    token, _ = place.claim()
    place.redis("DEL", f"test:{{q}}:job:{ids[0]}")
    place.redis("ZREM", "test:{q}:started", ids[0])
    until(lambda: place.claimed_at(token) < place.now())
    place.run(place.broker.enqueue("q", [NewJob(ids[0], "echo", b"[[],{}]")]))
    place.enqueue(NOTED - 1)
    other, _ = place.claim()
    assert place.settle(token, *ids[:2]) == [0, 1]
    assert place.run(place.broker.renew("q", [(ids[0], token), (ids[0], other)], HOUR)) == [0, 1]
    assert place.settle(other, ids[0]) == [1]


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


def test_a_repeat_after_a_long_outage(place, redis):
    """Its nonce is forgotten by then. It gives the jobs that still run by the stored claim, and takes no others."""
    first = place.enqueue()
    token, _ = place.claim()
    redis("DEL", "test:{q}:claim:d")
    second = place.enqueue()
    assert place.claim(token=token)[1] == first
    for job in first:
        redis("ZADD", "test:{q}:started", "XX", 1, job)
    assert place.claim(2 * NOTED)[1] == [*first, *second]
    assert place.claim(token=token)[1] == []
    assert place.settle(token, *first) == [0] * NOTED
    assert place.is_sound()


def test_a_repeat_whose_jobs_all_have_texts_of_their_own(place):
    """The claim is not stored any more, and the texts say which jobs it has taken."""
    ids = place.enqueue()
    token, _ = place.claim()
    for job in ids:
        place.run(place.broker.cancel("q", job))
    assert place.noted() == {}
    assert sorted(place.claim(token=token)[1]) == sorted(ids)


def test_a_repeat_of_what_took_nothing_looks_at_no_job(place, redis):
    """However often it is asked: with many jobs that would take Redis long, in an outage of all things."""
    place.enqueue()
    place.claim()
    redis("CONFIG", "RESETSTAT")
    token = new_token()
    assert [place.claim(token=token)[1] for _ in range(3)] == [[], [], []]
    assert b"cmdstat_getrange" not in redis("INFO", "commandstats")


def test_redis_goes_back_and_forth(place):
    """To a replica that does not have the claim, where others take its jobs, and back: each attempt is settled once."""
    ids = place.enqueue(3 * NOTED)
    before = place.save()
    token, got = place.claim()
    with_claim = place.save()
    place.restore(before)
    other, theirs = place.claim(dispatcher="e")
    assert got == theirs == ids[:NOTED]
    assert place.claim(token=token)[1] == []
    assert place.settle(token, *got) == [0] * NOTED
    place.restore(with_claim)
    assert place.settle(other, *theirs) == [0] * NOTED
    assert place.settle(token, *got) == [1] * NOTED
    assert place.is_sound()


def test_a_job_that_was_requeued_is_not_its_claims_any_more(place):
    """Its former attempt renews nothing and settles nothing again, also while other jobs of the claim run."""
    ids = place.enqueue()
    token, _ = place.claim()
    assert place.settle(token, ids[0], kind="failed", payload=b'{"code":"X"}') == [1]
    assert place.run(place.broker.requeue("q", [ids[0]])) == [1]
    assert place.run(place.broker.renew("q", [(ids[0], token)], HOUR)) == [0]
    assert place.settle(token, ids[0]) == [2]
    assert place.job(ids[0]).status == "queued"
    assert place.is_sound()
    other, _ = place.claim(1)
    assert place.settle(token, ids[0]) == [2]
    assert place.settle(other, ids[0]) == [1]


@pytest.mark.parametrize("wrong", ["text", "list"])
def test_a_key_of_another_type(place, wrong):
    """Claims write the texts then, and no job is lost."""
    place.redis(*(("SET", "test:{q}:claims", "x") if wrong == "text" else ("RPUSH", "test:{q}:claims", "x")))
    ids = place.enqueue()
    token, got = place.claim()
    assert got == ids
    assert decode(place.text(ids[0]))["token"] == token.encode()
    assert place.settle(token, *ids) == [1] * NOTED


def test_priorities_of_jobs_that_end_together(place):
    """Each keeps its own, in claims of few jobs, too."""
    ids = place.enqueue(2, priority=2) + place.enqueue(2, priority=3)
    token, _ = place.claim(4)
    place.settle(token, *ids)
    assert [place.job(job).priority for job in ids] == [2, 2, 3, 3]


def test_a_renewal_where_large_arguments_are_gone(place):
    """The other leases of the call are renewed."""
    ids = place.enqueue(args=b'[["%b"],{}]' % (b"x" * 2000))
    token, _ = place.claim()
    place.redis("DEL", f"test:{{q}}:job:{ids[0]}/args")
    assert place.run(place.broker.renew("q", [(job, token) for job in ids], HOUR)) == [1] * NOTED


def test_an_attempt_that_is_renewed_twice_in_one_call(place):
    """Its permit is stored, and it is counted once."""
    ids = place.enqueue()
    token, _ = place.claim()
    calls = [[(ids[0], token, note) for note in ("", "permit")], [(ids[1], token, ""), (ids[1], token, "")]]
    for attempts in calls:
        words = [word for attempt in attempts for word in attempt]
        assert place.run(scripted("renew", place.broker.keys.root("q"), (HOUR, *words), as_is)) == [1, 1]
    assert decode(place.text(ids[0]))["permit"] == token.encode()
    assert place.noted()[f"{token} left".encode()] == b"%d" % (NOTED - 2)
    assert place.settle(token, *ids) == [1] * NOTED
    assert place.noted() == {}


def test_jobs_that_can_no_longer_be_read(place):
    """They are put aside as broken, and their claim is forgotten."""
    ids = place.enqueue(args=b'[["%b"],{}]' % (b"x" * 2000))
    place.claim()
    for job in ids:
        place.redis("DEL", f"test:{{q}}:job:{job}/args")
        place.redis("ZADD", "test:{q}:started", "XX", 1, job)
    assert place.claim()[1] == []
    assert len(place.run(broken(place.broker, "q"))) == NOTED
    assert place.noted() == {}


def test_a_cancel_where_the_claim_is_gone(place):
    """The job runs, so it is in one set still."""
    ids = place.enqueue()
    place.claim()
    place.redis("DEL", "test:{q}:claims")
    assert place.run(place.broker.cancel("q", ids[0])) == "asked"
    assert place.statuses() == {"started": NOTED}


def test_jobs_of_two_priorities(place):
    """Their texts are written, since a stored claim has one priority."""
    low, high = place.enqueue(NOTED, priority=2), place.enqueue(NOTED, priority=3)
    token, got = place.claim(2 * NOTED)
    assert got == [*high, *low]
    assert place.noted() == {}
    place.settle(token, *got)
    assert Counter(place.job(job).priority for job in got) == {2: NOTED, 3: NOTED}


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
