"""
RQ: settings of a worker, RQ_QUEUES of django-rq, and schedules of `rq cron` and of rq-scheduler.

1. settings    queues in their order become a worker group; the address of Redis is that of the broker
2. schedules   `cron.register(…)`, `scheduler.cron(…)` and `scheduler.schedule(…)` become cron entries; a function is
               known by where it was imported from
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fusiond.config.units import written
from fusiond.importing.draft import DEFAULT_QUEUE, MAIN, Draft
from fusiond.importing.python_settings import (
    UNDECIDED,
    Imported,
    PythonCall,
    PythonModule,
    has_unknown,
    is_plain,
    module_of,
)
from fusiond.importing.redis_address import take_broker

if TYPE_CHECKING:
    from fusiond.importing.finished_file import ImportOptions, SourceText

_SETTINGS: Final = {"QUEUES", "REDIS_URL", "REDIS_HOST", "RQ_QUEUES"}
_RUNS: Final = "it is known only when Python runs"
#: settings of a worker that nothing here stands for, with the reason
_WITHOUT: Final = {
    "SENTRY_DSN": "a decorator around the task reports errors",
    "NAME": "a group has a name",
    "DICT_CONFIG": "`logging` says how the daemon logs",
    "REDIS_PASSWORD": "put it into a file that `password_file` names",
}
#: keyword of a schedule → key of its task
_OF_TASK: Final = {
    "job_timeout": "timeout", "timeout": "timeout", "ttl": "expires", "result_ttl": "result_ttl",
    "failure_ttl": "failure_ttl",
}  # fmt: skip
_OF_ENTRY: Final = {"func", "queue_name", "args", "kwargs", "cron", "cron_string", "interval", "scheduled_time"}
_KNOWN: Final = {"description", *_OF_ENTRY, *_OF_TASK}
#: positional arguments of the three calls
_POSITIONS: Final = {
    "register": ("func", "queue_name", "args", "kwargs", "interval", "cron"),
    "cron": ("cron_string", "func", "args", "kwargs", "repeat", "queue_name"),
    "schedule": ("scheduled_time", "func", "args", "kwargs", "interval", "repeat"),
}


def read(inputs: Sequence[SourceText], draft: Draft, options: ImportOptions) -> None:
    """Put settings and schedules of each file into the draft."""
    draft.of_tasks.values |= {"retry": "none"}
    draft.of_tasks.say("as RQ without Retry(…): a job runs once; `retry: standard` tries again after connection errors")
    draft.of_workers.values |= {"directory": "."}
    draft.of_workers.say("where your packages are; `python: .venv/bin/python` names their interpreter")
    for each in inputs:
        module = module_of(each)
        _worker(module.names, each.name, draft)
        for name in _SETTINGS & module.conditions.keys():
            draft.leave_out(f"{each.name}, line {module.conditions[name]}", UNDECIDED)
        for call in _schedules(module):
            if call.condition:
                draft.leave_out(f"{each.name}, line {call.condition}", UNDECIDED)
            _schedule(call, f"{each.name}, line {call.line}", draft, options)


def _worker(names: dict[str, Any], where: str, draft: Draft) -> None:
    """The settings of `rq worker -c`, or those of django-rq."""
    for key, reason in _WITHOUT.items():
        if names.get(key):
            draft.leave_out(f"{where}: {key}", reason)
    if "REDIS_URL" in names:
        take_broker(names["REDIS_URL"], draft)
    elif isinstance(names.get("REDIS_HOST"), str):
        take_broker(f"redis://{names['REDIS_HOST']}:{names.get('REDIS_PORT', 6379)}/{names.get('REDIS_DB', 0)}", draft)
    if isinstance(names.get("RQ_QUEUES"), dict):
        _django(names["RQ_QUEUES"], where, draft)
    if "QUEUES" not in names:
        return
    given = names["QUEUES"] if isinstance(names["QUEUES"], list) else [names["QUEUES"]]
    known = [draft.queue(name) for name in given if is_plain(name)]
    for item in given:
        if not is_plain(item):
            draft.leave_out(f"{where}: QUEUES, {item}", _RUNS)
    order = {"order": "strict"} if len(set(known)) > 1 else {}
    queues = list(dict.fromkeys(known)) or [DEFAULT_QUEUE]
    draft.group(MAIN, {"queues": queues, **order, "processes": 1}, "one `rq worker` runs one job at a time")


def _django(queues: dict[str, Any], where: str, draft: Draft) -> None:
    """RQ_QUEUES: the connection of each queue."""
    for name, item in queues.items():
        queue, settings = draft.queue(name), item if isinstance(item, dict) else {}
        if isinstance(host := settings.get("HOST"), str):
            take_broker(f"redis://{host}:{settings.get('PORT', 6379)}/{settings.get('DB', 0)}", draft)
        elif "URL" in settings:
            take_broker(settings["URL"], draft)
        if settings.get("PASSWORD"):
            draft.leave_out(f"{where}: RQ_QUEUES, {name}, PASSWORD", _WITHOUT["REDIS_PASSWORD"])
        timeout = settings.get("DEFAULT_TIMEOUT")
        if isinstance(timeout, int) and timeout > 0 and queue != DEFAULT_QUEUE:
            draft.sections["queues"][queue].values["defaults"] = {"timeout": written(timeout)}
        elif timeout is not None:
            draft.leave_out(f"{where}: RQ_QUEUES, {name}, DEFAULT_TIMEOUT {timeout}", "write `timeout` into the tasks")
    draft.remark("RQ_QUEUES: all queues are in one Redis here, the last one that a queue names.")


def _schedules(module: PythonModule) -> list[PythonCall]:
    """The calls that make a schedule."""
    keys = {"interval", "cron", "cron_string"}
    return [call for call in module.calls if _method(call) and keys & _given(call).keys()]


def _method(call: PythonCall) -> str:
    name = call.function.rpartition(".")[2]
    return name if name in _POSITIONS and ("." in call.function) else ""


def _given(call: PythonCall) -> dict[str, Any]:
    return {**dict(zip(_POSITIONS[_method(call)], call.args, strict=False)), **call.kwargs}


def _schedule(call: PythonCall, where: str, draft: Draft, options: ImportOptions) -> None:
    given = _given(call)
    function = given.get("func")
    path = function.path if isinstance(function, Imported) else function
    if not isinstance(path, str) or path.startswith(".") or "." not in path:
        draft.leave_out(f"{where}: {call}", "name the function's module: `run: package.module.function`")
        return
    timing = _timing(given, where, draft, options)
    arguments = {"args": given.get("args") or [], "kwargs": given.get("kwargs") or {}}
    if timing is None or has_unknown(arguments):
        draft.leave_out(f"{where}: {call}", f"a schedule or an argument: {_RUNS}")
        return
    queue = given.get("queue_name") or DEFAULT_QUEUE
    if not is_plain(queue):
        draft.leave_out(f"{where}: queue {queue}", _RUNS)
        queue = DEFAULT_QUEUE
    name = path.rpartition(".")[2]
    task = draft.put("tasks", name, {"run": path, **_task(given, draft.queue(queue), where, draft)})
    for key in sorted(given.keys() - _KNOWN):
        if given[key] is not None:
            draft.leave_out(f"{where}, {key}", "an entry of `cron` has no such key")
    values = {"task": task, **timing, "overlap": "allow", **{key: value for key, value in arguments.items() if value}}
    draft.put("cron", name, values, where)


def _task(given: dict[str, Any], queue: str, where: str, draft: Draft) -> dict[str, Any]:
    """The keys of the task that the call says."""
    values: dict[str, Any] = {} if queue == DEFAULT_QUEUE else {"queue": queue}
    for key, ours in _OF_TASK.items():
        value = given.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            values[ours] = written(value)
        elif isinstance(value, str) and value[:-1].isdigit() and value[-1] in "smhd":
            values[ours] = value
        elif value is not None:
            draft.leave_out(f"{where}, {key} {value}", _RUNS if not isinstance(value, int) else f"`{ours}` has an end")
    return values


def _timing(given: dict[str, Any], where: str, draft: Draft, options: ImportOptions) -> dict[str, Any] | None:
    text, interval = given.get("cron") or given.get("cron_string"), given.get("interval")
    if isinstance(text, str):
        zone = {"timezone": options.timezone} if options.timezone else {}
        return {"schedule": text, **zone}
    if isinstance(interval, int | float) and not isinstance(interval, bool) and 0 < interval < 10**9:
        if "scheduled_time" in given:
            draft.leave_out(f"{where}, scheduled_time", "ticks are at multiples of the interval")
        return {"every": written(interval)}
    return None
