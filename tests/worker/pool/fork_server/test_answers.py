"""Whether a fork server answers: by a loop that runs, one that was kept, and by real processes that hang."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from fusiond.config.model import RetryPolicy
from fusiond.config.model.tasks import Timeout
from fusiond.worker.pool.fork_server import answers
from tests.support.running import alive, until

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another user")
PYTHON = "/usr/bin/python3"
BOTH = pytest.mark.parametrize("isolation", ["fork", "process"])
#: the dispatcher's, where it runs as root that may not kill another user's processes
NO_KILL = ("setpriv", "--bounding-set=-kill", "--inh-caps=-kill")


# -- the judge --------------------------------------------------------------------------------------------------------


class Peer:
    """Notes what the judge asks and says; `obliging`: answers at once."""

    def __init__(self, *, obliging=False):
        self.questions, self.silences, self.hung, self.obliging = [], [], [], obliging
        self.judge = answers.Answers(self.ask, self.silences.append, self.hung.append)

    async def until(self, what, count=1):
        """Until there are so many of them."""
        async with asyncio.timeout(30):
            while len(getattr(self, what)) < count:  # noqa: ASYNC110 - what is tested calls back, it sets no event
                await asyncio.sleep(0.01)

    def ask(self, number):
        self.questions.append(number)
        if self.obliging:
            self.judge.answer(number)


@pytest.fixture
def brisk(monkeypatch):
    """A judge whose seconds are tenths."""
    for name in ("ANSWER", "LOAD", "SILENT", "LOOK", "REST", "LATE"):
        monkeypatch.setattr(answers, name, getattr(answers, name) / 10)


def judged(steps):
    """What became of a peer, once these steps were done in a loop."""

    async def run():
        peer = await steps()
        peer.judge.stop()
        return peer

    return asyncio.run(run())


def test_who_does_not_answer_is_silent_and_then_hangs(brisk):
    """In this order, each said once."""

    async def steps():
        peer = Peer()
        peer.judge.ready()
        await peer.until("hung")
        await asyncio.sleep(2 * answers.REST)
        return peer

    peer = judged(steps)
    assert (peer.silences, peer.hung) == ([True], ["has not answered for 1 s"])


def test_who_answers_late_is_not_silent_any_more(brisk):
    """An answer to the open question ends the silence."""

    async def steps():
        peer = Peer()
        peer.judge.ready()
        await peer.until("silences")
        peer.obliging = True
        peer.judge.answer(peer.questions[-1])
        await asyncio.sleep(2 * answers.ANSWER)
        return peer

    peer = judged(steps)
    assert (peer.silences, peer.hung) == ([True, False], [])


def test_a_server_that_loads_has_its_time_for_each_module(brisk, monkeypatch):
    """It is asked nothing meanwhile."""
    monkeypatch.setattr(answers, "LOAD", 0.5)

    async def steps():
        peer = Peer()
        for _ in range(4):
            await asyncio.sleep(0.3)
            peer.judge.loading()
        assert peer.hung == []
        await peer.until("hung")
        return peer

    peer = judged(steps)
    assert (peer.questions, peer.hung) == ([], ["has loaded no module for 0.5 s"])


# -- fork servers that hang -------------------------------------------------------------------------------------------


@pytest.mark.proof
@BOTH
def test_a_stopped_fork_server_holds_up_no_job(place, isolation):
    """
    It is killed with its tree. What was canceled or ran out of time ends so, other jobs that had begun run again with
    the reason and no crash counted, those of `none` fail, and a program in a session of its own ends too.
    """
    tasks = {
        "again": {"run": "jobs.work", "retry": "standard"},
        "canceled": {"run": "jobs.work", "retry": "standard"},
        "slow": {"run": "jobs.work", "timeout": Timeout(2.0, 3.0)},
        "spawn": {"retry": "none"},
    }
    program = place.start(isolation=isolation, processes=4, tasks=tasks)
    path, strays = place.path(), place.path()
    again, canceled, slow = place.enqueue_many([(name, path, 60, name) for name in ("again", "canceled", "slow")])
    once = place.enqueue("spawn", strays, 60)
    place.until_lines(path, 3)
    place.until_lines(strays, 3)
    server = program.fork_server()
    os.kill(server, signal.SIGSTOP)
    place.cancel(canceled)
    place.until(canceled, "canceled")
    assert place.error(slow)["code"] == "TIMEOUT"
    assert place.error(once)["code"] == "INTERRUPTED"
    lines = place.until_lines(path, 4)
    assert lines[3].split()[0] == "again"
    assert not alive(int(lines[0].split()[1]))
    until(lambda: not any(alive(int(pid)) for pid in place.lines(strays)))
    record = place.job(again)
    assert (record.attempts, record.crashes, record.interrupted) == (1, 0, 1)
    assert record.last_outcome == "fork server hung"
    assert not alive(server)
    program.until_said("has not answered for 10 s")
    assert place.result(place.enqueue("echo"))


#: an application whose library takes a lock before each fork, and does not get it while the file is there
AT_FORK = """
import os, time
def _take_lock():
    while os.path.exists({gate!r}):
        time.sleep(0.05)
