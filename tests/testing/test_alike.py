"""A recorder answers as a real Redis does: the same calls give the same jobs, statuses and errors."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fusiond import Client
from fusiond.broker.call import as_is, plain
from fusiond.config.accepted.snapshot import Snapshot
from fusiond.errors import FusionError
from fusiond.flows.run_control import deliver_effects
from fusiond.job import JobStatus
from fusiond.schedule import publishing
from fusiond.testing.file_under_test import read
from fusiond.testing.recorder import Recorder
from fusiond.testing.redirection import redirected
from tests.support.fusiond_desk import Desk

FILE = """
version: 1
defaults: {tasks: {retry: none}}
queues: {small: {max_length: 2}, other: {}}
tasks:
  plain: {run: tests.testing.test_alike.work}
  small: {run: tests.testing.test_alike.work, queue: small}
  skip: {run: tests.testing.test_alike.work, unique: {by: [args.0], until: ended}}
  started: {run: tests.testing.test_alike.work, unique: {by: [args.0], until: started}}
  timed: {run: tests.testing.test_alike.work, unique: {by: [args.0], for: 10m, on_conflict: refuse}}
  refuse: {run: tests.testing.test_alike.work, unique: {by: [args.0], until: ended, on_conflict: refuse}}
  replace:
    run: tests.testing.test_alike.work
    queue: small
    unique: {by: [args.0], until: ended, on_conflict: replace, max_wait: 5m}
  calls: {run: tests.testing.test_alike.work, queue: other, on_success: {task: called}, on_failure: {task: once}}
  called: {run: tests.testing.test_alike.work}
  once: {run: tests.testing.test_alike.work, unique: {until: ended}}
flows:
  fan:
    steps:
      first: {task: plain, inputs: {number: input.number}}
      each: {task: small, for_each: input.items, as: item}
      last: {task: refuse, args: [1], after: [first, each], inputs: {results: each}}
      inner: {flow: inner, after: [first]}
  inner: {steps: {only: {task: plain}}, on_failure: {task: called}}
