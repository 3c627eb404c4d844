"""A group's program against a real Redis: stops, drains, changes in place, batches that get stuck."""

import dataclasses
import os
import signal
from pathlib import Path

import pytest

from fusiond.config.model.tasks import Timeout
from tests.support.cases import few
from tests.support.running import alive, until
from tests.support.seldom_polls import seldom_polls

BOTH = pytest.mark.parametrize("isolation", ["fork", "process"])


def warm_up(place, queue="default"):
    """Let the group learn that `work` is quick, so that it hands out batches."""
    for _ in range(5):
        place.result(place.enqueue("work", place.path(), queue=queue), queue=queue)


# -- stops ------------------------------------------------------------------------------------------------------------


@few("isolation", ["fork", "process"])
def test_warm_stop(place, isolation):
    """What runs may end; what was handed out and not begun goes back untouched; what waits is left where it is."""
    program = place.start(isolation=isolation)
    warm_up(place)
    path = place.path()
    ids = place.enqueue_many([("work", path, 3.0, "long")] + [("work", path, 0, f"n{n}") for n in range(10)])
    place.until_lines(path)
    program.signal(signal.SIGTERM)
    assert program.wait() == 0
    assert place.status(ids[0]) == "finished"
    assert place.lines(path)[0].startswith("long")
    assert len(place.lines(path)) == 1
    for id_ in ids[1:]:
        record = place.job(id_)
        assert (record.status, record.attempts, record.crashes) == ("queued", 0, 0)


@few("isolation", ["fork", "process"])
def test_warm_stop_has_its_time(place, isolation):
    """What still runs after drain_timeout is killed and goes back, no attempt burnt."""
    program = place.start(isolation=isolation, drain_timeout=0.3)
    path = place.path()
    id_ = place.enqueue("work", path, 60)
    pid = int(place.until_lines(path)[0].split()[1])
    program.signal(signal.SIGTERM)
    assert program.wait() == 0
    assert not alive(pid)
    record = place.job(id_)
    assert (record.status, record.attempts, record.crashes, record.last_outcome) == ("queued", 0, 0, "shutdown")
    assert (record.interrupted, program.said("interrupted by the shutdown")) == (1, True)


def test_second_signal_is_cold(place):
    """It does not wait; the job runs again elsewhere, as if it had not begun here."""
    program = place.start(drain_timeout=60)
    path = place.path()
    id_ = place.enqueue("once_killed", path)
    place.result(id_)
    id_ = place.enqueue("work", path, 60)
    place.until_lines(path, 3)
    program.signal(signal.SIGINT)
    program.until_said("stopping: running jobs have")
    program.signal(signal.SIGINT)
    assert program.wait() == 0
    assert place.job(id_).attempts == 0
    place.start(tasks={"work": {"run": "jobs.echo"}})
    assert place.result(id_)
    assert place.job(id_).attempts == 1


def test_worker_is_known_while_it_lives(place, run):
    """It announces itself, and takes its leave."""
    program = place.start()
    name = until(lambda: [worker for worker in run(place.broker.workers()) if str(program.pid) in worker.name])[0]
    assert name.fields["group"] == "main"
    program.signal(signal.SIGTERM)
    program.wait()
    until(lambda: not run(place.broker.workers()))


# -- the link ---------------------------------------------------------------------------------------------------------


def test_held_until_told(place):
    """A program that is held says ready, claims nothing, and begins when told to."""
    program = place.start(held=True, link=True)
    program.heard("ready")
    id_ = place.enqueue("echo")
    program.until_children(1)
    assert place.status(id_) == "queued"
    program.tell(do="go")
    assert place.result(id_)


@pytest.mark.parametrize("held", [False, True], ids=["claims", "held"])
def test_many_long_import_errors_are_told_as_far_as_a_packet_goes(place, held):
    """Thirty of them in another script: the group serves what imports, or says in a sentence why it is refused."""
    (place.app / "bad.py").write_text("raise ImportError('\N{GRINNING FACE}' * 1000)\n")
    tasks = {f"bad{n}": {"run": f"bad.f{n}"} for n in range(40)}
    program = place.start(held=held, link=True, ready=not held, tasks=tasks)
    if held:
        assert "\N{GRINNING FACE}" in program.heard("failed")["reason"]
        assert program.wait() == 78
    else:
        assert place.result(place.enqueue("echo"))
    assert "Traceback" not in program.text()