os.register_at_fork(before=_take_lock)
"""


@pytest.mark.proof
def test_jobs_of_children_that_are_never_forked_go_to_an_idle_daemon(place):
    """A fork server that hangs in its application's at-fork handler keeps no job for longer than it takes to notice."""
    gate = place.path("gate")
    with (place.app / "jobs.py").open("a") as file:
        file.write(AT_FORK.format(gate=gate))
    first = place.start(isolation="fork", processes=2)
    with open(gate, "w"):  # noqa: PTH123
        pass
    for n in range(8):
        place.enqueue("echo", n)
    until(lambda: first.said("does not answer"))
    (place.app / "jobs.py").write_text((place.app / "jobs.py").read_text().replace(gate, gate + "-none"))
    place.start(isolation="fork")
    assert {place.until(id_).status for id_ in place.enqueue_many([("echo", n) for n in range(8)])} == {"finished"}
    until(lambda: place.run(place.broker.counts("default")).started == 0)
    first.until_said("has not answered for 10 s")


@pytest.mark.proof
def test_a_drain_does_not_wait_for_a_fork_server_that_hangs(place):
    """The old generation of a group ends, and what it ran runs elsewhere."""
    first = place.start(isolation="process", link=True, tasks={"work": {"retry": "standard"}})
    path = place.path()
    id_ = place.enqueue("work", path, 60)
    place.until_lines(path)
    os.kill(first.fork_server(), signal.SIGSTOP)
    first.tell(do="drain")
    assert first.wait() == 0
    assert (place.job(id_).status, place.job(id_).crashes) == ("queued", 0)


# -- what the kernel does not end -------------------------------------------------------------------------------------

SURVIVOR = """
import ctypes, os, time
def outlive(path, gate):
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
    with open(path, "a") as file:
        file.write(f"begun {os.getpid()}\\n")
    while not os.path.exists(gate):
        time.sleep(0.05)
    return "outlived"
"""


@pytest.fixture
def powerless(place):
    """A group of another user, and a dispatcher that may not kill what is that user's."""
    (place.app / "survivor.py").write_text(SURVIVOR)
    tasks = {"outlive": {"run": "survivor.outlive", "retry": "standard"}}
    return place.start(
        user="nobody", python=PYTHON, isolation="process", processes=2, prefix=NO_KILL, tasks=tasks,
        policies={"standard": RetryPolicy(3)},
    )  # fmt: skip


def unkilled(place):
    """The jobs that any worker names as such."""
    return [word for worker in place.run(place.broker.workers()) for word in worker.fields["unkilled"].split()]


@pytest.mark.proof
@ROOT
def test_a_job_whose_process_cannot_be_killed_keeps_its_lease_and_is_named(place, powerless):
    """Its fork server has died, it lives on: it does not run a second time, and its outcome counts."""
    path, gate = place.path(), place.path("gate")
    id_ = place.enqueue("outlive", path, gate)
    place.until_lines(path)
    os.kill(powerless.fork_server(), signal.SIGKILL)
    powerless.until_said("has not ended; the lease of its job is kept")
    until(lambda: unkilled(place) == [f"default/{id_}"], lambda: str(unkilled(place)))
    assert place.result(place.enqueue("echo"))
    Path(gate).touch()
    assert place.result(id_) == "outlived"
    record = place.job(id_)
    assert (record.attempts, record.rescues, len(place.lines(path))) == (1, 0, 1)
    until(lambda: unkilled(place) == [], lambda: str(unkilled(place)))
    until(lambda: not alive(int(place.lines(path)[0].split()[1])))
    ids = place.enqueue_many([("echo", n) for n in range(4)])
    assert {place.until(each).status for each in ids} == {"finished"}


@pytest.mark.proof
@ROOT
def test_a_fork_server_that_cannot_be_killed_keeps_its_jobs(place, powerless):
    """They are named; once it is gone they run again."""
    path = place.path()
    id_ = place.enqueue("outlive", path, place.path("gate"))
    place.until_lines(path)
    server = powerless.fork_server()
    os.kill(server, signal.SIGSTOP)
    try:
        powerless.until_said("was killed and has not ended; its jobs keep their leases")
        until(lambda: unkilled(place) == [f"default/{id_}"], lambda: str(unkilled(place)))
        assert place.job(id_).status == "started"
    finally:
        os.kill(server, signal.SIGKILL)
        os.kill(int(place.lines(path)[0].split()[1]), signal.SIGKILL)
    place.until_lines(path, 2)
    assert place.job(id_).crashes == 0
    os.kill(int(place.lines(path)[1].split()[1]), signal.SIGKILL)
