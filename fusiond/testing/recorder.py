"""
Record what is enqueued, in place of a broker, and run it in the process of the test if that is asked.

    with recorded("fusion.yaml") as jobs:
        client.post("/orders")
        job = jobs.assert_enqueued("charge", 7)
        assert job.options == {"delay": "5m"}
        jobs.run(scheduled=True)

1. redirect  all clients of this process to the recorder; it checks each call by the client's own code
2. record    each job; none runs while it is enqueued
3. run       what is ready, and what that enqueues, in the order in which one worker would
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, overload

from fusiond.broker.call import Call, Plan, SendAhead
from fusiond.broker.layout import LayoutCheck
from fusiond.broker.redis.protocol import AHEAD
from fusiond.callbacks import WEBHOOK_TASK
from fusiond.client.asynchronous import AsyncClient
from fusiond.client.base import BaseClient
from fusiond.config.model import Config
from fusiond.enqueue_options import Duration, Options, dotted_path, duration, encoded
from fusiond.errors import FusionError, ResultTimeout
from fusiond.flows.run_control import RunControl, RunRef, deliver_effects
from fusiond.job import JobStatus
from fusiond.producer.flow_calls import FlowStarter
from fusiond.producer.new_jobs import JobMaker, MadeJob, TaskCall
from fusiond.producer.plans import Producer
from fusiond.testing.file_under_test import read
from fusiond.testing.inline import Inline, raise_failure
from fusiond.testing.memory_verbs import MemoryVerbs
from fusiond.testing.recorded_jobs import RecordedJob
from fusiond.testing.redirection import redirected


class NotRecorded(FusionError):
    """A call that only a Redis can answer; `embedded` of `fusiond.testing` starts one."""


class RecordedRun(NamedTuple):
    """A run of a flow that was started."""

    flow: str
    inputs: dict[str, Any]
    #: `queue/id`, its full name
    name: str
    status: str


class Recorder(Sequence[RecordedJob]):
    """The jobs that were enqueued since it began, in their order; also those that have ended."""

    #: no Redis is there: a program that this process starts gets an error and reaches no real queue
    url = "unix:///dev/null/jobs-are-recorded-by-fusiond.testing"

    def __init__(self, config: Config) -> None:
        self._verbs = MemoryVerbs(config, self._run_one)
        self._memory, self._inline = self._verbs.memory, Inline(config, self._verbs.memory)
        producer = _RecordedProducer(self._verbs)
        flows = FlowStarter(self._verbs, producer.store)
        parts = {"_producer": producer, "_flows": flows, "_layout": LayoutCheck(None)}
        self._parts = {**parts, "_connection": _Connection(self)}
        self._async_parts = {**parts, "_connection": _AsyncConnection(self)}

    def parts(self, client: BaseClient) -> Mapping[str, Any]:
        """What a client uses in place of its own Redis."""
        return self._async_parts if isinstance(client, AsyncClient) else self._parts

    # -- look ----------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._memory.jobs)

    @overload
    def __getitem__(self, index: int) -> RecordedJob: ...
    @overload
    def __getitem__(self, index: slice) -> list[RecordedJob]: ...
    def __getitem__(self, index: int | slice) -> RecordedJob | list[RecordedJob]:
        return list(self._memory.jobs.values())[index]

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"

    @property
    def waiting(self) -> list[RecordedJob]:
        """Those that have not ended."""
        return [job for job in self if not job.status.ended]

    @property
    def runs(self) -> list[RecordedRun]:
        """The runs of flows that were started, without those that are steps of others."""
        views = [self.answer(self._control.view(RunRef(*name))) for name in self._verbs.flow_runs.records]
        tops = [view for view in views if view.run.record.step_of is None]
        return [RecordedRun(view.flow, view.inputs, view.ref.name, view.status) for view in tops]

    def matching(self, task: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> list[RecordedJob]:
        """The jobs of this task, or of this function, with these arguments; without arguments: of any call."""
        found = [job for job in self if job.task == task or self._runs(job, task)]
        if not args and not kwargs:
            return found
        wanted = encoded(str(task), args, kwargs)
        return [job for job in found if _same(job.new.args, wanted)]

    def assert_enqueued(self, task: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> RecordedJob:
        """
        Exactly one job of this task was enqueued with these arguments; returns it.

        Arguments are compared as JSON, so a tuple equals a list. Without arguments, any call of the task counts.
        """
        found = self.matching(task, *args, **kwargs)
        if len(found) != 1:
            call = _call(task, args, kwargs)
            raise AssertionError(f"{call} was enqueued {len(found)} times, not once; {self._all()}")
        return found[0]

    def assert_not_enqueued(self, task: str | Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any) -> None:
        """No such job was enqueued, as `assert_enqueued` reads the arguments; without a task: none at all."""
        found = self[:] if task is None else self.matching(task, *args, **kwargs)
        if found:
            what = "a job" if task is None else _call(task, args, kwargs)
            raise AssertionError(f"{what} was enqueued; {self._all()}")

    def _all(self) -> str:
        return "recorded are:" + "".join(f"\n  {job!r}" for job in self) if len(self) else "nothing is recorded"

    def _runs(self, job: RecordedJob, function: str | Callable[..., Any]) -> bool:
        """Whether the job's task runs this function."""
        return not isinstance(function, str) and self._verbs.function_of(job.task) == dotted_path(function)

    # -- run -----------------------------------------------------------------------------------------------------------

    def run(self, task: str | None = None, *, scheduled: bool = False, raises: bool = True) -> list[RecordedJob]:
        """
        Run the jobs that are ready, and those that are enqueued meanwhile; returns the jobs that ran, in order.

        A job that calls a webhook at the end of another one runs only if its task is named.

        Args:
            task: only jobs of this task.
            scheduled: also those that wait for a time, retries too: the recorder's clock goes forward to it.
            raises: raise the exception of the first job that fails for good. A job that is tried again raises nothing.
        """
        done: list[RecordedJob] = []
        while batch := self._next(task, scheduled=scheduled):
            for job in batch:
                if job.status is JobStatus.QUEUED:
                    self._attempt(job)
                    done.append(job)
                if raises and job.status is JobStatus.FAILED:
                    raise_failure(job)
        return done

    def forward(self, time: Duration) -> None:
        """Put the recorder's clock forward: seconds, `5m` or a timedelta. What is due then runs at the next `run`."""
        self._memory.ahead += duration("time", time)

    def clear(self) -> None:
        """Forget all jobs, runs of flows and locks."""
        self._memory.clear()
        self._verbs.flow_runs.clear()

    def _next(self, task: str | None, *, scheduled: bool) -> list[RecordedJob]:
        """The next jobs to run, if there are any."""
        self._advance_flows()
        while True:
            wanted = [job for job in self._memory.ready() if _is_wanted(job, task)]
            waiting = [job.due_at for job in self._memory.open() if job.due and _is_wanted(job, task)]
            if wanted or not scheduled or not waiting:
                return wanted
            self._memory.ahead += max(0.0, min(waiting) - self._memory.now()) + 0.001

    def _attempt(self, job: RecordedJob) -> None:
        self._inline.attempt(job)
        self._advance_flows()

    def _run_one(self, job: RecordedJob) -> Any:
        """As `RecordedJob.run`."""
        if job.status not in (JobStatus.QUEUED, JobStatus.SCHEDULED):
            raise ValueError(f"{job!r} cannot run now")
        self._attempt(job)
        raise_failure(job)
        return job.result

    def _advance_flows(self) -> None:
        flows = self._verbs.flow_runs
        flows.tick()
        for queue in flows.queues_to_advance():
            self.answer(deliver_effects(self._verbs, queue, advance=True))

    @property
    def _control(self) -> RunControl:
        return RunControl(self._verbs)

    # -- answer --------------------------------------------------------------------------------------------------------

    def answer(self, what: Call[Any] | Plan[Any]) -> Any:
        """Run a Call, or a Plan to its end. Raises NotRecorded."""
        if isinstance(what, Call):
            return _answer(what)
        reply: Any = None
        ahead: list[list[Any]] = []
        try:
            while True:
                step = what.send(reply)
                if isinstance(step, (int, float)):
                    self._wait(what)
                    reply = None
                elif isinstance(step, SendAhead):
                    reply, ahead = _answered_ahead(ahead, step)
                else:
                    reply = [_answer(call) for call in step] if isinstance(step, list) else _answer(step)
        except StopIteration as end:
            return end.value

    def _wait(self, plan: Plan[Any]) -> None:
        """Somebody waits for the end of a job: what is ready runs, as it would meanwhile."""
        if not self.run(raises=False):
            try:
                plan.throw(ResultTimeout(f"nothing that is recorded can run now, and it has not ended; {self._all()}"))
            finally:
                plan.close()


