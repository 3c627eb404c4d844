"""What goes through a whole queue, page after page; and the pages of jobs and of bodies."""

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.maintenance import whole_queues
from fusiond.broker.records import NewJob
from fusiond.job import JobStatus
from tests.support.queue_state import findings


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch):
    monkeypatch.setattr(whole_queues, "PAGE", 2)


def push(run, broker, *bodies):
    run(plain(as_is, "LPUSH", broker.keys.of("q", "inbox"), *bodies))


def fill(run, broker):
    """Jobs that run, wait for their turn, for a time and for another job, and one in the inbox."""
    run(broker.enqueue("q", [NewJob(f"job{n}", "t", b"[[],{}]") for n in range(5)]))
    run(broker.claim("q", 1, dispatcher="d", nonce="n", lease_ms=15_000, max_rescues=3))
    run(broker.enqueue("q", [NewJob("later", "t", b"[[],{}]", delay_ms=1_000_000)]))
    run(broker.enqueue("q", [NewJob("child", "t", b"[[],{}]", after="0 1 q/job0")]))
    push(run, broker, '{"task": "t", "id": "pushed"}')


def test_a_purge_cancels_what_waits_and_nothing_else(run, broker):
    """Ready, delayed, deferred and pushed jobs, over several pages; the one that runs goes on."""
    fill(run, broker)
    pages = []
    assert run(broker.purge("q", pages.append)) == 7
    assert pages == sorted(pages)
    counts = run(broker.counts("q"))
    assert (counts.started, counts.canceled, counts.waiting) == (1, 7, 0)
    assert run(findings(broker, "q")) == []
    assert run(broker.purge("q")) == 0


def test_a_purge_that_is_killed_goes_on(run, broker):
    """Each page is done or not; the same verb does the rest."""
    fill(run, broker)

    def killed(number):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(broker.purge("q", killed))
    assert run(findings(broker, "q")) == []
    run(broker.purge("q"))
    counts = run(broker.counts("q"))
    assert (counts.started, counts.canceled, counts.waiting) == (1, 7, 0)


def newest(run, broker, status, count):
    """All ids, over pages of that size."""
    ids, start = [], ""
    while True:
        jobs, start, _ = run(broker.newest("q", JobStatus(status), start=start, count=count))
        assert len(jobs) <= count
        ids += [job.id for job in jobs]
        if not start:
            return ids


@pytest.mark.parametrize("count", [1, 2, 100])
def test_the_newest_come_first_whatever_their_priority(run, broker, count):
    """Pages of any size give each job once, in the order of arrival from the last to the first."""
    jobs = [NewJob(f"job{n}", "t", b"[[],{}]", priority=(0, 255, 1)[n % 3]) for n in range(7)]
    for job in jobs:
        run(broker.enqueue("q", [job]))
    assert newest(run, broker, "queued", count) == [f"job{n}" for n in reversed(range(7))]
    assert newest(run, broker, "failed", count) == []


def test_pages_of_ended_jobs_end_and_are_bounded_in_bytes(run, broker):
    """Each job once; a page ends with the job that takes it over a megabyte."""
    jobs = [NewJob(f"job{n}", "t", b'[["' + b"x" * 400_000 + b'"],{}]') for n in range(4)]
    run(broker.enqueue("q", jobs))
    run(broker.purge("q"))
    assert sorted(newest(run, broker, "canceled", 100)) == [job.id for job in jobs]


def test_a_broken_body_goes_back_to_the_inbox(run, broker):
    """Byte for byte, once; it is taken in if it can be read now, and otherwise put aside again."""
    push(run, broker, '{"task": "t", "priority": 999}', "no json \xff".encode("latin-1"))
    run(broker.rescue("q"))
    other, first = run(broker.broken("q"))
    assert {first.reason, other.reason} == {"inbox: not JSON", "inbox: priority is not a number from 0 to 255"}
    assert run(broker.requeue_broken("q", [first.entry, first.entry, b"gone"])) == 1
    assert run(plain(as_is, "LRANGE", broker.keys.of("q", "inbox"), 0, -1)) == [first.raw]
    run(broker.rescue("q"))
    assert [body.raw for body in run(broker.broken("q"))] == [first.raw, other.raw]
    assert (run(broker.drop_broken("q", other.entry)), run(broker.drop_broken("q", other.entry))) == (1, 0)
