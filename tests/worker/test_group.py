"""A group's program against a real Redis: how jobs end, are tried again, time out and print."""

import json
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.config.model import RetryPolicy
from fusiond.config.model.tasks import Timeout
from fusiond.worker.runtime import wire
from tests.chaos.package import SELDOM_RENEWALS
from tests.support.cases import few
from tests.support.running import until
from tests.support.seldom_polls import seldom_polls
from tests.support.worker_program import STRICT, UNRUN, pythons

BOTH = pytest.mark.parametrize("isolation", ["fork", "process"])

# -- how jobs end -----------------------------------------------------------------------------------------------------


@BOTH
def test_result(place, isolation):
    """A result is stored as it was given; so is a coroutine's."""
    place.start(isolation=isolation)
    first, second = place.enqueue("echo", 1, "ä", [], a=None), place.enqueue("a_coroutine", 5)
    assert place.result(first) == {"args": [1, "ä", []], "kwargs": {"a": None}}
    assert place.result(second) == 5
    assert place.job(first).attempts == 1


@pytest.mark.parametrize(
    "kind",
    [{"isolation": "fork"}, {"isolation": "process"}]
    + [{"executor": executor, "concurrency": 2} for executor in ("asyncio", "thread")],
    ids=lambda kind: next(iter(kind.values())),
)
def test_each_bad_end_has_its_code(place, kind):
    """What a job does wrong fails that job with a code and a reason, at the first attempt, and no other."""
    tasks = {name: {"result": "ignore"} for name in UNRUN}
    # No policy repeats what cannot become right.
    tasks["add"] = {"retry": "patient"}
    # two that hang for ever without a fix would be seen as well: each has a slot of its own
    program = place.start(**kind, processes=3, tasks=tasks, policies={"patient": RetryPolicy(5, "fixed", 0.01)})
    path = place.path()
    beside = place.enqueue("meet", path, 2)
    place.until_lines(path)
    children = program.children()
    ended = {
        "BAD_ARGUMENTS": [
            place.enqueue("a_coroutine"), place.enqueue("add", 1), place.enqueue("add", 1, 2, 3),
            place.enqueue("add", a=1, b=2, c=3),
        ],
        "RESULT_NOT_SERIALIZABLE": [place.enqueue("give_object"), place.enqueue("give_nan")],
        "NOT_RUN": [place.enqueue(name) for name in UNRUN],
        "RESULT_TOO_LARGE": [place.enqueue("give_large", wire.MAX_RESULT)],
        "EXCEPTION": [
            place.enqueue(name)
            for name in ("wrong", "speechless", "inner_type_error", "raise_stop", "leave_below")
        ] + [place.enqueue("leave", 3)],
    }  # fmt: skip
    for code, ids in ended.items():
        for id_ in ids:
            error = place.error(id_)
            assert error["code"] == code, error
            assert error["message"]
            assert place.job(id_).attempts == 1
    place.let_go(path)
    assert place.result(beside) == 2
    assert kind == {"isolation": "fork"} or program.children() == children
    assert place.result(place.enqueue("give_large", wire.MAX_RESULT - 2)) == "x" * (wire.MAX_RESULT - 2)


@BOTH
def test_an_ignored_result_may_be_anything(place, isolation):
    """`result: ignore`: what is no JSON fails nothing, and what would be JSON is not stored."""
    ignored = {"result": "ignore"}
    place.start(isolation=isolation, tasks={"give_object": ignored, "echo": ignored})
    for job in (place.enqueue("give_object"), place.enqueue("echo", 1)):
        assert place.result(job) is None


def test_a_change_of_result_is_taken_in_place(place):
    """The next job of the same children follows it."""
    program = place.start(processes=1, link=True)
    assert place.result(place.enqueue("echo", 1)) is not None
    program.apply(processes=1, tasks={"echo": {"result": "ignore"}})
    assert place.result(place.enqueue("echo", 1)) is None


def test_error_tells_what_was_raised(place):
    """Type, message and a traceback that shows the job's own frames and none of the worker's."""
    place.start()
    error = place.error(place.enqueue("wrong"))
    assert (error["type"], error["message"]) == ("ValueError", "wrong")
    assert "jobs.py" in error["traceback"]
    assert "child.py" not in error["traceback"]
    assert place.error(place.enqueue("upset"))["type"] == "jobs.Upset"
    assert place.error(place.enqueue("leave", 3))["type"] == "SystemExit"


