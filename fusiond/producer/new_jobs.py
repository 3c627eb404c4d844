"""
Make the jobs of a producer's calls, without I/O.

1. name     find the task, by its name or by the dotted path of the function that it runs
2. look up  its queue, priority and expiry in the catalogue that the daemons publish. It is read at most every 10 s, and
            once more before a task is called unknown or unserved
3. check    that the arguments are JSON and the options are valid
4. name     the job: its id is made here, once, so that a call whose reply was lost can be repeated without making a
            second job
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from fusiond.argument_values import by_name, names_to_bind, parameter_names, unique_key, values_of
from fusiond.broker.call import Plan
from fusiond.broker.hosts.host_records import NO_CATALOGUE
from fusiond.broker.records import NewJob
from fusiond.broker.verbs import Verbs
from fusiond.callbacks import CALLBACKS, WEBHOOK_TASK, Callback, callbacks_of, follow_text
from fusiond.config.lint.suggest import nearest
from fusiond.enqueue_options import (
    NO_OPTIONS,
    Options,
    callback_target,
    dotted_path,
    encoded,
    encoded_options,
    job_id,
    priority_number,
    safe_repr,
    text,
)
from fusiond.errors import BadArguments, EnqueueError, UnknownTask
from fusiond.job import new_id

#: seconds for which the catalogue is believed
CATALOGUE_AGE = 10.0
#: seconds for which it is believed when it says that nothing serves a task: a group may just have begun
UNSERVED_AGE = 1.0

#: task, args and kwargs
TaskCall = tuple[Any, Sequence[Any], dict[str, Any]]
#: the job's queue, the job, and whether a living worker group runs jobs of its task from that queue
MadeJob = tuple[str, NewJob, bool]


class JobRef(NamedTuple):
    """Which job."""

    queue: str
    id: str
    #: whether a living worker group ran jobs of this task from this queue when this one was enqueued; None: not known
    served: bool | None = None
    #: the call stored no job: this one, which was there, is the same by `unique` of its task
    existing: bool = False

    @classmethod
    def named(cls, name: str) -> "JobRef":
        """The job of that full name. Raises ValueError for what is none."""
        queue, _, id_ = name.rpartition("/")
        if not queue or not id_:
            raise ValueError(f"{name!r} is not a full name of a job, which is queue/id")
        return cls(queue, id_)

    @property
    def name(self) -> str:
        """`queue/id`, the job's full name."""
        return f"{self.queue}/{self.id}"


class _Declared(NamedTuple):
    """What a task declares."""

    queue: str
    priority: int
    expires_ms: int | None
    #: whether a living worker group serves it there
    served: bool
    #: as `Unique.to_text` gives it
    unique: str | None
    #: the arguments by which its limit counts; None: it has no limit
    limit_by: list[str] | None
    #: the callbacks of its jobs, as `callbacks.follow_text` gives them
    follow: str | None
    #: the names of what calls pass by position, where they are to be passed by name
    names: str


