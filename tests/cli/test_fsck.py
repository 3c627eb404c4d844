"""`fusiond fsck`: what it prints, its exit status, and what it does beside a daemon and to a killed repair."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob, Outcome
from fusiond.errors import BrokerError
from fusiond.job import new_id, new_token

HOUR = 3_600_000


def fsck(desk, *words):
    return desk.fusiond("fsck", *words)


def redis(desk, *words):
    return desk.run(plain(as_is, *words))


def lose(desk, count):
    """So many jobs that are in no set; their ids."""
    ids = [new_id() for _ in range(count)]
    desk.run(desk.verbs.enqueue("default", [NewJob(each, "send", b"[[],{}]") for each in ids]))
    redis(desk, "UNLINK", "fusion:{default}:queue")
    return ids


def drain(connection, verbs, queue="default", kind="finished"):
    """Run what waits, as a worker does; the ids."""
    ran = []
    while True:
        token = new_token()
        claim = verbs.claim(queue, 50, dispatcher="d", nonce=token, lease_ms=HOUR, max_rescues=3)
        jobs = connection.run(claim).jobs
        if not jobs:
            return ran
        ran += [job.id.decode() for job in jobs]
        connection.run(verbs.settle(queue, [Outcome(job.id, token, kind, HOUR, 0, b"1") for job in jobs]))


def test_nothing_is_wrong(desk):
    """Status 0, and how much was looked at."""
    desk.enqueued("send")
    done = fsck(desk)
    assert (done.status, done.out) == (0, "1 job in 2 queues: nothing is wrong\n")
    assert fsck(desk, "--json").json == {
        "findings": [],
        "complete": True,
        "jobs": 1,
        "queues": ["default", "reports"],
        "outcomes": {"found": 0, "repaired": 0},
    }


def test_a_finding_is_a_sentence_with_its_remedy(desk):
    """Job, queue, kind and remedy; status 1, and 0 once a repair has mended it."""
    (job,) = lose(desk, 1)
    problem = f"job default/{job} is in no set (wrong-set)"
    done = fsck(desk)
    assert (done.status, done.out) == (
        1,
        f"{problem}; --repair: among the queued jobs alone\n1 job in 2 queues: 1 found\n",
    )
    assert fsck(desk, "--json").json["findings"] == [
        {
            "queue": "default",
            "job": job,
            "kind": "wrong-set",
            "problem": f"job default/{job} is in no set",
            "remedy": "among the queued jobs alone",
            "outcome": "found",
        }
    ]
    done = fsck(desk, "--repair")
    assert (done.status, done.out) == (
        0,
        f"{problem}; repaired: among the queued jobs alone\n1 job in 2 queues: 1 repaired\n",
    )
    assert fsck(desk).status == 0
    assert desk.claim()[0] == job


def test_another_layout_is_neither_judged_nor_mended(desk):
    """Another fusiond means something else by what is there, so that each finding would be wrong."""
    lose(desk, 1)
    redis(desk, "HSET", "fusion:meta", "layout", 99)
    for words in ((), ("--repair",)):
        done = fsck(desk, *words)
        assert (done.status, done.out) == (3, "")
        assert "upgrade fusiond" in done.err
    assert redis(desk, "ZCARD", "fusion:{default}:queue") == 0


@pytest.mark.proof
def test_a_repair_that_is_killed_loses_nothing(desk):
    """However often it dies in the middle: the jobs are all there, the next repair goes on, and each runs once."""
    ids = lose(desk, 4000)
    for _ in range(3):
        command = subprocess.Popen(
            [sys.executable, "-P", "-m", "fusiond.cli", "fsck", "--repair", "--url", desk.settings.url],
            stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        command.stdout.readline()
        command.send_signal(signal.SIGKILL)
        command.communicate()
        back = redis(desk, "ZCARD", "fusion:{default}:queue")
        assert len(redis(desk, "KEYS", "fusion:{default}:job:*")) == 4000
    assert 0 < back < 4000
    report = fsck(desk, "--repair", "--json").json
    assert report["outcomes"] == {"found": 0, "repaired": 4000 - back}
    assert fsck(desk).status == 0
    ran = drain(desk.connection, desk.verbs)
    assert sorted(ran) == sorted(ids)


def test_beside_workers_nothing_false_is_reported(desk, redis_server):
    """While jobs are enqueued, run, retried, released, canceled and dropped, no job that moves is a finding."""
    enough, errors = threading.Event(), []

    def work(kind):
        with redis_server.connect("fusion") as connection:
            while not enough.is_set():
                drain_some(connection, desk.verbs, kind)

    def produce():
        with redis_server.connect("fusion") as connection:
            while not enough.is_set():
                ids = [new_id() for _ in range(20)]
                jobs = [NewJob(each, "send", b"[[],{}]", delay_ms=n) for n, each in enumerate(ids)]
                connection.run(desk.verbs.enqueue("default", jobs))
                for each in ids[:3]:
                    connection.run(desk.verbs.cancel("default", each))
                connection.run(desk.verbs.requeue("default", ids))
                connection.run(desk.verbs.sweep("default"))

    def guarded(act, *words):
        try:
            act(*words)
        except Exception as error:
            errors.append(error)

    acts = [(produce,), *((work, kind) for kind in ("finished", "failed", "retry", "released"))]
    threads = [threading.Thread(target=guarded, args=act) for act in acts]
    for thread in threads:
        thread.start()
    try:
        reports = [fsck(desk, "--json").json for _ in range(4)]
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert [report["findings"] for report in reports] == [[]] * 4
    assert all(report["jobs"] for report in reports[1:])


def drain_some(connection, verbs, kind):
    """One claim and what comes of it."""
    token = new_token()
    claim = verbs.claim("default", 7, dispatcher=kind, nonce=token, lease_ms=HOUR, max_rescues=3)
    outcomes = [Outcome(job.id, token, kind, 0, 0, b"1") for job in connection.run(claim).jobs]
    if outcomes:
        connection.run(verbs.settle("default", outcomes))


def test_a_command_that_meets_a_key_of_another_type_names_it_and_the_remedy(desk):
    """Not the words of Redis."""
    redis(desk, "SET", "fusion:cron", "x")
    with pytest.raises(BrokerError, match=r"key 'fusion:cron' is of another type than ours; rename or delete it"):
        desk.run(desk.verbs.cron_state("a"))
    redis(desk, "SET", "fusion:workers", "x")
    with pytest.raises(BrokerError, match=r"key 'fusion:workers' is of another type than ours; rename or delete it"):
        desk.run(desk.verbs.workers())