@BOTH
def test_job_is_told_about_itself(place, isolation):
    """`pass_job` hands over id, round, attempt, deadline, key, meta and trace; the environment has id and trace."""
    place.start(isolation=isolation, tasks={"told": {"pass_job": "job", "timeout": Timeout(60, 70)}})
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    id_ = place.enqueue("told", header={"key": "k", "meta": b'{"a":1}', "traceparent": trace})
    job = place.result(id_)
    assert (job["id"], job["round"], job["attempt"], job["key"], job["meta"]) == (id_, 1, 1, "k", {"a": 1})
    assert abs(job["deadline"] - time.time() - 60) < 20
    assert job["environment"] == id_
    assert job["traceparent"] == job["trace"] == trace
    # the next job of the same process
    job = place.result(place.enqueue("told"))
    assert (job["traceparent"], job["trace"]) == (None, None)


@BOTH
def test_a_requeue_begins_the_next_round(place, run, isolation):
    """The job is told its number; each attempt of the round has it, and a producer cannot say it."""
    ids = [place.enqueue("told", header={"key": "k", "meta": b'{"round":7}'}), place.enqueue("told")]
    for _ in range(2):
        assert [run(place.broker.cancel("default", id_)) for id_ in ids] == ["canceled"] * 2
        assert run(place.broker.requeue("default", ids)) == [1, 1]
    run(plain(as_is, "LPUSH", place.broker.keys.of("default", "inbox"), '{"id":"a","task":"told","round":7}'))
    place.start(isolation=isolation, tasks={"told": {"pass_job": "job"}})
    told = [place.result(id_) for id_ in (*ids, "a")]
    assert [job["round"] for job in told] == [3, 3, 1]
    assert (told[0]["key"], told[0]["meta"]) == ("k", {"round": 7})


def test_inbox_job_runs(place, run):
    """A JSON object that another language has pushed runs with its args, kwargs and meta."""
    place.start(tasks={"told": {"pass_job": "job"}})
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    body = {"id": "a", "task": "told", "meta": {"x": []}, "key": "k", "traceparent": trace}
    run(plain(as_is, "LPUSH", place.broker.keys.of("default", "inbox"), json.dumps(body)))
    run(plain(as_is, "LPUSH", place.broker.keys.of("default", "inbox"), '{"id":"b","task":"echo","args":[1e3,[]]}'))
    run(plain(as_is, "PUBLISH", place.broker.keys.wake("default"), "ready"))
    assert place.result("a")["meta"] == {"x": []}
    assert place.result("a")["traceparent"] == place.result("a")["trace"] == trace
    assert place.result("b") == {"args": [1000.0, []], "kwargs": {}}


# -- crashes ----------------------------------------------------------------------------------------------------------

CRASHES = {
    "exit": (("exit_at_once", 0), "exit status 0"),
    "kill": (("kill_self", int(signal.SIGKILL)), "SIGKILL"),
    "segfault": (("kill_self", int(signal.SIGSEGV)), "SIGSEGV"),
    "term": (("kill_self", int(signal.SIGTERM)), "SIGTERM"),
    "closed": (("close_everything",), "exit status 0"),
}


@BOTH
@pytest.mark.parametrize("crash", CRASHES)
def test_crashes_are_counted_apart(place, isolation, crash):
    """A job whose process dies runs again at once, `max_crashes` times, then fails; its neighbours do not notice."""
    (task, *args), words = CRASHES[crash]
    place.start(isolation=isolation, processes=2, policies={"single": RetryPolicy(max_attempts=1, max_crashes=2)})
    path = place.path()
    id_ = place.enqueue(task, *args, path)
    quick = place.enqueue_many([("echo", n) for n in range(30)])
    error = place.error(id_)
    assert error["code"] == "WORKER_CRASHED"
    assert words in error["message"]
    record = place.job(id_)
    assert (record.attempts, record.crashes) == (3, 3)
    assert len(place.lines(path)) == 3
    assert {place.until(other).crashes for other in quick} == {0}
    assert {place.until(other).attempts for other in quick} == {1}


@BOTH
def test_copy_of_the_child_does_not_speak_for_it(place, isolation):
    """A job that forks, and whose copy returns into the worker, ends once, and what follows it runs once."""
    place.start(isolation=isolation)
    path, after = place.path(), place.path()
    for _ in range(3):
        place.result(place.enqueue("work", after))
    ids = place.enqueue_many([("fork_back", path), ("work", after), ("work", after)])
    assert place.result(ids[0]) == "original"
    assert [place.result(id_) for id_ in ids[1:]] == ["work", "work"]
    assert len(place.lines(after)) == 5
    assert sorted(line.split()[0] for line in place.lines(path)) == ["copy", "original"]


# -- retries ----------------------------------------------------------------------------------------------------------