def _wanted(task: str, unique: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """How the job of a call is unique. Raises BadArguments."""
    try:
        return unique_key(unique, args, kwargs)
    except ValueError as error:
        raise BadArguments(f"task {task!r}: the call cannot be unique: {error}") from None


def with_trace(job: NewJob, trace: str | None) -> NewJob:
    """The job, enqueued in this trace if there is one and its call names no other."""
    return job._replace(traceparent=trace) if trace and not job.traceparent else job


class JobMaker:
    """Makes the jobs of one client, and remembers the catalogue for them."""

    def __init__(self, broker: Verbs) -> None:
        self._broker = broker
        self._catalogue = NO_CATALOGUE
        self._read_at = float("-inf")
        #: dotted path -> the tasks that run it
        self._names: dict[str, list[str]] = {}
        #: task -> what it declares
        self._defaults: dict[str, _Declared] = {}

    def make(self, options: Options, call: TaskCall) -> MadeJob | None:
        """The job of a call; None: the catalogue must be read first. Raises EnqueueError."""
        age = time.monotonic() - self._read_at
        if age > CATALOGUE_AGE:
            return None
        try:
            made = self._make(options, call)
        except UnknownTask:
            return None  # it may have been added since
        except EnqueueError:
            if age <= UNSERVED_AGE:
                raise
            return None  # so may the queue, the retry policy or the priority that the call names
        # It may be served by now, or in another queue.
        return made if made[2] or age <= UNSERVED_AGE else None

    def reread_and_make(self, options: Options, call: TaskCall) -> Plan[MadeJob]:
        """Read the catalogue again, and make the job by it. Raises EnqueueError."""
        yield from self._read_catalogue()
        return self._make(options, call)

    def _make(self, options: Options, call: TaskCall) -> MadeJob:
        task, args, kwargs = call
        name = task if isinstance(task, str) else self._name(task)
        known = self._defaults.get(name) or self._default(name, task)
        queue, priority, expires_ms, served, unique, limit_by, follow, names = known
        if names and args:
            args, kwargs = by_name(names, args, kwargs)
        body = encoded(name, args, kwargs)
        if unique is not None:
            unique = _wanted(name, unique, args, kwargs)
        if limit_by is not None:
            _check_limit(name, queue, limit_by, options, (task, args, kwargs))
        if options is not NO_OPTIONS:
            queue = self._queue(options, queue)
            priority = priority if options.priority is None else self._priority(options.priority)
            self._check_policy(options)
            given = {"expires_ms": expires_ms} | encoded_options(options)
            follow = self._follow(options, follow)
            job = NewJob(job_id(options, name), name, body, priority, **given, unique=unique, follow=follow)
            return queue, job, self._catalogue.serves(name, queue)
        if unique is not None or follow is not None:
            job = NewJob(new_id(), name, body, priority, expires_ms=expires_ms, unique=unique, follow=follow)
            return queue, job, served
        # by position: half the time of names
        return queue, NewJob(new_id(), name, body, priority, None, None, expires_ms), served

    def _default(self, name: str, task: str | Callable[..., Any]) -> "_Declared":
        """What the task declares. Raises UnknownTask."""
        declared = self._catalogue.tasks.get(name) or self._unknown(task)
        queue, expires = declared["queue"], declared.get("expires")
        expires_ms = None if expires is None else round(expires * 1000)
        served = self._catalogue.serves(name, queue)
        unique, limit_by, follow = declared.get("unique"), declared.get("limit_by"), declared.get("follow")
        by = [*(limit_by or ()), *filter(None, (unique or "").split(",")[3:])]
        names = self._catalogue.positional.get(name, "")
        if by and not names:
            names = names_to_bind(parameter_names(str(declared.get("run"))), by)
        found = _Declared(queue, int(declared["priority"]), expires_ms, served, unique, limit_by, follow, names)
        return self._defaults.setdefault(name, found)

    def _read_catalogue(self) -> Plan[None]:
        self._catalogue = yield from self._broker.catalogue(self._catalogue)
        self._read_at = time.monotonic()
        self._names, self._defaults = {}, {}
        for name, declared in self._catalogue.tasks.items():
            self._names.setdefault(str(declared.get("run")), []).append(name)

    def _name(self, function: Callable[..., Any]) -> str:
        """The name of the task that runs the function."""
        path = dotted_path(function)
        names = self._names.get(path, [])
        if not names:
            raise UnknownTask(f"no task of the daemon's file has `run: {path}`")
        if len(names) > 1:
            raise UnknownTask(f"{path} is run by tasks {', '.join(sorted(names))}; say which one by its name")
        return names[0]

    def _unknown(self, task: str | Callable[..., Any]) -> NoReturn:
        tasks = self._catalogue.tasks
        if not tasks:
            raise UnknownTask(f"no daemon has declared any task under {self._broker.keys.namespace!r}; is one running?")
        raise UnknownTask(f"task {safe_repr(task)} is in no daemon's file; {nearest(str(task), tasks, 'known tasks')}")

    def _queue(self, options: Options, declared: str) -> str:
        if options.queue is None:
            return declared
        if text("queue", options.queue) not in self._catalogue.queues:
            remedy = nearest(options.queue, self._catalogue.queues, "known queues")
            raise EnqueueError(f"queue {options.queue!r} is in no daemon's file; {remedy}")
        return options.queue

    def _check_policy(self, options: Options) -> None:
        """Raises EnqueueError if no daemon has the retry policy; an older daemon does not say which it has."""
        policies = self._catalogue.policies
        if options.retry is not None and policies and text("retry", options.retry) not in policies:
            remedy = nearest(options.retry, policies, "known retry policies")
            raise EnqueueError(f"retry policy {options.retry!r} is in no daemon's file; {remedy}")

    def _priority(self, given: str | int) -> int:
        return priority_number(given, self._catalogue.priorities)

    def _follow(self, options: Options, declared: str | None) -> str | None:
        """The callbacks of a call: its own, else those of the task. Raises EnqueueError, UnknownTask."""
        if options.on_success is None and options.on_failure is None:
            return declared
        found = callbacks_of(declared or "")
        for key in ("on_success", "on_failure"):
            if (given := getattr(options, key)) is not None:
                found[key] = self._callback(key, given)
        return follow_text(found) or None

    def _callback(self, key: str, given: dict[str, str]) -> Callback:
        """One callback of a call; empty: none."""
        kind, target = callback_target(key, given)
        if not kind:
            return {}
        if kind == "task":
            return self._target(target)
        if WEBHOOK_TASK not in self._catalogue.tasks:
            raise UnknownTask(f"{key}: no daemon's file serves the queue {CALLBACKS!r}, whose jobs call webhooks")
        return self._target(WEBHOOK_TASK) | {"url": target}

    def _target(self, task: str) -> Callback:
        """What the job of a callback needs to know of its task. Raises UnknownTask."""
        said = self._catalogue.tasks.get(task) or self._unknown(task)
        found = {"queue": said["queue"], "task": task, "priority": int(said["priority"])}
        if said.get("expires") is not None:
            found["expires"] = round(said["expires"] * 1000)
        unique = said.get("unique") or ""
        # The only argument of a callback, `event`, cannot make it unique.
        return found | ({"unique": unique} if unique.endswith(",") else {})


def _check_limit(name: str, queue: str, by: list[str], options: Options, call: TaskCall) -> None:
    """The limit of a task holds in its own queue, and counts by arguments that each call has. Raises EnqueueError."""
    if options.queue not in (None, queue):
        remedy = "leave `queue` out, or take the limit out of the file"
        raise EnqueueError(f"task {name!r} has a limit, which holds in its queue {queue!r} alone; {remedy}")
    try:
        values_of(by, call[1], call[2])
    except ValueError as error:
        raise BadArguments(f"task {name!r} has a limit by {', '.join(by)}, but in this call {error}") from None