class _RecordedProducer(Producer):
    def __init__(self, verbs: MemoryVerbs) -> None:
        super().__init__(verbs, "memory")
        self._maker = _NotingMaker(verbs)


class _NotingMaker(JobMaker):
    """Makes jobs, and notes the options that their calls have given."""

    _broker: MemoryVerbs

    def _make(self, options: Options, call: TaskCall) -> MadeJob:
        made = super()._make(options, call)
        self._broker.memory.options[made[1].id] = options.given()
        return made


class _Connection:
    """In place of a client's connection."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def run(self, what: Call[Any] | Plan[Any]) -> Any:
        """Answer from memory."""
        return self._recorder.answer(what)

    def close(self) -> None:
        """Nothing is open."""


class _AsyncConnection:
    """In place of an asynchronous client's connection."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def run(self, what: Call[Any] | Plan[Any]) -> Any:
        """Answer from memory."""
        return self._recorder.answer(what)

    async def close(self) -> None:
        """Nothing is open."""


@contextmanager
def recorded(file: str | os.PathLike[str] | Config | None = None) -> Iterator[Recorder]:
    """
    Record what all clients of this process enqueue, until the end of the block.

    Args:
        file: the fusion.yaml that says which tasks exist, or its Config. None: $FUSION_CONFIG, else ./fusion.yaml.

    Raises:
        ConfigError: the file cannot be used.
    """
    recorder = Recorder(file if isinstance(file, Config) else read(file))
    with redirected(recorder):
        yield recorder


