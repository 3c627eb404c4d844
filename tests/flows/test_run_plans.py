"""Runs of flows over a real Redis: the jobs are claimed and settled by the test, in the order that it wants."""

from __future__ import annotations

import json
from random import Random

import pytest

from fusiond.broker.call import as_is, plain, scripted
from fusiond.broker.records import Outcome
from fusiond.errors import BrokerUnavailable, JobCanceled, JobFailed, JobNotFound
from fusiond.flows.lost_jobs import end_lost_jobs
from fusiond.flows.run_control import RunControl, RunRef, deliver_effects
from fusiond.flows.shapes import FlowShape, Shape, StepShape
from fusiond.inspecting.flow_times import StepTimes, step_items, step_times
from fusiond.job import JobStatus, new_token
from tests.support.queue_state import findings

HOUR = 3_600_000
REF = RunRef("q", "run")


def step(task: str, *after: str, queue: str = "jobs", **more) -> StepShape:
    return StepShape(task=task, queue=queue, after=after, need=more.pop("need", len(after)), **more)


def flow_step(flow: str, *after: str, **more) -> StepShape:
    return StepShape(flow=flow, after=after, need=len(after), **more)


class Stage:
    """A queue of runs, a queue of jobs, and what the jobs return."""

    def __init__(self, run, broker, redis) -> None:
        self.run, self.broker, self.redis = run, broker, redis
        self.control = RunControl(broker)
        #: (task, kwargs) of each job that ran, in order
        self.ran: list[tuple[str, dict]] = []

    def start(self, *, others=None, ref=REF, inputs=None, callbacks=None, **steps) -> None:
        flows = {
            "main": FlowShape(steps, "q", callbacks=callbacks or {}),
            **{name: FlowShape(each, "q") for name, each in (others or {}).items()},
        }
        self.run(self.broker.declare(["q", "jobs"]))
        self.run(self.control.start(ref, Shape("main", flows), inputs or {}))

    def claim(self, want: int = 9999, queue: str = "jobs"):
        nonce = new_token()
        asked = self.broker.claim(queue, want, dispatcher="d", nonce=nonce, lease_ms=HOUR, max_rescues=2)
        return nonce, self.run(asked).jobs

    def end(self, nonce: str, job, value, queue: str = "jobs") -> None:
        """A value is returned, an exception raised."""
        task, kwargs = job.task.decode(), json.loads(job.args)[1]
        self.ran.append((task, kwargs))
        kind, said = "finished", value
        if isinstance(value, Exception):
            kind, said = "failed", {"code": "EXCEPTION", "type": "", "message": str(value)}
        payload = json.dumps(said)
        self.run(self.broker.settle(queue, [Outcome(job.id, nonce, kind, HOUR, 0, payload.encode())]))

    def work(self, returns=None, *, want: int = 9999, queue: str = "jobs") -> list[str]:
        """Claim, run and settle what waits, once; the ids."""
        nonce, jobs = self.claim(want, queue)
        for job in jobs:
            found = (returns or {}).get(job.task.decode())
            self.end(nonce, job, found(**json.loads(job.args)[1]) if callable(found) else found, queue)
        self.run(deliver_effects(self.broker, queue))
        return [job.id.decode() for job in jobs]

    def work_all(self, returns=None) -> None:
        while self.work(returns):
            pass

    def view(self, ref=REF):
        return self.run(self.control.view(ref))

    def times(self, step: str) -> StepTimes:
        return self.run(step_times(self.broker, self.view()))[step]

    def items(self, step: str) -> list[tuple[str, str]]:
        found = self.run(step_items(self.broker, self.view(), step, 0, 99))
        first = sorted(found[:-1], key=lambda item: item.n)
        return [(item.name.partition("/")[2], item.status) for item in [*first, *found[-1:]]]

    def statuses(self, ref=REF) -> dict[str, str]:
        return {name: each.status for name, each in self.view(ref).run.state.steps.items()}


@pytest.fixture
def stage(run, broker, redis):
    return Stage(run, broker, redis)


