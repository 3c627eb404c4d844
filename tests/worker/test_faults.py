"""A group's program against a real Redis: deaths, strays, hostile jobs, a Redis that goes away."""

import asyncio
import os
import pwd
import signal
import socket
import time
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.config import model
from fusiond.config.model import RetryPolicy
from fusiond.config.model.tasks import Timeout
from fusiond.worker.pool.attempt import Attempt, KillReason
from fusiond.worker.pool.children import Children
from fusiond.worker.pool.slots import ChildKind, Slot
from fusiond.worker.pool.watchdog import LINGER, Watchdog
from fusiond.worker.runtime import wire
from tests.chaos.package import SHORT_LEASES
from tests.support.cases import few
from tests.support.running import alive, until
from tests.support.worker_program import STRICT, children_of

BOTH = pytest.mark.parametrize("isolation", ["fork", "process"])
NO_CRASH = {"single": STRICT}

# -- strays -----------------------------------------------------------------------------------------------------------


def test_grandchildren_end_with_their_job(place):
    """In its group, in a session of their own, orphaned: all that a job started ends with its child, and is logged."""
    program = place.start(isolation="fork")
    path = place.path()
    place.result(place.enqueue("spawn", path))
    until(lambda: not any(alive(int(pid)) for pid in place.until_lines(path, 3)))
    program.until_said("killed what the job has left: ")


@few("isolation", ["fork", "process"])
def test_grandchildren_end_with_a_killed_job(place, isolation):
    """The same where the child was killed at the hard timeout."""
    place.start(isolation=isolation, policies=NO_CRASH, tasks={"spawn": {"timeout": Timeout(30, 4)}})
    path = place.path()
    place.error(place.enqueue("spawn", path, 60))
    assert len(place.until_lines(path, 3)) == 3
    until(lambda: not any(alive(int(pid)) for pid in place.lines(path)))


def test_orphans_of_orphans_end_too(place):
    """A stray whose own child has a session of its own leaves nothing either, on a group with nothing else to do."""
    place.start(isolation="fork")
    path = place.path()
    place.result(place.enqueue("spawn_chain", path))
    until(lambda: not alive(int(place.lines(path)[0])), lambda: f"{place.lines(path)} {place.processes()}")


def test_orphans_of_a_job_that_runs_are_left_alone(place):
    """What a job has started, and what was orphaned, lives as long as the job, whichever siblings end meanwhile."""
    place.start(isolation="fork", processes=2)
    path = place.path()
    id_ = place.enqueue("orphan", path, 1.0)
    pid = int(place.until_lines(path)[0])
    for n in range(20):
        place.result(place.enqueue("echo", n))
    assert place.result(id_) == "lives"
    until(lambda: not alive(pid))


@few("isolation", ["fork", "process"])
def test_killed_dispatcher_leaves_nothing_and_loses_nothing(place, isolation):
    """After kill -9 of the dispatcher no process of its group is left, and its jobs run elsewhere after their lease."""
    first = place.start(isolation=isolation, processes=3, own=place.edited(SHORT_LEASES))
    path = place.path()
    ids = place.enqueue_many([("work", path, 60, f"w{n}") for n in range(3)])
    place.until_lines(path, 3)
    os.kill(first.pid, signal.SIGKILL)
    first.process.wait()
    until(lambda: not place.processes(), lambda: str(place.processes()))
    place.start(processes=3, tasks={"work": {"run": "jobs.echo"}})
    for id_ in ids:
        record = place.until(id_)
        assert (record.status, record.attempts, record.rescues, record.crashes) == ("finished", 2, 1, 0)


@BOTH
def test_killed_fork_server(place, isolation):
    """After kill -9 of the fork server a new one comes, nothing of the old is left, and its jobs run again."""
    program = place.start(isolation=isolation, processes=2)
    path = place.path()
    ids = place.enqueue_many([("work", path, 60, f"w{n}") for n in range(2)])
    place.until_lines(path, 2)
    old = [int(line.split()[1]) for line in place.lines(path)]
    os.kill(program.fork_server(), signal.SIGKILL)
    lines = place.until_lines(path, 4)
    assert not any(alive(pid) for pid in old)
    assert sorted(line.split()[0] for line in lines[2:]) == ["w0", "w1"]
    for id_ in ids:
        place.cancel(id_)
        record = place.until(id_)
        assert (record.status, record.attempts) == ("canceled", 2)
    assert place.result(place.enqueue("echo"))


def test_fork_server_that_cannot_start_again_is_tried_again(place):
    """A directory that is away for a moment, as while a release is put in its place, costs no group for ever."""
    program = place.start(isolation="fork")
    away = place.app.with_name("away")
    place.app.rename(away)
    os.kill(program.fork_server(), signal.SIGKILL)
    program.until_said("cannot be started")
    assert program.text().count("cannot be started") < 20
    away.rename(place.app)
    assert place.result(place.enqueue("echo"))


