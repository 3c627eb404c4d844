"""Verbs of operators and of the daemon: requeue, suspend, sweep, look-ups, workers."""

import shutil

import pytest

from fusiond.broker import script
from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob, Outcome
from fusiond.job import JobStatus, new_id, new_token
from tests.support.job_text import change_job, shift

HOUR = 3_600_000
ARGS = b"[[],{}]"


@pytest.fixture
def enqueue(run, broker):
    def enqueue(**options):
        job = NewJob(new_id(), "task", ARGS, **options)
        assert run(broker.enqueue("q", [job])) == ["stored"]
        return job.id

    return enqueue


@pytest.fixture
def claim(run, broker):
    def claim(want=1):
        token = new_token()
        return token, run(broker.claim("q", want, dispatcher="d", nonce=token, lease_ms=HOUR, max_rescues=2)).jobs

    return claim


@pytest.fixture
def fail(run, broker, enqueue, claim):
    """A job that has failed."""

    def fail(**options):
        job_id = enqueue(**options)
        token, jobs = claim()
        assert jobs[0].id.decode() == job_id
        run(broker.settle("q", [Outcome(job_id, token, "failed", HOUR, 1, b'{"code":"X"}')]))
        return job_id

    return fail


# Suspend


def test_all_queues_means_those_still_to_come(run, broker):
    """One that is declared later is suspended as the others, once; all are resumed, and the next is not suspended."""
    run(broker.declare(["a", "b"]))
    assert run(broker.suspend_all(on=True)) == {"a": True, "b": True}
    run(broker.declare(["a", "q"]))
    assert run(broker.counts("q")).suspended_by_operator
    run(broker.suspend("q", by="operator", on=False))
    run(broker.declare(["q"]))
    assert not run(broker.counts("q")).suspended_by_operator
    run(broker.suspend("b", by="file", on=True))
    assert run(broker.suspend_all(on=False)) == {"a": False, "b": True, "q": False}
    run(broker.declare(["c"]))
    assert not run(broker.counts("c")).suspended_by_operator


def test_a_word_about_all_queues_leaves_alone_what_was_suspended_by_name(run, broker):
    """Whether the name came before or after it; and a queue of that name is resumed by it."""
    run(broker.declare(["before", "after", "never"]))
    run(broker.suspend("before", by="operator", on=True))
    run(broker.suspend_all(on=True))
    run(broker.suspend("after", by="operator", on=True))
    assert run(broker.suspend_all(on=False)) == {"after": True, "before": True, "never": False}
    assert not run(broker.suspend("before", by="operator", on=False))


@pytest.mark.parametrize("on", [True, False])
def test_whatever_is_done_between_two_steps_of_a_declaration_all_are_alike(run, broker, on):
    """An operator who suspends or resumes all while a queue is being declared finds it as the others afterwards."""
    steps = 0
    while True:
        run(plain(as_is, "FLUSHALL"))
        run(broker.declare(["old"]))
        run(broker.suspend_all(on=not on))
        if not interrupted(run, broker.declare(["new"]), steps, broker.suspend_all(on=on)):
            break
        assert [run(broker.counts(name)).suspended_by_operator for name in ("old", "new")] == [on, on], steps
        steps += 1
    assert steps >= 2


def interrupted(run, plan, steps, other):
    """Run a plan, and after so many of its steps the whole of another; False: it has not so many steps."""
    done, reply = 0, None
    try:
        while True:
            step = plan.send(reply)
            if done == steps:
                run(other)
            reply = [run(call) for call in step] if isinstance(step, list) else run(step)
            done += 1
    except StopIteration:
        return done > steps


# Sweep


def test_a_registry_has_an_end(run, broker, fail, redis, tmp_path, monkeypatch):
    """Above its size the first to go are dropped, but none whose id must still be remembered."""
    lua = tmp_path / "lua"
    shutil.copytree(script._LUA, lua)
    text = (lua / "shared" / "endings.lua").read_text()
    (lua / "shared" / "endings.lua").write_text(text.replace("REGISTRY_KEPT = 1000000", "REGISTRY_KEPT = 3"))
    monkeypatch.setattr(script, "_LUA", lua)
    script.script.cache_clear()
    try:
        jobs = [fail() for _ in range(6)]
        for n, job_id in enumerate(jobs):
            redis("ZINCRBY", "test:{q}:failed", n, job_id)
        change_job(run, f"test:{{q}}:job:{jobs[1]}", ended_at=1)
        change_job(run, f"test:{{q}}:job:{jobs[4]}", ended_at=1)
        assert run(broker.sweep("q")).trimmed == 1
        assert [run(broker.job("q", job_id)) is None for job_id in jobs] == [False, True] + [False] * 4
    finally:
        script.script.cache_clear()


# Look-ups


def test_jobs_are_listed_by_status_in_pages(run, broker, enqueue):
    """Waiting ones in the order in which they will go."""
    low, high = [enqueue(priority=1) for _ in range(3)], [enqueue(priority=2) for _ in range(3)]
    pages = [run(broker.jobs("q", JobStatus.QUEUED, start=start, count=4)) for start in (0, 4, 8)]
    assert [[job.id for job in page] for page in pages] == [(high + low)[:4], (high + low)[4:], []]
    assert pages[0][0].priority == 2


def test_counts_know_the_oldest_wait_over_all_priorities(run, broker, enqueue, redis):
    """The head of the queue is not the oldest, if it is of a higher priority."""
    assert run(broker.counts("q")).oldest_wait_ms is None
    old = enqueue(priority=1)
    shift(run, f"test:{{q}}:job:{old}", "created_at", -5000)
    enqueue(priority=2), enqueue(priority=1)
    assert 5000 <= run(broker.counts("q")).oldest_wait_ms < 10_000


# Daemons and workers


def test_workers_are_seen_while_they_speak(run, broker, redis):
    """One that has said nothing for its ttl is gone, its name too."""
    run(broker.announce("host.1", {"state": "busy", "pid": 1}))
    run(broker.announce("host.2", {"state": "idle"}))
    redis("DEL", "test:worker:host.2")
    assert [(worker.name, worker.fields) for worker in run(broker.workers())] == [
        ("host.1", {"state": "busy", "pid": "1"})
    ]
    assert redis("SMEMBERS", "test:workers") == [b"host.1"]
    assert 40 < redis("TTL", "test:worker:host.1") <= 60
    run(broker.withdraw("host.1"))
    assert run(broker.workers()) == []