def test_a_flow_runs_as_its_graph_says(stage, broker, run):
    """Inputs and results come to the steps; the result is that of the last ones."""
    stage.start(
        inputs={"day": "2026-11-23"},
        extract=step("extract", inputs={"day": "input.day"}),
        load=step("load", "extract", for_each="extract.files", item="file", kwargs={"n": 1}),
        check=step("check", "extract", inputs={"rows": "extract.rows"}),
        report=step("report", "load", "check", inputs={"loaded": "load"}),
    )
    assert stage.work({"extract": {"files": ["a", "b"], "rows": 7}}) == ["run.extract"]
    assert stage.work({"load": lambda file, n: file * 2 * n, "check": 1}) == ["run.load.0", "run.load.1", "run.check"]
    assert stage.work({"report": [{}, [], 12345678901234567890]}) == ["run.report"]
    assert stage.ran == [
        ("extract", {"day": "2026-11-23"}),
        ("load", {"n": 1, "file": "a"}),
        ("load", {"n": 1, "file": "b"}),
        ("check", {"rows": 7}),
        ("report", {"loaded": ["aa", "bb"]}),
    ]
    assert stage.view().status == "finished"
    assert run(stage.control.result(REF, 0)) == {"report": [{}, [], 12345678901234567890]}
    assert [*run(findings(broker, "q")), *run(findings(broker, "jobs"))] == []


def test_a_repeated_start_and_a_repeated_advance_begin_nothing_twice(stage, run, broker, redis):
    """The ids of jobs follow from the run; a run that is there is not started again."""
    for _ in range(2):
        stage.start(one=step("one"), two=step("two", "one"))
    redis("ZADD", "test:{q}:advance", 0, "run")
    run(deliver_effects(broker, "q", advance=True))
    assert stage.work() == ["run.one"]
    redis("ZADD", "test:{q}:advance", 0, "run")
    run(deliver_effects(broker, "q", advance=True))
    assert stage.work() == ["run.two"]
    assert stage.work() == []
    assert stage.view().status == "finished"


def test_a_failed_step_fails_the_run_and_a_requeue_runs_it_again(stage, run):
    """Of a step with many jobs only those that failed run again."""
    stage.start(
        one=step("one"),
        many=step("many", "one", for_each="one", item="n"),
        last=step("last", "many", inputs={"all": "many"}),
        tidy=step("tidy", "last", when="always"),
    )

    def many(n):
        return ValueError("odd") if n % 2 else n

    stage.work_all({"one": [1, 2, 3], "many": many})
    assert stage.statuses() == {"one": "finished", "many": "failed", "last": "skipped", "tidy": "finished"}
    assert stage.items("many") == [("run.many.0", "failed"), ("run.many.2", "failed"), ("run.many.1", "finished")]
    assert stage.times("many").slowest_ms is not None
    with pytest.raises(JobFailed, match=r"step many: EXCEPTION: odd"):
        run(stage.control.result(REF, 0))
    assert run(stage.control.requeue(REF))
    assert not run(stage.control.requeue(REF))
    assert stage.times("many") == StepTimes()
    assert stage.items("many")[:2] == [("run.many.0.r2", "queued"), ("run.many.2.r2", "queued")]
    stage.ran.clear()
    assert stage.work({"many": lambda n: -n}) == ["run.many.0.r2", "run.many.2.r2"]
    stage.work_all()
    assert stage.ran[2] == ("last", {"all": [-1, 2, -3]})
    assert stage.view().status == "finished"


def test_a_cancel_cancels_what_waits_and_begins_nothing_more(stage, run, broker):
    """The run ends when what it had begun has ended."""
    stage.start(one=step("one"), two=step("two"), three=step("three", "one", "two"))
    nonce, [job] = stage.claim(1)
    assert run(stage.control.cancel(REF))
    run(deliver_effects(broker, "jobs"))
    assert stage.view().status == "canceling"
    assert stage.statuses() == {"one": "running", "two": "canceled", "three": "canceled"}
    run(broker.settle("jobs", [Outcome(job.id, nonce, "canceled", HOUR, 0, b'{"code":"CANCELED"}')]))
    run(deliver_effects(broker, "jobs"))
    assert stage.view().status == "canceled"
    assert not run(stage.control.cancel(REF))
    with pytest.raises(JobCanceled):
        run(stage.control.result(REF, 0))


def test_a_suspended_run_begins_nothing_until_it_is_resumed(stage, run):
    """What runs ends meanwhile; a run that is a step is suspended with it."""
    others = {"sub": {"a": step("a"), "b": step("b", "a")}}
    stage.start(others=others, one=step("one"), two=step("two", "one"), sub=flow_step("sub"))
    run(stage.control.suspend(REF, on=True))
    assert sorted(stage.work()) == ["run.one", "run.sub.a"]
    assert stage.work() == []
    assert stage.view().status == "suspended"
    run(stage.control.suspend(REF, on=False))
    assert sorted(stage.work()) == ["run.sub.b", "run.two"]
    assert stage.view().status == "finished"