def test_a_retry_begins_when_its_delay_is_over(place):
    """By the dispatcher's own timer, as its poll is far away; the job fails after max_attempts with the last error."""
    policy = RetryPolicy(4, "linear", 0.1, max_delay=0.25, jitter_share=0)
    place.start(policies={"p": policy}, tasks={"upset": {"retry": "p"}}, own=seldom_polls(place.directory))
    path = place.path()
    id_ = place.enqueue("upset", path)
    assert place.error(id_)["type"] == "jobs.Upset"
    gaps = [later - earlier for earlier, later in pairwise(float(line) for line in place.lines(path))]
    assert len(gaps) == 3
    assert all(gap >= wait - 0.005 for gap, wait in zip(gaps, [0.1, 0.2, 0.25], strict=True))


# -- time -------------------------------------------------------------------------------------------------------------


@few("isolation", ["fork", "process"])
def test_soft_timeout(place, isolation):
    """It interrupts the job, `except Exception` does not swallow it, `finally` runs, and the code says TIMEOUT."""
    place.start(isolation=isolation, tasks={"clean_up": {"timeout": Timeout(1, 30)}})
    path = place.path()
    id_ = place.enqueue("clean_up", path)
    error = place.error(id_)
    assert (error["code"], error["type"]) == ("TIMEOUT", "SoftTimeout")
    assert place.lines(path) == ["begun", "cleaned"]
    assert place.job(id_).crashes == 0


def test_timeout_of_the_call_wins(place):
    """A job's own timeout is nearer than its task's, soft and hard."""
    place.start(policies={"single": STRICT})
    soft = place.enqueue("clean_up", place.path(), header={"timeout": b'{"soft":0.1,"hard":20}'})
    assert (place.error(soft)["code"], "0.1 s" in place.error(soft)["message"]) == ("TIMEOUT", True)
    hard = place.enqueue("defy", place.path(), header={"timeout": b'{"soft":1,"hard":1.3}'})
    assert "1.3 s" in place.error(hard)["message"]


def test_job_that_uses_the_alarm_costs_no_other_its_timeout(place):
    """SIGALRM belongs to the job while it runs; the next one in the same child has its soft timeout again."""
    place.start(tasks={"clean_up": {"timeout": Timeout(0.2, 5)}, "own_alarm": {"timeout": Timeout(1, 2)}})
    path = place.path()
    place.result(place.enqueue("own_alarm", path))
    error = place.error(place.enqueue("clean_up", place.path()))
    assert (error["code"], error["type"]) == ("TIMEOUT", "SoftTimeout")
    assert place.lines(path) == []


def test_job_that_borrows_the_alarm_amid_quick_ones(place):
    """The same for its neighbour in the batch, of a task that was quick so far."""
    place.start(tasks={"work": {"timeout": Timeout(1, 4)}}, policies={"single": STRICT})
    for task, *args in [("echo",), ("borrow_alarm",), ("work", place.path())] * 3:
        place.result(place.enqueue(task, *args))
    ids = place.enqueue_many([("echo",)] * 3 + [("borrow_alarm",), ("work", place.path(), 10)])
    assert place.error(ids[-1])["type"] == "SoftTimeout"


@few("isolation", ["fork", "process"])
def test_hard_timeout(place, isolation):
    """A job that swallows everything and ignores every signal is killed; then the next runs."""
    place.start(
        isolation=isolation,
        tasks={"defy": {"timeout": Timeout(1, 1.4)}},
        policies={"single": RetryPolicy(1, max_crashes=1)},
    )
    path = place.path()
    id_ = place.enqueue("defy", path)
    assert place.error(id_)["code"] == "TIMEOUT"
    assert place.job(id_).crashes == 2
    assert len(place.lines(path)) == 2
    assert place.result(place.enqueue("echo"))


@BOTH
def test_job_that_left_its_group_can_be_killed(place, isolation):
    """A job cannot evade its death by joining another process group."""
    place.start(isolation=isolation)
    path = place.path()
    id_ = place.enqueue("change_group", path)
    place.until_lines(path)
    place.cancel(id_)
    assert place.until(id_).status == "canceled"
    assert place.result(place.enqueue("echo"))


@few("isolation", ["fork", "process"])
def test_cancel(place, isolation):
    """A running job is killed as soon as that is heard of, and ends canceled; a waiting one never runs."""
    place.start(isolation=isolation, own=place.edited(SELDOM_RENEWALS))
    path, other = place.path(), place.path()
    running = place.enqueue("work", path, 60)
    place.until_lines(path)
    waiting = place.enqueue("work", other)
    # The waiting one first: the end of the other one frees the child.
    for id_ in (waiting, running):
        place.cancel(id_)
    for id_ in (waiting, running):
        assert place.until(id_).status == "canceled"
    place.result(place.enqueue("echo"))
    assert place.lines(other) == []