def test_drain_over_the_link(place):
    """It has no deadline, hands back what was not begun, tells how many slots are busy, and ends with the last job."""
    program = place.start(link=True, isolation="process", processes=2, drain_timeout=0.1)
    program.heard("ready")
    path = place.path()
    ids = place.enqueue_many([("meet", path, 3) for _ in range(2)])
    place.until_lines(path, 2)
    waiting = place.enqueue("echo")
    program.tell(do="drain")
    assert program.heard("busy")["slots"] == 2
    place.let_go(path)
    assert program.wait() == 0
    assert {place.status(id_) for id_ in ids} == {"finished"}
    assert place.status(waiting) == "queued"


def test_leave_slots(place):
    """What the former generation still uses is not used twice."""
    program = place.start(held=True, link=True, isolation="process", processes=2)
    program.tell(do="leave", slots=1)
    program.tell(do="go")
    path = place.path()
    ids = place.enqueue_many([("work", path, 60, f"w{n}") for n in range(2)])
    place.until_lines(path)
    place.until(ids[1], "queued")  # where both were claimed, it was given back
    program.tell(do="leave", slots=0)
    place.until_lines(path, 2)
    assert {place.status(id_) for id_ in ids} == {"started"}


@BOTH
def test_slots_that_come_free_are_used_at_once(place, isolation):
    """Nobody wakes the group for jobs that waited while the former generation held all slots; its poll is far away."""
    own = seldom_polls(place.directory)
    program = place.start(held=True, link=True, isolation=isolation, processes=2, own=own)
    program.tell(do="leave", slots=2)
    program.tell(do="go")
    path = place.path()
    place.enqueue_many([("work", path, 60, f"w{n}") for n in range(2)])
    for left, begun in ((1, 1), (0, 2)):
        program.tell(do="leave", slots=left)
        place.until_lines(path, begun)


# -- changes in place -------------------------------------------------------------------------------------------------


@few("isolation", ["fork", "process"])
def test_processes_grow_and_shrink(place, isolation):
    """More run at once after it, and fewer; what runs is not disturbed, and the surplus ends."""
    program = place.start(link=True, isolation=isolation, processes=1)
    ahead = 1 if isolation == "fork" else 0
    program.until_children(1 + ahead)
    program.apply(isolation=isolation, processes=3)
    path = place.path()
    ids = place.enqueue_many([("meet", path, 4) for _ in range(3)])
    place.until_lines(path, 3)
    assert {place.status(id_) for id_ in ids} == {"started"}
    program.apply(isolation=isolation, processes=1)
    place.let_go(path)
    assert {place.until(id_).attempts for id_ in ids} == {1}
    program.until_children(1 + ahead)
    assert place.result(place.enqueue("echo"))


def test_queues_change(place):
    """It serves the new queue at once, and the old one no more."""
    program = place.start(link=True, queues=("a", "b"), isolation="process")
    program.apply(queues=("b", "c"), isolation="process")
    place.result(place.enqueue("echo", queue="c"), queue="c")
    left = place.enqueue("echo", queue="a")
    place.result(place.enqueue("echo", queue="b"), queue="b")
    assert place.status(left, queue="a") == "queued"


@BOTH
def test_timeouts_apply_to_jobs_that_wait(place, isolation):
    """A job enqueued before the change runs under the timeout after it."""
    program = place.start(link=True, isolation=isolation)
    path = place.path()
    running = place.enqueue("meet", path, 2)
    place.until_lines(path)
    id_ = place.enqueue("clean_up", place.path())
    program.apply(isolation=isolation, tasks={"clean_up": {"timeout": Timeout(0.2, 20)}})
    place.let_go(path)
    assert place.error(id_)["code"] == "TIMEOUT"
    assert place.status(running) == "finished"


def test_share_of_a_child_changes_in_place(place):
    """`max_jobs` of a new file holds for the children that are there."""
    program = place.start(link=True, isolation="process")
    assert len({place.result(place.enqueue("pid")) for _ in range(5)}) == 1
    program.apply(isolation="process", max_jobs=1)
    place.result(place.enqueue("pid"))
    assert len({place.result(place.enqueue("pid")) for _ in range(3)}) == 3
    program.apply(isolation="process")
    until(lambda: len({place.result(place.enqueue("pid")) for _ in range(4)}) == 1)