workers: {main: {queues: [default, small]}}
"""
TASKS = ["plain", "small", "skip", "started", "timed", "refuse", "replace", "calls"]
QUEUES = ["default", "small", "other"]
STATUSES = ["queued", "scheduled", "deferred", "finished", "failed", "canceled"]
FAILS = []


def work(*_args, **_kwargs):
    if FAILS:
        raise ValueError("no stock")
    return "done"


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["a", "b"]),
        "id": st.sampled_from(["one", "two", "no id"]),
        "delay": st.sampled_from([60, "soon"]),
        "queue": st.sampled_from(["small", "nowhere"]),
        "priority": st.sampled_from(["high", 0, "none"]),
        "retry": st.sampled_from(["standard", "patient"]),
        "after": st.lists(st.integers(0, 5), max_size=3),
        "join": st.sampled_from(["any", 1, 2, "some"]),
        "on_parent_failure": st.sampled_from(["run", "fail"]),
        "on_success": st.sampled_from([{"task": "called"}, {"task": "unknown"}, {}]),
    },
)
ARGUMENTS = st.sampled_from([[], [1], [2], ["x"], [{1}], [[1]]])
CALLS = st.one_of(
    st.tuples(st.just("enqueue"), st.sampled_from([*TASKS, "nothing"]), ARGUMENTS, OPTIONS),
    st.tuples(st.just("enqueue"), st.sampled_from(TASKS), st.just([1]), st.just({})),
    st.tuples(st.just("many"), st.lists(st.tuples(st.sampled_from(TASKS), ARGUMENTS), max_size=4), st.just({})),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
    st.tuples(st.just("flow"), st.sampled_from([[], [1, 2], 3])),
    st.tuples(st.just("cancel_flow")),
    st.tuples(st.just("end"), st.sampled_from(QUEUES), st.booleans()),
    st.tuples(st.just("end"), st.sampled_from(QUEUES), st.booleans()),
)


def call(task, *args, **options):
    return "enqueue", task, list(args), options


def end(queue="default", *, fails=False):
    return "end", queue, fails


#: calls that show each rule, whatever Hypothesis draws
SHOWN = [
    [call("small"), call("small"), call("small"), call("small", after=[0])],
    [call("replace", 1), call("replace", 2), call("replace", 1), end("small"), end("small")],
    [call("replace", 1, delay=60), call("replace", 1), end("small"), call("replace", 1)],
    [call("started", 1), call("started", 1), end(), call("started", 1)],
    [call("timed", 1), end(), call("timed", 1), call("timed", 2)],
    [call("skip", 1), call("skip", 1), end(fails=True), call("skip", 1)],
    [call("plain"), call("small"), call("plain", after=[0, 1], join="any"), end(fails=True), end("small"), end()],
    [
        call("plain"),
        call("plain", after=[0]),
        call("plain", after=[1], on_parent_failure="run"),
        end(fails=True),
        end(),
    ],
    [call("plain", after=[5]), call("plain", after=[0]), call("plain", after=[5], on_parent_failure="run")],
    [call("calls"), end("other"), call("calls"), end("other", fails=True), call("calls"), end("other", fails=True)],
    [call("plain", key="a"), call("plain", key="a"), call("plain", 1, key="a"), end(), call("plain", key="a")],
    [call("refuse", 1, delay=60), ("flow", [1, 2]), end(), end(), end("small"), end("small"), end()],
    [("flow", [1]), end(), end(fails=True), end("small"), end(), ("cancel_flow",)],
    [("flow", [1]), ("cancel_flow",), ("flow", 3), end()],
]


def shown(test):
    """The test with these calls as examples."""
    for calls in SHOWN:
        test = example(calls=calls)(test)
    return test


class Side:
    """One client, and the jobs that it has been given."""

    def __init__(self, client):
        self.client, self.jobs, self.names, self.runs = client, [], {}, []

    def do(self, call):
        """What the call gives, in words that are the same for both."""
        try:
            return getattr(self, call[0])(*call[1:])
        except FusionError as error:
            return type(error).__name__, self.plain(str(error))

    def enqueue(self, task, args, options):
        after = options.get("after")
        jobs = {} if after is None else {"after": [self.nth(n) for n in after]}
        return self.noted(self.client.options(**{**options, **jobs}).enqueue(task, *args))

    def many(self, calls, options):
        return [self.noted(job) for job in self.client.options(**options).enqueue_many(calls)]

    def cancel(self, n):
        return self.client.job(self.nth(n)).cancel()

    def flow(self, items):
        self.runs.append(self.client.run_flow("fan", number=1, items=items))

    def cancel_flow(self):
        return [run.cancel() for run in self.runs]

    def flows(self):
        return [(run.status(), run.steps()) for run in self.runs]

    def nth(self, n):
        return self.jobs[n].name if n < len(self.jobs) else "default/never-was"

    def noted(self, job):
        if job.name not in self.names:
            self.names[job.name] = f"<{len(self.names)}>"
            self.jobs.append(job)
        return self.names[job.name], job.queue, job.served, job.existing

    def plain(self, text):
        for name, number in self.names.items():
            text = text.replace(name, number).replace(name.partition("/")[2], number)
        return re.sub(r"\b[\w:]{22}\b", "<an id>", text)

    def shown(self, task, args, error):
        """A job, but for the event of a callback, which has times in it."""
        said = json.loads(error) if error else {}
        body = None if task in ("called", "once") else json.loads(args)
        return (
            task,
            body,
            said.get("code"),
            "" if said.get("code") == "REPLACED" else self.plain(said.get("message", "")),
        )


class Real(Side):
    """A client of a real Redis, and by hand what a worker does."""

    def __init__(self, config, broker_settings):
        super().__init__(Client(broker_settings.url, namespace=broker_settings.namespace))
        self.desk = Desk(broker_settings, Path("/"))
        verbs, run = self.desk.verbs, self.desk.run
        run(plain(as_is, "FLUSHALL"))
        run(verbs.declare(config.queues))
        for call in publishing.queue_settings(verbs, config):
            run(call)
        run(publishing.catalogue(verbs, Snapshot(1, "hash", config, Path()), "test"))
        self.desk.serve("default", "small")

    def end(self, queue, fails):
        try:
            self.desk.fail(queue) if fails else self.desk.settle("finished", queue, result="done")
        except ValueError:
            return "nothing is ready"
        return None

    def stands(self):
        verbs, run = self.desk.verbs, self.desk.run
        for queue in QUEUES * 3:
            run(deliver_effects(verbs, queue, advance=True))
        return {
            (queue, status): sorted(
                (self.shown(job.task, job.args, job.error) for job in run(verbs.jobs(queue, JobStatus(status)))),
                key=str,
            )
            for queue in QUEUES
            for status in STATUSES
        }

    def close(self):
        self.client.close()
        self.desk.connection.close()


class Recorded(Side):
    """The same client of a recorder."""

    def __init__(self, recorder):
        super().__init__(Client())
        self.recorder = recorder

    def end(self, queue, fails):
        job = next((job for job in self.recorder._memory.ready() if job.queue == queue), None)
        if job is None:
            return "nothing is ready"
        FAILS[:] = [True] * fails
        self.recorder._attempt(job)
        return None

    def stands(self):
        self.recorder._advance_flows()
        found = {(queue, status): [] for queue in QUEUES for status in STATUSES}
        for job in self.recorder:
            found[job.queue, str(job.status)].append(self.shown(job.task, job.new.args, job.raw_error))
        return {where: sorted(jobs, key=str) for where, jobs in found.items()}


@pytest.fixture(scope="module")
def configured(tmp_path_factory):
    """Makes the file's configuration; Hypothesis cannot print one, as it does with what a test is given."""
    file = tmp_path_factory.mktemp("alike") / "fusion.yaml"
    file.write_text(FILE)
    config = read(file)
    return lambda: config


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@shown
@given(calls=st.lists(CALLS, max_size=12))
def test_a_recorder_answers_as_redis_does(configured, broker_settings, calls):
    """Whatever is called: the same return values, the same errors in the same words, the same jobs in each state."""
    real, recorder = Real(configured(), broker_settings), Recorder(configured())
    try:
        with_redis = [(real.do(call), real.stands(), real.flows()) for call in calls]
        with redirected(recorder):
            side = Recorded(recorder)
            recorded_alike = [(side.do(call), side.stands(), side.flows()) for call in calls]
        for number, call in enumerate(calls):
            assert recorded_alike[number] == with_redis[number], call
    finally:
        real.close()
