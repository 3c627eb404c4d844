"""Jobs: the list with its filter, one job's whole story, and what can be done about jobs."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from fusiond.enqueue_options import Options, priority_number
from fusiond.errors import JobNotFound
from fusiond.inspecting.job_changes import CHANGES, replies_of
from fusiond.inspecting.job_display import arguments, error_of, moment, parsed, signature
from fusiond.inspecting.one_job import Judgement, held, prioritized, waits_for, with_hosts
from fusiond.inspecting.why_waiting import why_not_begun
from fusiond.job import JobRecord, JobStatus, PastAttempt, RanWith
from fusiond.masking import HIDDEN, is_masked, masked_job, unmasked
from fusiond.owners import owner_of
from fusiond.schedule.held_keeping import suspended_tasks
from fusiond.web.backend import Backend
from fusiond.web.endpoint import Done, NotThere, WebCall, acts, reads, view_of
from fusiond.web.filters import span
from fusiond.web.inputs import BadInput, Input
from fusiond.web.pages.audit_pages import EventRow, events_of, of_job
from fusiond.web.pages.job_search import CURSOR, DEPTH, FILTERS, ORDER, filter_of, search
from fusiond.web.pages.many_jobs import ACTIONS
from fusiond.web.pages.queue_pages import NAME

ONE = "/jobs/{queue}/{id}"
JOB = (NAME, Input("id", "the id of a job", "path", pattern=r"[A-Za-z0-9_:.-]{1,128}", longest=128, required=True))
_LIMIT = Input("limit", "jobs to show", form="number", default=50, least=1, most=500)
_LIKE = "the full name of a job of the task, whose values are meant where an argument is •••"
#: events of a job that are shown
_EVENTS = 100
#: characters of a call or an error in a list
_DETAIL = 300


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in a list."""

    #: its full name, `queue/id`
    name: str
    queue: str
    id: str
    task: str
    status: str
    attempts: int
    #: when it ended, else when it began, is due, or was enqueued: epoch ms
    at: int | None
    #: the call, as Python would write it
    call: str
    #: why it failed, in a line; empty: it has not
    error: str
    log_tag: str


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs that fit a filter."""

    jobs: list[JobRow]
    #: how many were looked at, and how many there are of the states and queues
    looked_at: int
    among: int
    complete: bool
    #: how many fit; None: not all were looked at
    fitting: int | None
    #: what the user may do with jobs of these states
    actions: list[str]
    #: where the next answer goes on; empty: there is none, or this was no walk
    cursor: str
    #: the names of queues and tasks, for the filter
    queues: list[str]
    tasks: list[str]
    owners: list[str]


@dataclass(frozen=True, slots=True)
class JobStory:
    """All that is known of one job."""

    job: JobRow
    args: Any
    kwargs: Any
    #: the result, or what cannot be read of it as text
    result: Any
    has_result: bool
    error: str
    traceback: str
    #: what the attempt that failed last has printed
    printed: str
    #: the address of `web.log_url` about it; empty: there is none
    log_url: str
    attempts: list[PastAttempt]
    #: what the last attempt that has ended used, and with what it ran
    ran_with: RanWith
    #: the newest first; none unless Redis keeps events
    events: list[EventRow]
    meta: Any
    description: str
    key: str
    priority: int | None
    created_at: int | None
    due_at: int | None
    started_at: int | None
    ended_at: int | None
    expires_at: int | None
    crashes: int
    rescues: int
    last_outcome: str
    #: why it waits, what it waits for, or its place in the queue; empty: it does not wait
    waits: str
    #: the name of its lock, and the job that has it
    lock: str
    lock_holder: str | None
    #: of a step of a flow: the full name of the run, and the step; empty: it is none
    run: str
    step: str
    progress: float | None
    progress_message: str
    #: whether arguments are hidden
    hidden: bool
    #: who has suspended its task: operator, file, or nobody
    task_suspended_by: str
    owner: str
    runbook_url: str
    #: the names of priorities, with their numbers
    priorities: dict[str, int]


async def _list(call: WebCall) -> Jobs:
    backend = call.backend
    found = await search(backend, call.said, most=call["limit"], depth=call["depth"])
    catalogue = await backend.catalogue()
    tasks = sorted(name for name, task in catalogue.tasks.items() if backend.has(task["queue"]))
    owners = sorted({each.owner for each in catalogue.owners.values() if each.owner})
    rows = [row_of(job) for job in found.jobs]
    complete = found.looked_at >= found.among and not found.unreadable and not found.cursor
    is_all = not found.more and len(rows) < call["limit"]
    fitting = found.among if filter_of(call.said, catalogue).is_plain else len(rows) if is_all else None
    actions = [name for name in ACTIONS if CHANGES[name].meant(call["state"]) and call.user.may(name)]
    queues = await backend.queues()
    return Jobs(rows, found.looked_at, found.among, complete, fitting, actions, found.cursor, queues, tasks, owners)


def row_of(record: JobRecord, *, cut: int | None = _DETAIL) -> JobRow:
    """A job, masked already; its texts cut to so many characters."""
    # An error of an earlier attempt says nothing about a job that has finished since, or runs again.
    failed = record.status in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SCHEDULED)
    error = error_of(record.error)[0] if failed else ""
    return view_of(
        JobRow,
        record,
        status=str(record.status),
        at=moment(record),
        call=signature(record)[:cut],
        error=(f"cannot be read: {record.broken}" if record.broken else error)[:cut],
    )


async def _show(call: WebCall) -> JobStory:
    real = await job_of(call)
    backend, verbs = call.backend, call.backend.verbs
    holder = await backend.run(verbs.lock_holder(real.queue, real.lock)) if real.lock else None
    [job] = await backend.run(with_hosts(verbs, [masked_job(real, await backend.secret())]))
    args, kwargs = arguments(job.args)
    error, traceback = error_of(job.error)
    return view_of(
        JobStory,
        job,
        job=row_of(job),
        args=args,
        kwargs=kwargs,
        result=_shown(call, parsed(job.result)),
        has_result=job.result is not None,
        error=error,
        traceback=traceback,
        attempts=[*job.history],
        events=await _events(backend, job),
        meta=_shown(call, parsed(job.meta)),
        printed=job.printed if call.user.may("logs", job.queue) else "",
        log_url=_log_url(call, job),
        lock_holder=holder,
        waits=await _waits(backend, job),
        progress=job.progress.share if job.progress else None,
        progress_message=job.progress.message if job.progress else "",
        hidden=job.args != real.args,
        **owner_of((await backend.catalogue()).owners, job.queue, job.task, job.id)._asdict(),
        task_suspended_by=await task_suspended_by(backend, job.task),
        priorities=(await backend.catalogue()).priorities,
    )


def _log_url(call: WebCall, job: JobRecord) -> str:
    web = call.backend.config.web
    found = web.log_url or "" if web and call.user.may("logs", job.queue) else ""
    for name, value in (("job", job.id), ("queue", job.queue), ("task", job.task)):
        found = found.replace(f"{{{name}}}", quote(value, safe=""))
    return found


def _shown(call: WebCall, value: Any) -> Any:
    """What may be made of arguments."""
    return HIDDEN if value is not None and call.backend.hides_arguments else value


async def job_of(call: WebCall) -> JobRecord:
    """The job that the call names. Raises JobNotFound."""
    return await _found_job(call.backend, call["queue"], call["id"])


async def _found_job(backend: Backend, queue: str, id_: str) -> JobRecord:
    found = await backend.run(backend.verbs.job(queue, id_))
    if found is None:
        raise JobNotFound(f"there is no job {queue}/{id_}: it never was, or its time is over")
    return found


async def _events(backend: Backend, job: JobRecord) -> list[EventRow]:
    """Its events, among the newest ones of its queue."""
    if backend.config.events is None:
        return []
    return await events_of(backend, job.queue, of_job(job), _EVENTS)


async def task_suspended_by(backend: Backend, task: str) -> str:
    """`operator` or `file`; "": nobody has suspended it. Raises BrokerError."""
    found = suspended_tasks((await backend.counts())[0]).get(task)
    return found.what if found else ""


async def _waits(backend: Backend, job: JobRecord) -> str:
    """Why it does not run, or its place in the queue, in a sentence; empty if it does, or has ended."""
    if job.status is JobStatus.HELD and job.limit:
        return f"it is held {held(job)}"
    if job.status is JobStatus.DEFERRED:
        return f"waits for {waits_for(*await backend.run(backend.verbs.parents(job.queue, job.id)), 10)}"
    return await backend.run(why_not_begun(backend.verbs, job, backend.asking, span))


async def _change(call: WebCall, verb: str) -> Done:
    job, act = await job_of(call), CHANGES[verb]
    [reply] = await call.backend.run(replies_of(act.calls(call.backend.verbs, job.queue, [job.id], call.asker)))
    return _became(job, act.judge(reply, job.status))


async def _prioritize(call: WebCall) -> Done:
    job, said = await job_of(call), call["priority"]
    named = (await call.backend.catalogue()).priorities
    priority = priority_number(int(said) if said.isdecimal() else said, named)
    [code] = await call.backend.run(call.backend.verbs.prioritize(job.queue, [job.id], priority, who=call.asker))
    return _became(job, prioritized(code, priority))


async def _set_task_suspended(call: WebCall, *, on: bool) -> Done:
    task, verbs = call["task"], call.backend.verbs
    if task not in {*(await call.backend.catalogue()).tasks, *await call.backend.run(verbs.suspended_by_operator())}:
        raise NotThere(f"there is no task {task!r}")
    if await call.backend.run(verbs.suspend_task(task, on=on, who=call.asker)) and not on:
        return Done(f"task {task} stays suspended, by the file", done=False)
    return Done(f"task {task} is {'suspended: its jobs are accepted, and held' if on else 'resumed'}")


def _became(job: JobRecord, what: Judgement) -> Done:
    return Done(f"{job.name}: {what.text}", what.done, 1)


async def _enqueue(call: WebCall) -> Done:
    """As `Client.enqueue`: the daemons' files say which tasks and queues there are."""
    args, kwargs = call["args"] or [], call["kwargs"] or {}
    queue = await _check_queues(call)
    if call["like"] is not None:
        args, kwargs = await _with_hidden(call, args, kwargs)
    if is_masked([args, kwargs]) and call["task"] in await call.backend.secret():
        raise BadInput(f"{HIDDEN} is not a value; write the value, or name the job of this task that has it in `like`")
    given = {name: call[name] for name in _OPTIONS if call[name] is not None} | ({"queue": queue} if queue else {})
    given |= {name: _number_or_text(given[name]) for name in _NUMBERS if name in given}
    job = await call.backend.run(call.backend.producer.enqueue(Options(**given), call["task"], args, kwargs))
    return Done(f"job {job.name} {'was there already' if job.existing else 'is enqueued'}", jobs=1, job=job.name)


