"""A job that Redis itself takes back or ends leaves a line, as does one that ends in a child."""

import os
import signal
import socket

import pytest

from fusiond.broker.call import as_is, plain
from tests.support.job_text import change_job
from tests.support.running import until

HOUR = 3_600_000


def lines_of(program, job, outcome):
    """The lines of the job with that outcome, once there is one."""

    def found():
        return [line for line in program.records() if line.get("job") == job and line.get("outcome") == outcome]

    return until(found, program.text)


def words(line, *names):
    return tuple(line.get(name) for name in names)


def die(place, program, *jobs):
    """The dispatcher is killed, and the leases of its jobs are over."""
    os.kill(program.pid, signal.SIGKILL)
    program.process.wait()
    started = place.broker.keys.of("default", "started")
    place.run(plain(as_is, "ZADD", started, "XX", *[word for job in jobs for word in (1, job)]))


@pytest.mark.parametrize("seen", [True, False], ids=["known worker", "unknown worker"])
def test_rescue_leaves_a_line(place, seen):
    """A WARNING that says which job was taken back, from whom, and how many times by now."""
    first = place.start(processes=1)
    path = place.path()
    job = place.enqueue("work", path, 60.0, header={"log_tag": "blue"})
    place.until_lines(path)
    until(lambda: place.run(place.broker.worker_names()), first.text)
    die(place, first, job)
    if not seen:
        place.run(plain(as_is, "DEL", place.broker.keys.workers))
    second = place.start(processes=1, tasks={"work": {"run": "jobs.echo"}})
    place.result(job)
    [line] = lines_of(second, job, "rescued")
    assert words(line, "level", "task", "queue", "attempt", "rescues") == ("warning", "work", "default", 1, 1)
    assert words(line, "log_tag", "duration", "host") == ("blue", None, socket.gethostname())
    holder = f"{socket.gethostname()}.{first.pid}" if seen else None
    assert line.get("held_by") == holder
    assert (holder or "unknown worker") in line["message"]
    [end] = lines_of(second, job, "finished")
    assert end["attempt"] == 2


def test_jobs_that_a_claim_ends_have_their_lines(place):
    """LEASE_LOST of what may begin once only, EXPIRED, and a cancel that a dead dispatcher did not obey."""
    first = place.start(processes=2, tasks={"work": {"retry": "none"}, "defy": {"log_tag": "red"}})
    path = place.path()
    once, canceled = place.enqueue("work", path, 60.0), place.enqueue("defy", path)
    place.until_lines(path, 2)
    change_job(place.run, place.broker.keys.of("default", "job", canceled), cancel=HOUR)
    die(place, first, once, canceled)
    late = place.enqueue("echo", header={"expires_ms": 1})
    second = place.start(processes=1, tasks={"defy": {"log_tag": "red"}})
    [lost] = lines_of(second, once, "failed")
    assert words(lost, "level", "task", "attempt", "rescues") == ("error", "work", 1, 1)
    assert lost["held_by"] == f"{socket.gethostname()}.{first.pid}"
    assert "LEASE_LOST" in lost["message"]
    [stopped] = lines_of(second, canceled, "canceled")
    assert words(stopped, "level", "task", "log_tag") == ("info", "defy", "red")
    [expired] = lines_of(second, late, "failed")
    assert words(expired, "level", "task", "attempt", "duration") == ("error", "echo", 0, None)
    assert "EXPIRED" in expired["message"]
    assert expired["wait"] >= 0
    assert place.error(late)["code"] == "EXPIRED"


def test_a_body_that_cannot_be_read_leaves_a_line(place):
    """One that another language has pushed, and a job without a body: the queue, and the reason that `broken` has."""
    keys = place.broker.keys
    place.run(plain(as_is, "LPUSH", keys.of("default", "inbox"), b'{"task": 7}'))
    place.run(plain(as_is, "ZADD", keys.of("default", "queue"), 1, b"lost"))
    program = place.start(processes=1)
    lines = until(lambda: len(found := [r for r in program.records() if "broken" in r["message"]]) == 2 and found)
    assert {words(line, "level", "queue", "host") for line in lines} == {("error", "default", socket.gethostname())}
    said = " ".join(line["message"] for line in lines)
    assert "inbox: task is not a text of 1 to 255 bytes" in said
    assert "job lost has no body" in said