def test_fork_server_that_dies_again_and_again_is_not_started_without_a_pause(place):
    """A crash loop is slowed down: after the first death at once, then after 0.2, 0.4 and 0.8 s."""
    program = place.start(isolation="process")
    started, seen = time.monotonic(), set()

    def new():
        return set(children_of(program.pid)) - seen

    for _ in range(5):
        server = until(new, program.text).pop()
        os.kill(server, signal.SIGSTOP)
        # Its children become the program's, which kills them, and are not a fork servers.
        seen |= {server, *children_of(server)}
        os.kill(server, signal.SIGKILL)
    assert time.monotonic() - started > 1.3


@pytest.mark.proof
def test_more_processes_than_the_socket_holds_commands(place):
    """A large group starts."""
    program = place.start(isolation="process", processes=250)
    program.until_children(250)
    assert place.result(place.enqueue("echo"))


@pytest.fixture
def child():
    """A child that no process is behind, in a slot of its own."""
    slot = Slot.make(1, lambda *_: None, ChildKind.of(model.WorkerGroup("main", isolation="process"), Path()))
    child = slot.fork(Mock(), b"")
    yield child
    child.socket.close()
    slot.close()


def test_an_outcome_that_does_not_come_is_not_waited_for_without_end(child):
    """A job that writes another's mark, hangs, and has a lease no more cannot hide behind that mark."""
    child.outstanding[1] = Attempt("q", b"1", "t", b"work", b"", b"", 1, 0, 0, 1 << 62, 0)
    child.slot.serial, child.handed = 2, 1
    child.slot.page.begin(2, 1)

    async def looks():
        children = Mock(living={1: child})
        watch = Watchdog(children)
        watch.look()
        assert not children.kill_hostile.mock_calls
        child.seen -= LINGER
        watch.look()
        assert children.kill_hostile.mock_calls == [call(child)]

    asyncio.run(looks())


def test_a_child_that_stands_still_after_its_last_job_is_watched_on(child):
    """It has kept the outcomes on the page and not sent them: they are taken from there, and it owes nothing more."""
    attempts = [Attempt("q", b"%d" % n, "t", b"work", b"", b"", 1, 0, 0, 1 << 62, 0) for n in (1, 2)]
    child.outstanding.update({1: attempts[0], 2: attempts[1]})
    child.slot.serial, child.handed = 2, 1
    for serial in (1, 2):
        child.slot.page.begin(serial, 1)
        child.slot.page.keep(wire.outcome_record(wire.OutcomeMessage(serial, wire.FINISHED, False, 0.0, b"")))
    ended = []

    async def look():
        kind = child.slot.kind
        children = Children(
            "main", Mock(), lambda attempt, _: ended.append(attempt), Mock(), on_printed=Mock(), kind=kind
        )
        children.living[1] = child
        Watchdog(children).look()
        children.reader.close()

    asyncio.run(look())
    assert ended == attempts
    assert not child.broken


@pytest.mark.parametrize("reason", [KillReason.CANCELED, KillReason.TIMEOUT, KillReason.LOST, KillReason.SHUTDOWN])
def test_a_death_is_held_against_the_job_that_it_was_meant_for(reason, child):
    """One that its child has begun since is not to blame, and one that waits must not begin any more."""
    page = child.slot.page
    for serial in (1, 2, 3):
        child.outstanding[serial] = Attempt("q", b"%d" % serial, "t", b"work", b"", b"", 1, 0, 0, 1 << 62, 0)
        page.allow(serial, 1 << 62)
    child.slot.serial = 3
    assert page.begin(1, 1)
    assert child.is_to_blame(1)
    assert page.begin(2, 2)  # between the look at the first and the kill
    child.kill_for(reason, 1)
    assert not page.begin(3, 3)
    assert child.begun() == 3
    assert [serial for serial in (1, 2, 3) if child.is_to_blame(serial)] == [1]


# -- hostile jobs -----------------------------------------------------------------------------------------------------

FRAMES = {
    # Outcomes of jobs that the child was never handed; a frame may hold three million of them.
    **{
        f"an outcome of job {serial}": wire.outcomes_frame(
            [wire.OutcomeMessage(serial, wire.FINISHED, False, 0.0, b"")] * 3
        ).decode("latin-1")
        for serial in (0, 1 << 50)
    },
    "noise": "no frame at all",
    "huge": "O\xff\xff\xff\xff",
    "kind": "J\x00\x00\x00\x00",
    "cut": "O\x03\x00\x00\x00abc",
    "endless": "O\x20\x00\x00\x00" + "\x01" * 32,
}