async def _check_queues(call: WebCall) -> str | None:
    """The queue of the new job; None: the task says it. Raises Refusal if the user may not enqueue there, or beyond."""
    if call.backend.is_whole:
        return call["queue"]  # type: ignore[no-any-return]
    declared = (await call.backend.catalogue()).tasks.get(call["task"])
    queue = call["queue"] or (declared["queue"] if declared else "")
    like = call["like"].rpartition("/")[0] if call["like"] else queue
    for each in (queue, like):
        call.user.require("enqueue", each)
    if like != queue:
        raise BadInput("like: name a job of the same queue")
    if call["on_success"] or call["on_failure"] or call["after"]:
        call.user.require("enqueue", everywhere=True)  # by these, jobs of other queues come about, or are waited for
    return queue


async def _with_hidden(call: WebCall, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """These arguments with the real values of the job `like` where they are hidden. Raises JobNotFound."""
    queue, _, id_ = call["like"].rpartition("/")
    job = await _found_job(call.backend, queue, id_)
    if job.task != call["task"]:
        return args, kwargs
    real_args, real_kwargs = arguments(job.args)
    return unmasked(args, real_args), unmasked(kwargs, real_kwargs)


def _number_or_text(said: Any) -> Any:
    """A body may have a number where a call has a number or a text."""
    if isinstance(said, str) and re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,20})?(e-?[0-9]{1,2})?", said):
        number = float(said)
        return int(number) if number.is_integer() else number
    return said


