"""
RQ: settings of a worker, RQ_QUEUES of django-rq, and schedules of `rq cron`, as RQ itself loads them.

1. settings    queues in their order become a worker group; the address of Redis is that of the broker
2. schedules   what `cron.register(…)` has registered becomes cron entries
"""

from collections.abc import Sequence
from typing import Any, Final

from fusiond.config.units import written
from fusiond.importing.draft import DEFAULT_QUEUE, MAIN, Draft, has_unknown
from fusiond.importing.input_files import ImportOptions
from fusiond.importing.redis_address import take_broker

_IN_A_FILE: Final = "put it into a file that `password_file` names"
#: settings of a worker that nothing here stands for, with the reason
_WITHOUT: Final = {
    "SENTRY_DSN": "a decorator around the task reports errors",
    "NAME": "a group has a name",
    "DICT_CONFIG": "`logging` says how the daemon logs",
    "REDIS_IN_A_FILE": _IN_A_FILE,
    "REDIS_SSL": "write the broker's `url` as rediss://, and certificates under its `tls`",
    "SENTINEL": "write `url: redis+sentinel://…` for the broker",
}
#: option of a schedule → key of its task
_OF_TASK: Final = {
    "job_timeout": "timeout", "ttl": "expires", "result_ttl": "result_ttl", "failure_ttl": "failure_ttl",
}  # fmt: skip
_OF_ENTRY: Final = {"func", "queue_name", "args", "kwargs", "cron", "interval"}


def read(inputs: Sequence[dict[str, Any]], draft: Draft, options: ImportOptions) -> None:
    """Put settings and schedules of each module into the draft."""
    draft.of_tasks.values |= {"retry": "none"}
    draft.of_tasks.say("as RQ without Retry(…): a job runs once; `retry: standard` tries again after connection errors")
    draft.of_workers.values |= {"directory": "."}
    draft.of_workers.say("where your packages are; `python: .venv/bin/python` names their interpreter")
    for each in inputs:
        _worker(each["settings"], draft)
        for job in each["jobs"]:
            _schedule(job, draft, options)


def _worker(settings: dict[str, Any], draft: Draft) -> None:
    """The settings of `rq worker -c`, or those of django-rq."""
    for key, reason in _WITHOUT.items():
        if settings.get(key):
            draft.leave_out(key, reason)
    _address(settings, "REDIS_", draft)
    for name, item in settings.get("RQ_QUEUES", {}).items():
        queue, timeout = draft.queue(name), item.get("DEFAULT_TIMEOUT")
        _address(item, "", draft)
        if item.get("PASSWORD"):
            draft.leave_out(f"RQ_QUEUES, {name}, PASSWORD", _IN_A_FILE)
        if isinstance(timeout, int) and timeout > 0 and queue != DEFAULT_QUEUE:
            draft.sections["queues"][queue].values["defaults"] = {"timeout": written(timeout)}
        elif timeout is not None:
            draft.leave_out(f"RQ_QUEUES, {name}, DEFAULT_TIMEOUT {timeout}", "write `timeout` into the tasks")
    if "RQ_QUEUES" in settings:
        draft.remark("RQ_QUEUES: all queues are in one Redis here, the last one that a queue names.")
    if given := settings.get("QUEUES"):
        names = [given] if isinstance(given, str) else [name for name in given if isinstance(name, str)]
        queues = list(dict.fromkeys(map(draft.queue, names)))
        order = {"order": "strict"} if len(queues) > 1 else {}
        draft.group(MAIN, {"queues": queues, **order, "processes": 1}, "one `rq worker` runs one job at a time")


def _address(settings: dict[str, Any], prefix: str, draft: Draft) -> None:
    url, host, port, database = (settings.get(prefix + key) for key in ("URL", "HOST", "PORT", "DB"))
    take_broker(url or (f"redis://{host}:{port or 6379}/{database or 0}" if host else None), draft)


def _schedule(given: dict[str, Any], draft: Draft, options: ImportOptions) -> None:
    path = given["func"]
    name = path.rpartition(".")[2]
    arguments = {key: given[key] for key in ("args", "kwargs") if given[key]}
    if has_unknown(arguments):
        draft.leave_out(f"schedule of {path}", "an argument is not JSON")
        return
    zone = {"timezone": options.timezone} if options.timezone else {}
    timing = {"schedule": given["cron"], **zone} if given["cron"] else {"every": written(given["interval"])}
    task = draft.put("tasks", name, {"run": path, **_task(given, draft.queue(given["queue_name"]), path, draft)})
    for key in sorted(given.keys() - _OF_ENTRY - _OF_TASK.keys()):
        draft.leave_out(f"schedule of {path}, {key}", "an entry of `cron` has no such key")
    draft.put("cron", name, {"task": task, **timing, "overlap": "allow", **arguments})


def _task(given: dict[str, Any], queue: str, path: str, draft: Draft) -> dict[str, Any]:
    """The keys of the task that the schedule says."""
    values: dict[str, Any] = {} if queue == DEFAULT_QUEUE else {"queue": queue}
    for key, ours in _OF_TASK.items():
        value = given.get(key)
        if (key, value) == ("result_ttl", 500):
            continue  # the default of both
        if isinstance(value, int) and value > 0:
            values[ours] = written(value)
        elif isinstance(value, str) and value[:-1].isdigit() and value[-1] in "smhd":
            values[ours] = value
        elif value is not None:
            draft.leave_out(f"schedule of {path}, {key} {value}", f"`{ours}` is a duration above 0")
    return values