@pytest.mark.parametrize("name", FRAMES)
def test_garbage_on_the_socket(place, name):
    """It costs the job that sent it, as a crash, and nobody else."""
    program = place.start(isolation="process", processes=2, policies=NO_CRASH)
    id_ = place.enqueue("send", FRAMES[name], 60.0)
    quick = place.enqueue_many([("echo", n) for n in range(20)])
    assert place.error(id_)["code"] == "WORKER_CRASHED"
    assert {place.until(other).status for other in quick} == {"finished"}
    assert program.process.poll() is None


def test_flood_on_the_socket(place):
    """Frames without end keep the dispatcher from nothing, and are ended."""
    place.start(isolation="process", processes=2)
    id_ = place.enqueue("flood", 120)
    for n in range(3):
        place.result(place.enqueue("echo", n))
    assert "broken protocol" in place.error(id_)["message"]


def test_no_job_speaks_for_another(place):
    """With isolation `fork` a job that has ended and lives on is handed none, and its child is killed, not kept."""
    place.start(isolation="fork", processes=2, policies=NO_CRASH)
    echoed = [{"args": [k], "kwargs": {}} for k in range(5)]
    for n in range(6):
        assert place.result(place.enqueue("speak_for", 40)) == "forged"
        assert [place.result(id_) for id_ in place.enqueue_many([("echo", k) for k in range(5)])] == echoed, n


@pytest.mark.proof
@BOTH
@pytest.mark.parametrize("how", ["truncate", "enlarge", "close", "garbage", "fill", "shutdown", "descriptors", "flags"])
def test_no_inherited_descriptor_ends_the_dispatcher(place, isolation, how):
    """Whatever a job does to each of them costs that job alone: dispatcher and fork server live, siblings run."""
    program = place.start(
        isolation=isolation, processes=2, policies=NO_CRASH, tasks={"abuse": {"timeout": Timeout(30, 1)}}
    )
    server = program.fork_server()
    for _ in range(2):
        path = place.path()
        id_ = place.enqueue("abuse", how, path, 60.0)
        place.until_lines(path)
        siblings = place.enqueue_many([("echo", n) for n in range(8)])
        assert {place.until(other).status for other in siblings} == {"finished"}
        assert place.error(id_)["code"] in ("TIMEOUT", "WORKER_CRASHED")
    ids = place.enqueue_many([("speak", f"w{n}") for n in range(4)])
    assert {place.until(id_).status for id_ in ids} == {"finished"}
    until(lambda: all(len(program.printed(id_)) == 4 for id_ in ids), lambda: str([program.printed(i) for i in ids]))
    assert (program.process.poll(), program.fork_server()) == (None, server)


@BOTH
@pytest.mark.parametrize("value", [0, 1 << 60])
def test_garbage_on_the_page_does_not_hide_a_death(place, isolation, value):
    """A job that writes any mark and dies is charged with its crash, and cannot go round for ever."""
    place.start(isolation=isolation, policies={"single": RetryPolicy(1, max_crashes=1)})
    path = place.path()
    for _ in range(3):
        place.result(place.enqueue("echo"))
    id_ = place.enqueue("scribble", 0, value, path)
    assert place.error(id_)["code"] == "WORKER_CRASHED"
    assert len(place.lines(path)) == 2
    assert place.result(place.enqueue("echo"))


@pytest.mark.parametrize(("word", "value"), [(0, 0), (0, 1 << 60), (1, (1 << 63) - 1)])
def test_garbage_on_the_page_does_not_put_off_the_hard_timeout(place, word, value):
    """A job that says it has not begun, or begins in the future, is killed all the same."""
    place.start(isolation="process", policies=NO_CRASH, tasks={"scribble": {"timeout": Timeout(30, 0.5)}})
    for _ in range(3):
        place.result(place.enqueue("echo"))
    id_ = place.enqueue("scribble", word, value, place.path(), 60.0)
    assert place.error(id_)["code"] in ("TIMEOUT", "WORKER_CRASHED")
    assert place.result(place.enqueue("echo"))


# -- Redis ------------------------------------------------------------------------------------------------------------


@pytest.mark.proof
def test_spoilt_queue_costs_no_other_its_leases(place, run):
    """A key of the wrong type in one queue: jobs of another keep running past their lease."""
    place.start(isolation="process", processes=2, queues=("bad", "good"))
    path = place.path()
    id_ = place.enqueue("work", path, 17, queue="good")
    place.enqueue("work", path, 60, queue="bad")
    place.until_lines(path, 2)
    run(plain(as_is, "DEL", place.broker.keys.of("bad", "started")))
    run(plain(as_is, "SET", place.broker.keys.of("bad", "started"), "x"))
    record = place.until(id_, queue="good")
    assert (record.status, record.attempts, record.rescues) == ("finished", 1, 0)