#: inputs of `enqueue` that are options of the call
_OPTIONS = tuple(field.name for field in dataclasses.fields(Options))
#: those of them that may be numbers
_NUMBERS = ("delay", "at", "priority", "expires", "timeout", "result_ttl", "failure_ttl", "join")
_CALLBACK = 'an object, {"task": NAME} or {"webhook": URL}: what is called when it has'
_ENQUEUE = (
    Input("task", "the name of a task", "body", required=True),
    Input("args", "positional arguments, a JSON array", "body", "array", longest=1_048_576),
    Input("kwargs", "keyword arguments, a JSON object", "body", "object", longest=1_048_576),
    Input("queue", "another queue than the task's", "body", longest=255),
    Input("delay", "a time such as 5m that must pass before it begins", "body"),
    Input("at", "ISO time with its zone, before which it does not begin", "body"),
    Input("priority", "a name of the file, or 0 to 255", "body"),
    Input("key", "a second call with the same task and key returns the first job", "body", longest=255),
    Input("expires", "a time such as 5m; if it has not begun by then, it fails", "body"),
    Input("meta", "a JSON object that the function gets through pass_job", "body", "object", longest=1_048_576),
    Input("log_tag", "is added to its log lines", "body", longest=255),
    Input("timeout", "a time such as 30s after which its attempt ends", "body"),
    Input("on_success", f"{_CALLBACK} finished", "body", "object", longest=5000),
    Input("on_failure", f"{_CALLBACK} failed", "body", "object", longest=5000),
    Input("retry", "a retry policy of the file", "body"),
    Input("result_ttl", "how long it is kept once it has finished", "body"),
    Input("failure_ttl", "how long it is kept once it has failed", "body"),
    Input("description", "a text for people", "body", longest=1000),
    Input("traceparent", "the span in which it is enqueued, as a W3C traceparent", "body", longest=255),
    Input("after", "an array of full names of jobs for which it waits", "body", "array", longest=1_048_576),
    Input("join", "how many of them must finish: all, any or a number", "body"),
    Input("on_parent_failure", "what it does if too few of them can finish", "body", words=("fail", "run")),
    Input("id", "its id; none: one is generated", "body", longest=128),
    Input("like", _LIKE, "body", pattern=r"[A-Za-z0-9_.:@-]{1,255}/[A-Za-z0-9_:.-]{1,128}", longest=400),
)
_PRIORITY = Input("priority", "a name of the file, or 0 to 255", "body", required=True)
_SEARCH = (*FILTERS, ORDER, DEPTH, _LIMIT, CURSOR)
_TASK = (Input("task", "the name of a task", "path", pattern=r"[A-Za-z0-9_.:@-]{1,255}", longest=255, required=True),)
_requeue, _cancel, _delete = (partial(_change, verb=verb) for verb in ACTIONS)
_suspend_task, _resume_task = (partial(_set_task_suspended, on=on) for on in (True, False))

ENDPOINTS = (
    reads("/jobs", _list, "Jobs that fit a filter, the newest first", Jobs, "jobs.html", _SEARCH),
    acts("enqueue", "/jobs", _enqueue, "Enqueue a job", _ENQUEUE),
    reads(ONE, _show, "All that is known of a job", JobStory, "job.html", JOB),
    acts("requeue", f"{ONE}/requeue", _requeue, "Run a failed or canceled job again", JOB),
    acts("priority", f"{ONE}/priority", _prioritize, "Change the priority of a job that waits", (*JOB, _PRIORITY)),
    acts("cancel", f"{ONE}/cancel", _cancel, "End a job that waits or runs", JOB),
    acts(
        "suspend",
        "/tasks/{task}/suspend",
        _suspend_task,
        "Accept a task's jobs, but begin none",
        _TASK,
        everywhere=True,
    ),
    acts("suspend", "/tasks/{task}/resume", _resume_task, "Undo suspend of a task", _TASK, everywhere=True),
    acts("delete", f"{ONE}/delete", _delete, "Delete a job that has ended", JOB),
)