def _answer(call: Call[Any]) -> Any:
    if call.words:
        _refuse(call)
    return call.parse(None)


def _answered_ahead(ahead: list[list[Any]], step: SendAhead) -> tuple[list[list[Any]], list[list[Any]]]:
    """Which replies come now, and which later: as with Redis, a few behind what was sent."""
    later = [*ahead, [_answer(call) for call in step.calls]] if step.calls else ahead
    now = max(0, len(later) - AHEAD) if step.calls else len(later)
    return later[:now], later[now:]


def _refuse(call: Call[Any]) -> NoReturn:
    what = call.script.name if call.script else str(call.words[0])
    raise NotRecorded(
        f"this call needs a Redis ({what}), and its jobs are recorded; test it with the fixture fusiond_daemon, or with"
        " fusiond.testing.embedded()"
    )


def _is_wanted(job: RecordedJob, task: str | None) -> bool:
    return job.task != WEBHOOK_TASK if task is None else job.task == task


def _same(body: bytes, wanted: bytes) -> bool:
    """Whether they are the same JSON, whatever the order of keywords."""
    one, other = (json.dumps(json.loads(raw), sort_keys=True) for raw in (body, wanted))
    return one == other


def _call(task: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    words = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    name = task if isinstance(task, str) else getattr(task, "__qualname__", repr(task))
    return f"{name}({', '.join(words) or '…'})"
