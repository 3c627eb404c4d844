"""
Run attempts of recorded jobs in the process of the test.

1. call    the function as a child of a worker group does: arguments through JSON, `pass_job`, a coroutine in a loop
2. judge   what that means by the task's retry policy, as a dispatcher does: finished, failed, or again later
3. note    the outcome in memory

There is no timeout, and nothing of the worker group: its user, directory, interpreter, environment and limits.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from types import CoroutineType
from typing import Any
from unittest import mock

from fusiond.broker.records import Outcome
from fusiond.config.model import Config, RetryPolicy, Task, WorkerGroup
from fusiond.errors import JobFailed
from fusiond.job import JobStatus
from fusiond.testing.memory_jobs import MemoryJobs, failure
from fusiond.testing.recorded_jobs import RecordedJob
from fusiond.worker.dispatcher.ends import verdicts
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.call_options import call_options
from fusiond.worker.pool.fork_server.launch import table
from fusiond.worker.runtime import payload, run, wire
from fusiond.worker.runtime.job_threads import call, described
from fusiond.worker.runtime.task import Tasks, load


class Inline:
    """Runs the jobs of one recorder."""

    def __init__(self, config: Config, memory: MemoryJobs) -> None:
        self._config, self._memory = config, memory
        self._tasks = Tasks(json.dumps(table(config, WorkerGroup("tests"))).encode())

    def attempt(self, job: RecordedJob) -> None:
        """Run one attempt, and note how it ended; `exception` of the job is what the function has raised."""
        self._memory.begin(job)
        message = wire.JobMessage(
            job.number, job.attempts, job.id.encode(), job.task.encode(), job.new.header(), job.new.args
        )
        with _job_id(job.id):
            kind, follows, document = self._outcome(job, message)
        if kind == wire.UNLOADED:
            # A worker would put it off for an hour, since another host may have the function.
            self._memory.end(job, JobStatus.FAILED, error=document)
        else:
            self._note(job, wire.OutcomeMessage(job.number, kind, follows, 0.0, document))

    def _outcome(self, job: RecordedJob, message: wire.JobMessage) -> tuple[int, int, bytes]:
        """Call the function: (kind, what follows a failure, result or error as JSON)."""
        row = self._tasks.rows.get(message.task)
        if row is None:
            unknown = payload.plain_error_json("TASK_NOT_FOUND", "", f"the file has no task {job.task!r}")
            return wire.FAILED, wire.GIVE_UP, unknown
        soft = row.soft
        try:
            args, kwargs, options = payload.arguments(message.args)
            soft = run.apply_header(message, row, options, kwargs, _ignore)
            # Loaded again each time: a test may have replaced the function by another one since.
            result = call(load(row.run), args, kwargs)
            if isinstance(result, CoroutineType):
                result = _awaited(result)
            return wire.FINISHED, wire.GIVE_UP, payload.result_json(result, keep=row.keeps_result)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever task code raises is an outcome
            if run.own_failure(error) is None:
                job.exception = error
            return described(error, self._tasks.row_of_call(row, message.header), soft)

    def _note(self, job: RecordedJob, message: wire.OutcomeMessage) -> None:
        """What a dispatcher would settle; a retry that it would make after a jitter comes without one."""
        header = job.new.header()
        attempt = Attempt(
            job.queue, job.id.encode(), "", job.task.encode(), job.new.args, header, job.attempts, 0, 0, 0, 0
        )
        task, policy = call_options(header).applied(*self._policy(job), self._config.retry_policies)
        without_jitter = replace(policy, jitter=0.0, jitter_share=0.0)
        outcome = verdicts.outcome_of_run(attempt, message, task, without_jitter, Random(0))  # noqa: S311 - there is no jitter
        if outcome.kind in ("retry", "snoozed"):
            self._put_off(job, outcome)
        elif outcome.kind == "finished":
            self._memory.end(job, JobStatus.FINISHED, result=outcome.payload)
        else:
            self._memory.end(job, JobStatus.FAILED, error=outcome.payload)

    def _policy(self, job: RecordedJob) -> tuple[Task, RetryPolicy]:
        task = self._config.tasks.get(job.task) or Task(job.task, "")
        return task, self._config.retry_policies[task.retry]

    def _put_off(self, job: RecordedJob, outcome: Outcome) -> None:
        """It is tried again, unless it was canceled meanwhile, or has been snoozed for too long."""
        if job.is_canceled:
            self._memory.end(job, JobStatus.CANCELED, error=failure("CANCELED", "it was canceled"))
            return
        if outcome.kind == "snoozed":
            job.attempts -= 1
            job.snoozed_since = job.snoozed_since or self._memory.now()
            longest_ms = int(str(outcome.extra).split(" ")[0])
            if self._memory.now() - job.snoozed_since >= longest_ms / 1000:
                self._memory.end(job, JobStatus.FAILED, error=outcome.payload)
                return
        else:
            job.snoozed_since = None
        self._memory.put_off(job, outcome.ms / 1000, outcome.payload)


def raise_failure(job: RecordedJob) -> None:
    """Raise what the last attempt of a job has raised; JobFailed for a failure without an exception."""
    if job.exception is not None:
        raise job.exception
    if job.raw_error is not None and job.status is JobStatus.FAILED:
        said: dict[str, str] = json.loads(job.raw_error)
        raise JobFailed(said["code"], said["type"], said["message"], said["traceback"])


def _ignore(_serial: int, _share: float, _message: str) -> None:
    """Where a job's progress goes."""


@contextmanager
def _job_id(id_: str) -> Iterator[None]:
    with mock.patch.dict(os.environ, FUSION_JOB_ID=id_):
        yield


def _awaited(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What it returns; in a thread of its own if this thread runs an event loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()