def test_cancel_while_nobody_hears_of_it(place, run):
    """A dispatcher that was cut off from its wake-ups asks once it hears them again, not at the next renewal alone."""
    place.start(own=place.edited(SELDOM_RENEWALS))
    path = place.path()
    id_ = place.enqueue("work", path, 60)
    place.until_lines(path)
    channel = place.broker.keys.wake("default")
    until(lambda: run(plain(as_is, "PUBSUB", "NUMSUB", channel))[1])
    run(plain(as_is, "CLIENT", "KILL", "TYPE", "PUBSUB"))
    place.cancel(id_)
    assert place.until(id_).status == "canceled"


@pytest.mark.proof
def test_cancel_of_a_job_that_waits_in_a_child(place):
    """One that was handed out and not begun is taken back from its child and ends canceled, its neighbours run."""
    place.start()
    path, other = place.path(), place.path()
    for task, *args in [("work", other), ("meet", place.path(), 1)] * 3:
        place.result(place.enqueue(task, *args))
    ids = place.enqueue_many([("meet", path, 2)] + [("work", other, 0, f"n{n}") for n in range(5)])
    place.until_lines(path)
    place.cancel(ids[3])
    assert place.until(ids[3]).status == "canceled"
    place.let_go(path)
    for id_ in ids[:3] + ids[4:]:
        place.result(id_)
    assert not [line for line in place.lines(other) if line.startswith("n2")]


# -- order ------------------------------------------------------------------------------------------------------------


@few("isolation", ["fork", "process"])
def test_priority_then_arrival(place, run, isolation):
    """
    One child runs what waits by priority, and first in first out inside a priority.

    Where the machine stands still, a job that no child begins in time is given back, and later ones go before it.
    """
    for _ in range(3):
        path = place.path()
        ids = [
            place.enqueue("work", path, 0, f"{priority}-{nth}", header={"priority": priority})
            for nth in range(10)
            for priority in (0, 2, 1)
        ]
        program = place.start(isolation=isolation)
        for id_ in ids:
            place.until(id_)
        program.signal(signal.SIGTERM)
        program.wait()
        if not any(place.job(id_).history for id_ in ids):
            break
    names = [line.split()[0] for line in place.lines(path)]
    assert names == [f"{priority}-{nth}" for priority in (2, 1, 0) for nth in range(10)]


# -- output -----------------------------------------------------------------------------------------------------------


@BOTH
def test_lines_carry_the_jobs_id(place, isolation):
    """
    Whoever writes them: print, standard error, a program that the job started, a line without its end.

    The only job of a child needs no mark of its own. Marks of jobs before and behind it do not count for it.
    """
    program = place.start(isolation=isolation, processes=2 if isolation == "fork" else 1)
    words = iter(f"word{n}" for n in range(100))
    for jobs in (1, 5, 1, 1, 20, 1):
        check_lines(place, program, [next(words) for _ in range(jobs)])


def check_lines(place, program, words):
    """Have jobs say these words, and check that all lines of each, and no others, have its id."""
    ids = place.enqueue_many([("speak", word) for word in words])
    for word, id_ in zip(words, ids, strict=True):
        place.result(id_)
        wanted = {f"{word} {how}" for how in ("printed", "complained", "echoed", "unended")}
        until(lambda: set(program.printed(id_)) == wanted, lambda: program.printed(id_))  # noqa: B023


def test_lines_of_on_start_belong_to_no_job(place):
    """Also where a job waits for the child, and they are more than one read of its pipe."""
    program = place.start(max_jobs=1, processes=2, on_start="jobs.shout_at_start")
    ids = place.enqueue_many([("speak", f"word{n}") for n in range(12)])
    for id_ in ids:
        place.result(id_)
    until(lambda: len([line for line in program.printed() if line.startswith("start ")]) >= 12 * 100, program.text)
    assert not [line for id_ in ids for line in program.printed(id_) if line.startswith("start ")]


@pytest.mark.proof
@BOTH
@pytest.mark.parametrize("before", [0, 3])
def test_job_that_makes_its_output_non_blocking_costs_no_other_its_lines(place, isolation, before):
    """The flag is the slot's pipe's and outlives job and child: the next ones print more than it holds all the same."""
    program = place.start(isolation=isolation)
    for unblock in [False] * before + [True] * 4:
        place.result(place.enqueue("unblock_output", unblock))
    for id_ in [place.enqueue("shout", 200) for _ in range(4)]:
        assert place.result(id_) == 200
        until(lambda: len(program.printed(id_)) == 200, lambda: len(program.printed(id_)))  # noqa: B023