def test_a_step_can_be_a_flow_for_each_item_too(stage, run):
    """Its inputs are the step's arguments, its result that of its last steps; a requeue goes into it."""
    sub = {"a": step("a", inputs={"x": "input.x"}), "b": step("b", "a", inputs={"y": "a"})}
    stage.start(
        others={"sub": sub},
        inputs={"list": [1, 2]},
        each=flow_step("sub", for_each="input.list", item="x"),
        last=step("last", "each", inputs={"all": "each"}),
    )
    stage.work_all({"a": lambda x: x * 10, "b": lambda y: ValueError("no") if y == 20 else y + 1})
    assert stage.statuses() == {"each": "failed", "last": "skipped"}
    assert stage.statuses(RunRef("q", "run.each.1")) == {"a": "finished", "b": "failed"}
    with pytest.raises(JobFailed, match="step each: b: EXCEPTION: no"):
        run(stage.control.result(REF, 0))
    with pytest.raises(JobNotFound, match=r"is a step of q/run"):
        run(stage.control.requeue(RunRef("q", "run.each.1")))
    run(stage.control.requeue(REF))
    stage.ran.clear()
    stage.work_all({"b": lambda y: y + 1, "last": "done"})
    assert stage.ran == [("b", {"y": 20}), ("last", {"all": [{"b": 11}, {"b": 21}]})]
    assert stage.view().status == "finished"


def test_what_cannot_begin_fails_with_its_reason(stage, run):
    """A list that is none, a field that is missing, arguments that are too large."""
    stage.start(
        one=step("one"),
        list=step("t", "one", for_each="one.name"),
        field=step("t", "one", inputs={"x": "one.nmae"}),
        large=step("t", "one", inputs={"x": "one.big", "y": "one.big"}),
    )
    stage.work_all({"one": {"name": "n", "big": "x" * 600_000}})
    assert stage.view().reasons == {
        "list": "for_each: one.name is not a list",
        "field": "one.nmae: there is no 'nmae' in the object",
        "large": stage.view().reasons["large"],
    }
    assert "at most 1048576 are allowed" in stage.view().reasons["large"]


def test_an_end_that_is_told_late_or_twice_changes_nothing(stage, run, broker, redis):
    """A job that an operator requeues after its run has gone on is none of its steps any more."""
    stage.start(one=step("one"), two=step("two", "one"))
    stage.work_all({"one": ValueError("no")})
    assert stage.view().status == "failed"
    assert run(broker.requeue("jobs", ["run.one"])) == [1]
    stage.work({"one": 1})
    assert stage.view().status == "failed"
    run(stage.control.requeue(REF))
    assert stage.work({"one": 2}) == ["run.one.r2"]
    assert stage.work() == ["run.two.r2"]
    assert stage.view().status == "finished"


def test_many_items_take_linear_time(stage, run, broker, redis):
    """No end of a job reads or writes the others."""

    def commands(count: int) -> int:
        ref = RunRef("q", f"run{count}")
        stage.start(ref=ref, inputs={"list": [*range(count)]}, many=step("t", for_each="input.list", keep=False))
        nonce, jobs = stage.claim(count)
        run(broker.settle("jobs", [Outcome(job.id, nonce, "finished", HOUR, 0, b"1") for job in jobs]))
        redis("CONFIG", "RESETSTAT")
        run(deliver_effects(broker, "jobs"))
        stats = redis("INFO", "commandstats").decode()
        assert stage.view(ref).status == "finished"
        return sum(
            int(line.partition("calls=")[2].partition(",")[0]) for line in stats.splitlines() if "calls=" in line
        )

    few, many = commands(200), commands(600)
    assert many - few < 400 * 6


def test_a_run_that_ended_is_dropped_after_its_time(stage, run, broker, redis):
    """Both of its keys expire, and it leaves the list."""
    stage.start(one=step("one"))
    stage.work()
    assert 86_000_000 < redis("PTTL", "test:{q}:flow:run") <= 86_400_000
    assert redis("PTTL", "test:{q}:flow:run/ends") > 0
    assert [view.ref.id for view in run(stage.control.runs(["q"], 9))] == ["run"]
    assert run(broker.status("jobs", "run.one")) == JobStatus.FINISHED