@few("isolation", ["fork", "process"])
def test_change_while_a_fork_server_loads(place, isolation):
    """What is applied while a new fork server imports holds for its children: a new task, other timeouts."""
    code, gate = place.app / "jobs.py", place.path("gate")
    code.write_text(f"{code.read_text()}\n_wait_for_the_gate({gate!r})\n")
    Path(gate).touch()
    program = place.start(link=True, isolation=isolation)
    Path(gate).unlink()
    old = program.fork_server()
    os.kill(old, signal.SIGKILL)
    until(lambda: program.fork_server() != old and place.lines(f"{gate}.waits"))
    tasks = {"of_this_file": {"run": "jobs.echo"}, "clean_up": {"timeout": Timeout(0.2, 20)}}
    program.apply(isolation=isolation, tasks=tasks)
    Path(gate).touch()
    assert place.result(place.enqueue("of_this_file", 1))
    assert place.error(place.enqueue("clean_up", place.path()))["code"] == "TIMEOUT"


def test_task_that_goes_while_its_jobs_wait_in_a_child(place):
    """They are held, no attempt burnt, and the program lives on."""
    program = place.start(link=True, isolation="process", tasks={"gone": {"run": "jobs.work"}})
    warm_up(place)
    path = place.path()
    for _ in range(3):
        place.result(place.enqueue("gone", place.path()))
    ids = place.enqueue_many([("work", path, 0.6, "long")] + [("gone", path, 0, f"n{n}") for n in range(5)])
    place.until_lines(path)
    config = program.config
    without = {name: task for name, task in config.tasks.items() if name != "gone"}
    program.apply_config(dataclasses.replace(config, tasks=without))
    for id_ in ids[1:]:
        record = place.until(id_, "held", "finished")
        assert record.attempts == (0 if record.status == "held" else 1)
    assert place.result(ids[0]) == "long"
    assert place.result(place.enqueue("echo"))


def test_lines_after_a_change_of_level(place):
    """A snapshot that cannot be read changes nothing, and the program goes on."""
    program = place.start(link=True)
    program.file.write_text("{")
    program.tell(do="apply", snapshot=str(program.file), generation=2)
    program.until_said("the snapshot is damaged")
    assert place.result(place.enqueue("echo"))


# -- children that are replaced ---------------------------------------------------------------------------------------


def test_max_jobs(place):
    """A child is replaced after so many jobs, and none of a batch is lost or counted twice."""
    place.start(isolation="process", max_jobs=3)
    warm_up(place)
    path = place.path()
    ids = place.enqueue_many([("pid", path)] * 30)
    assert {place.until(id_).attempts for id_ in ids} == {1}
    pids = place.lines(path)
    assert len(pids) == 30
    assert {pids.count(pid) for pid in pids} <= {1, 2, 3}


def test_max_memory(place):
    """A child that has grown is replaced between jobs."""
    place.start(isolation="process", max_memory=100 << 20)
    first = place.result(place.enqueue("grow", 1))
    assert place.result(place.enqueue("grow", 1)) == first
    assert place.result(place.enqueue("grow", 120)) == first
    assert place.result(place.enqueue("pid")) != first


# -- batches ----------------------------------------------------------------------------------------------------------


def test_quick_jobs_behind_a_long_one_go_to_another_host(place):
    """Where no child here is free they go back to their queue, no attempt burnt, and a second group takes them."""
    place.start(isolation="process")
    warm_up(place)
    path = place.path()
    ids = place.enqueue_many([("work", path, 120, "long")] + [("work", path, 0, f"n{n}") for n in range(20)])
    place.until_lines(path)
    for id_ in ids[1:]:
        assert place.until(id_, "queued").attempts == 0
    place.start(isolation="process")
    for id_ in ids[1:]:
        assert place.until(id_).attempts == 1
    assert place.status(ids[0]) == "started"


def test_held_jobs_of_a_former_name_run_once_a_task_has_it_as_alias(place):
    """A rename in place: they run the heir's function, under their own name."""
    program = place.start(link=True)
    id_ = place.enqueue("thumbnail", 1)
    place.until(id_, "held")
    heir = program.config.tasks["echo"]
    tasks = {**program.config.tasks, "thumbnail": dataclasses.replace(heir, name="thumbnail")}
    program.apply_config(dataclasses.replace(program.config, tasks=tasks))
    assert place.until(id_).task == "thumbnail"