def test_a_burst_of_short_lines_is_in_the_log_while_its_job_runs(place):
    """All of them, though they take several reads and nothing follows them."""
    program = place.start()
    id_ = place.enqueue("burst", 1500)
    until(lambda: len(program.printed(id_)) == 1500, lambda: len(program.printed(id_)))
    assert place.status(id_) == "started"
    place.cancel(id_)


def test_endless_output_of_a_background_program_does_not_hold_up_its_job(place):
    """What a job leaves behind and prints without end delays neither its result nor the next job's."""
    place.start(isolation="process")
    for _ in range(2):
        assert place.result(place.enqueue("chatter_behind", place.path())) == "returned"
    place.result(place.enqueue("echo"))


# -- where it runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [{}, {"LD_BIND_NOW": ""}], ids=["ours", "the group's own"])
def test_what_the_loader_is_told_is_not_handed_on(place, own):
    """A fork server looks up its symbols at its start; programs that a job starts are as the group says."""
    place.start(environment=own)
    assert place.result(place.enqueue("environment", "LD_BIND_NOW")) == {"LD_BIND_NOW": own.get("LD_BIND_NOW")}


def test_same_interpreter_knows_no_fusiond_from_here(place):
    """`sys.path` of a child begins with the group's directory, and what the daemon runs from is not on it."""
    place.start()
    assert place.result(place.enqueue("interpreter"))["path0"] == str(place.app)


@few("isolation", ["fork", "process"])
@few("version", ["3.9", "3.13", "3.10", "3.12", "3.14", "3.15"], 2)
def test_other_interpreter(place, version, isolation):
    """A group runs under the application's own Python, where fusiond is not installed."""
    python = pythons().get(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    program = place.start(python=python, isolation=isolation, tasks={"clean_up": {"timeout": Timeout(0.2, 20)}})
    where = place.result(place.enqueue("interpreter"))
    assert (where["version"], where["fusiond"]) == ([int(part) for part in version.split(".")], False)
    assert place.error(place.enqueue("wrong"))["type"] == "ValueError"
    assert place.error(place.enqueue("add", 1))["code"] == "BAD_ARGUMENTS"
    assert place.error(place.enqueue("clean_up", place.path()))["code"] == "TIMEOUT"
    assert place.result(place.enqueue("once_killed", place.path())) == "second"
    id_ = place.enqueue("speak", "word")
    place.result(id_)
    until(lambda: "word echoed" in program.printed(id_))


OLD = next(iter(Path("/root/.pyenv/versions").glob("3.8.*/bin/python3.8")), None)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"python": "/no/such/python"}, "/no/such/python"),
        ({"user": "no-such-user"}, "no-such-user"),
        pytest.param({"python": str(OLD)}, "3.9", marks=pytest.mark.skipif(OLD is None, reason="no Python 3.8 here")),
    ],
)
def test_a_group_that_cannot_run_is_refused_in_one_sentence(place, keys, says):
    """The program names what is missing, or too old for the fork server, and ends as a wrong configuration does."""
    program = place.start(**keys, ready=False)
    assert program.wait() == 78
    assert says in program.text()
    assert "Traceback" not in program.text()


TIME_OUT = "import socket\n\nsocket.setdefaulttimeout(0.01)\n"
NO_DESCRIPTOR = """
def fail(_name):
    raise OSError

os.register_at_fork(after_in_child=lambda: setattr(os, "memfd_create", fail))
"""


@pytest.mark.parametrize("changed", [TIME_OUT, NO_DESCRIPTOR], ids=["a default time-out", "no descriptor"])
def test_a_child_that_has_waited_is_as_good_as_a_new_one(place, changed):
    """What a module of the tasks sets for sockets is not its own one's, nor does it end for want of something."""
    with (place.app / "jobs.py").open("a") as file:
        file.write(changed)
    program = place.start(isolation="fork", processes=1)
    first = program.until_children(2)  # these were asked whether they serve, and wait on without more
    assert place.result(place.enqueue("echo"))
    children = program.until_children(1, other_than=first)
    time.sleep(0.3)  # what must not happen in it: that a child takes its patience for the end
    assert program.until_children(1, other_than=first) == children
    large = "x" * 900_000
    assert place.result(place.enqueue("echo", large))["args"] == [large]
    assert [place.result(place.enqueue("echo", n))["args"] for n in range(3)] == [[0], [1], [2]]