def test_a_run_whose_jobs_are_lost_ends(stage, run, broker, redis):
    """Deleted, or evicted; and neither what is on its way, nor what was moved, nor what its queue still has."""
    stage.start(
        others={"sub": {"a": step("t")}},
        gone=step("t"),
        told=step("t"),
        moved=step("t", queue="from"),
        moves=step("t", queue="here"),
        stays=step("t"),
        sub=flow_step("sub"),
        after=step("t", "gone", when="always"),
    )
    run(broker.declare(["from", "other", "here"]))
    run(broker.move("from", "other"))
    # as a move that was killed before it had delivered what it took
    run(scripted("move", broker.keys.root("here"), ("other", 9, 0, 0), as_is))
    nonce, _ = stage.claim()
    run(broker.settle("jobs", [Outcome("run.told", nonce, "finished", HOUR, 0, b"1")]))
    redis("DEL", "test:{jobs}:job:run.told", "test:{jobs}:job:run.gone", "test:{q}:flow:run.sub")
    run(end_lost_jobs(broker, "q", Random(1)))
    # what is in effects, an end or a job that moves, keeps all others waiting
    assert set(stage.statuses().values()) == {"running", "waiting"}
    run(deliver_effects(broker, "jobs"))
    run(end_lost_jobs(broker, "q", Random(1)))
    assert set(stage.statuses().values()) == {"running", "waiting", "finished"}
    run(deliver_effects(broker, "here"))
    run(end_lost_jobs(broker, "q", Random(1)))
    # the job of `after` is in effects
    run(stage.control.advancer.advance_all("q"))
    run(end_lost_jobs(broker, "q", Random(1)))
    ended = {"gone": "failed", "told": "finished", "sub": "failed"}
    assert stage.statuses() == ended | dict.fromkeys(("moved", "moves", "stays", "after"), "running")
    assert stage.view().reasons == {
        "gone": "LOST: job jobs/run.gone is gone; was its key deleted or evicted?",
        "sub": "LOST: flow run q/run.sub is gone; was its key deleted or evicted?",
    }
    run(stage.control.cancel(REF))
    redis("DEL", "test:{jobs}:job:run.stays")
    run(end_lost_jobs(broker, "q", Random(1)))
    for moved in ("run.moved", "run.moves"):
        run(broker.cancel("other", moved))
    run(deliver_effects(broker, "other"))
    redis("ZADD", "test:{q}:advance", 0, "run")
    run(deliver_effects(broker, "q", advance=True))
    run(deliver_effects(broker, "jobs"))
    assert stage.view().status == "canceled"
    assert stage.statuses()["stays"] == "canceled"


def test_each_end_calls_back_once(stage, run, redis):
    """The task gets what the run was and what became of it; a requeue makes a new end, a cancel calls nothing."""
    called = {"queue": "jobs", "task": "note", "priority": 1}
    callbacks = {"on_failure": called, "on_success": called | {"url": "https://h/x"}}
    stage.start(inputs={"list": [[]]}, callbacks=callbacks, one=step("one", for_each="input.list"))
    stage.work({"one": ValueError("no")})
    assert len(stage.work()) == 1
    for _ in range(2):
        redis("ZADD", "test:{q}:advance", 0, "run")
        run(deliver_effects(stage.broker, "q", advance=True))
        assert stage.work() == []
    event = stage.ran[-1][1]["event"]
    assert event["created_at"] > 1e9
    assert {name: event[name] for name in event if name != "created_at"} == {
        "id": "run", "queue": "q", "flow": "main", "status": "failed", "steps": {"one": "failed"},
        "inputs": {"list": [[]]}, "result": None, "truncated": False,
        "error": {"code": "FLOW_FAILED", "type": "", "message": "step one: EXCEPTION: no", "traceback": ""},
    }  # fmt: skip
    run(stage.control.requeue(REF))
    stage.work({"one": "x" * 70_000})
    assert len(stage.work()) == 1
    task, kwargs = stage.ran[-1]
    assert (task, kwargs["url"], kwargs["allow_private"]) == ("note", "https://h/x", True)
    event = kwargs["body"]["event"]
    assert (event["status"], event["result"], event["error"], event["truncated"]) == ("finished", None, None, True)


def test_a_start_is_confirmed_as_the_caller_wants(stage, run, broker):
    """A repeat, of which nobody knows whether the first call was confirmed, writes once more before it waits."""
    shape = Shape("main", {"main": FlowShape({"one": step("one")}, "q")})

    def confirm(reply):
        return plain(lambda _: reply, "PING")

    with pytest.raises(BrokerUnavailable, match="not confirmed"):
        run(stage.control.start(REF, shape, {}, confirm(0)))
    before = run(broker.run_record("q", "run")).version
    assert run(stage.control.start(REF, shape, {}, confirm(1))) == REF
    assert run(broker.run_record("q", "run")).version > before + 1
    assert stage.work() == ["run.one"]
