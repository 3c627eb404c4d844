"""Each job leaves a line at its end: which job, how it ended, how long it waited and ran, and on which host."""

import socket
import time
from dataclasses import replace

import pytest

from fusiond.worker.dispatcher.ends.job_log import MOST
from tests.support.running import until
from tests.support.worker_program import SINGLE


def ends(program, outcome=None):
    """The last lines of jobs, in the order of the log."""
    own = [
        record
        for record in program.records()
        if record["logger"] == "fusiond.worker.dispatcher.ends.job_log" and "outcome" in record
    ]
    return [record for record in own if outcome in (None, record["outcome"])]


def counted(program):
    """How many jobs succeeded without a line, as the log says."""
    return sum(record["finished"] for record in program.records() if "finished" in record)


def without(config):
    """The same file with `logging: {jobs: false}`."""
    return replace(config, logging=replace(config.logging, jobs=False))


@pytest.mark.parametrize("isolation", ["fork", "process"])
def test_job_that_succeeded_leaves_one_line(place, isolation):
    """With task, outcome, attempt, host, and numbers of seconds for how long it waited and ran."""
    job = place.enqueue("work", place.path(), 0.3)
    time.sleep(0.4)
    program = place.start(isolation=isolation)
    place.result(job)
    [line] = until(lambda: ends(program), program.text)
    said = [line[name] for name in ("level", "message", "job", "task", "queue", "outcome", "attempt", "host")]
    assert said == ["info", "finished", job, "work", "default", "finished", 1, socket.gethostname()]
    assert 0.3 <= line["duration"] < 30
    assert 0.4 <= line["wait"] < 30


def test_the_line_of_a_failure_says_who_answers(place):
    """So whoever reads the log knows whom to ask, and where it is said what to do."""
    program = place.start(tasks={"wrong": {"owner": "ada", "runbook_url": "https://wiki.example.com/wrong"}})
    place.error(place.enqueue("wrong"))
    [line] = until(lambda: ends(program, "failed"), program.text)
    assert (line["owner"], line["runbook_url"]) == ("ada", "https://wiki.example.com/wrong")


@pytest.mark.proof
def test_wait_of_a_retry_is_counted_from_when_it_came_due(place):
    """Neither the first attempt nor the delay before the second is part of it."""
    policy = replace(SINGLE, max_attempts=2, delay=6.0)
    program = place.start(policies={"twice": policy}, tasks={"upset": {"retry": "twice"}})
    job = place.enqueue("upset")
    place.error(job)
    lines = until(lambda: len(found := ends(program)) == 2 and found, program.text)
    assert [(line["outcome"], line["attempt"], line["level"]) for line in lines] == [
        ("retry", 1, "warning"),
        ("failed", 2, "error"),
    ]
    first, second = (line["time"] for line in lines)
    assert first < second
    assert lines[1]["wait"] < 6.0


def test_job_that_failed_has_its_line_whatever_the_file_says(place):
    """`logging: {jobs: false}` leaves out the line of a job that succeeded; a reload takes it in place."""
    program = place.start(change=without, link=True)
    quiet, wrong, killed = place.enqueue("echo"), place.enqueue("upset"), place.enqueue("kill_self", 9)
    place.result(quiet)
    place.error(wrong)
    place.until(killed)
    found = until(lambda: len(found := ends(program, "failed")) >= 2 and found, program.text)
    assert {line["job"] for line in found} == {wrong, killed}
    assert all(line["host"] == socket.gethostname() and line["duration"] >= 0 for line in found)
    pid = program.fork_server()
    program.apply()
    heard = place.enqueue("echo")
    place.result(heard)
    assert [line["job"] for line in until(lambda: ends(program, "finished"), program.text)] == [heard]
    program.apply_config(without(program.config))
    place.result(place.enqueue("echo"))
    assert len(ends(program, "finished")) == 1
    assert program.fork_server() == pid


def test_canceled_job_has_its_line(place):
    """Also one that was killed for it, with how long it had run."""
    program = place.start(processes=1)
    path = place.path()
    job = place.enqueue("work", path, 60.0)
    place.until_lines(path)
    place.cancel(job)
    place.until(job, "canceled")
    [line] = until(lambda: ends(program, "canceled"), program.text)
    assert (line["job"], line["level"]) == (job, "info")
    assert line["duration"] >= 0


def test_lines_of_jobs_that_succeeded_are_bounded_and_the_others_counted(place):
    """Each of many quick jobs has a line or is counted; of those that failed each has its line."""
    program = place.start(processes=2)
    jobs = 20 * MOST
    began = time.monotonic()
    ids = place.enqueue_many([("echo", n) if n % 40 else ("upset",) for n in range(jobs)])
    until(lambda: len(ends(program, "failed")) == jobs // 40, program.text)
    for job in ids:
        place.until(job)
    until(lambda: len(ends(program, "finished")) + counted(program) == jobs - jobs // 40, program.text)
    seconds = time.monotonic() - began
    assert MOST <= len(ends(program, "finished")) <= MOST * (seconds + 1)
    # A machine that takes 20 s may have a line for each.
    assert counted(program) or seconds > 18


def test_program_that_ends_has_counted(place):
    """What was left out in its last second is not lost."""
    program = place.start(processes=1)
    place.enqueue_many([("echo", n) for n in range(5 * MOST)])
    until(lambda: len(ends(program)) >= MOST, program.text)
    program.process.terminate()
    assert program.wait() == 0
    counts = place.run(place.broker.counts("default"))
    assert len(ends(program)) + counted(program) == counts.finished