def test_spoilt_queue_does_not_hold_up_those_below_it(place, run):
    """In strict order the first is asked alone; where Redis refuses it, the next one is."""
    run(plain(as_is, "SET", place.broker.keys.of("bad", "queue"), "by hand"))
    id_ = place.enqueue("echo", queue="good")
    program = place.start(isolation="process", queues=("bad", "good"), order="strict")
    place.until(id_, "finished", queue="good")
    program.until_said("queue 'bad': no jobs can be claimed")


def test_redis_goes_and_comes_back(place, redis_server):
    """Jobs that ran meanwhile are settled once, new ones run, and no restart is needed."""
    program = place.start(isolation="process", processes=2)
    path = place.path()
    redis_server.kill()
    program.until_said("Retrying until Redis answers")
    redis_server.start()
    program.until_said("Redis is back")
    id_ = place.enqueue("work", path)
    assert place.result(id_) == "work"


@few("size", [900_000, 10])
def test_an_outcome_is_heard_while_redis_stands_still(place, redis_server, size):
    """A large one is read before the job's hard timeout, though a busy group waits for the answer of a round trip."""
    program = place.start(isolation="fork", processes=1, tasks={"stop_other": {"timeout": Timeout(1, 1.5)}})
    quick, path = [("work", place.path())] * 300, place.path()
    ids = place.enqueue_many([*quick, ("stop_other", path, redis_server.process.pid, size), *quick])
    try:
        [line] = place.until_lines(path)
        until(lambda: not alive(int(line)), program.text)
    finally:
        redis_server.resume()
    record = place.until(ids[300])
    assert (record.status, record.attempts, record.crashes) == ("finished", 1, 0)


def test_stop_while_redis_is_away(place, redis_server):
    """A stop does not wait for the back-off to end."""
    program = place.start(isolation="process", drain_timeout=600)
    redis_server.kill()
    program.until_said("Retrying until Redis answers")
    program.signal(signal.SIGTERM)
    assert program.wait() == 0


@pytest.fixture
def refusing(run):
    """Has Redis answer, and refuse each write, as it does without the replicas that it must have."""
    yield lambda: run(plain(as_is, "CONFIG", "SET", "min-replicas-to-write", 1))
    run(plain(as_is, "CONFIG", "SET", "min-replicas-to-write", 0))


@pytest.mark.proof
@pytest.mark.parametrize("times", [1, 2], ids=["warm", "cold"])
def test_stop_while_redis_refuses(place, refusing, times):
    """An outcome that Redis does not take holds the end up for drain_timeout and some seconds, not for longer."""
    program = place.start(isolation="process", drain_timeout=3 if times == 1 else 600)
    path = place.path()
    place.enqueue("meet", path, 2)
    place.until_lines(path)
    refusing()
    if times == 1:
        place.let_go(path)
    for _ in range(times):
        program.signal(signal.SIGTERM)
        program.until_said("stopping: running jobs")  # two at once would be one
    assert program.wait() == 0
    assert program.said("outcomes could not be settled")


def test_stop_before_redis_was_reached(place, redis_server):
    """A program that waits for its first answer ends at once when told to."""
    redis_server.kill()
    program = place.start(drain_timeout=600, ready=False)
    program.until_said("Redis")
    until(program.children, program.text)
    program.signal(signal.SIGTERM)
    program.wait()


def test_redis_comes_later(place, redis_server):
    """It waits until there is a Redis."""
    redis_server.kill()
    program = place.start(ready=False)
    program.until_said("Redis")
    redis_server.start()
    program.ready()
    assert place.result(place.enqueue("echo"))


# -- users ------------------------------------------------------------------------------------------------------------

#: an interpreter that every user may run; the one of the tests may be in somebody's home
PYTHON = "/usr/bin/python3"
ROOT = pytest.mark.skipif(os.geteuid() != 0 or not Path(PYTHON).exists(), reason="only root can become somebody else")


@ROOT
def test_environment_of_the_group_does_nothing_before_its_user_is_taken_on(place, tmp_path):
    """What the loader obeys, and an application may write into its own environment file, is not obeyed as root."""
    trace = place.directory / "trace"
    place.start(user="nobody", python=PYTHON, environment={"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(trace)})
    place.result(place.enqueue("echo"))
    written = list(place.directory.glob("trace.*"))
    assert written
    assert {path.stat().st_uid for path in written} == {pwd.getpwnam("nobody").pw_uid}


def test_link_that_ends_takes_everything_along(place):
    """When the supervisor dies the program and all that is under it end at once; what ran goes back."""
    program = place.start(link=True, isolation="process")
    path = place.path()
    id_ = place.enqueue("spawn", path, 60)
    place.until_lines(path, 3)
    program.link.shutdown(socket.SHUT_RDWR)
    program.link.close()
    program.wait()
    until(lambda: not place.processes(), lambda: str(place.processes()))
    record = place.job(id_)
    assert (record.status, record.attempts, record.crashes) == ("queued", 0, 0)
