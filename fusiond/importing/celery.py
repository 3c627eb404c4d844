"""
Celery: a settings module, a celeryconfig, or the module that makes the application.

1. settings   assignments, in the names of any release, of the module, of a class, of `app.conf`; beside `Celery(…)`
2. tasks      each one that a schedule, a route or an annotation names, under the name that Celery has for it
3. schedules  `crontab(…)`, `timedelta(…)` and seconds of beat

What decorators say of a task is in its own module and not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from fusiond.config.units import written
from fusiond.importing.celery_settings import TAKEN, WITHOUT, known_settings, settings_of
from fusiond.importing.draft import DEFAULT_QUEUE, MAIN, Draft, Expanded, Reference, Unknown
from fusiond.importing.python_settings import UNDECIDED, PythonCall, has_unknown, is_plain, module_of
from fusiond.importing.redis_address import take_broker

if TYPE_CHECKING:
    from fusiond.importing.finished_file import ImportOptions, SourceText

_RUNS: Final = "it is known only when Python runs"
_PATH: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_RATE: Final = re.compile(r"(\d+)/([smh])")
_ANNOTATED: Final = frozenset(
    {"rate_limit", "time_limit", "soft_time_limit", "max_retries", "default_retry_delay", "ignore_result"}
)
_OF_ENTRY: Final = frozenset({"task", "schedule", "args", "kwargs", "options", "expires"})
_CRONTAB: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
#: the order of its positional arguments
_POSITIONS: Final = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
_TIMEDELTA: Final = {
    "weeks": 604800, "days": 86400, "hours": 3600, "minutes": 60, "seconds": 1, "milliseconds": 0.001,
}  # fmt: skip


def read(inputs: Sequence[SourceText], draft: Draft, options: ImportOptions) -> None:
    """Put the settings of all files, which belong to one application, into the draft."""
    settings: dict[str, Any] = {}
    for each in inputs:
        module = module_of(each)
        settings |= dict(settings_of(module))
        for name in dict(known_settings(dict(module.conditions))):
            draft.leave_out(f"{each.name}: {name}", UNDECIDED)
        for call in module.calls:
            if call.function.endswith("add_periodic_task"):
                draft.leave_out(f"{each.name}, line {call.line}: {call}", "write it as an entry of `cron`")
    draft.remark("what a decorator says of its task (autoretry_for, rate_limit …) is in its module: write it here.")
    draft.remark("the limits of a rate hold for all workers together; in Celery for each of them.")
    _Application(settings, draft, options).put()


class _Application:
    """One application."""

    def __init__(self, settings: dict[str, Any], draft: Draft, options: ImportOptions) -> None:
        self._settings, self._draft = settings, draft
        zone = settings.get("timezone")
        self._zone = zone if isinstance(zone, str) else options.timezone
        if zone is not None and not isinstance(zone, str):
            draft.leave_out(f"timezone: {zone}", "it is known only when Python runs; see --timezone")
        default = settings.get("task_default_queue")
        self._queue = draft.queue(default) if isinstance(default, str) and default != "celery" else DEFAULT_QUEUE

    def put(self) -> None:
        """Put everything into the draft."""
        for key in sorted(self._settings.keys() - TAKEN):
            self._without(key, WITHOUT.get(key) or "it is no setting that is known here")
        take_broker(self._settings.get("broker_url"), self._draft)
        self._queues()
        self._defaults()
        self._group()
        names = dict.fromkeys([*self._scheduled(), *self._routes(), *self._annotations()])
        for name in names:
            if not any(sign in name for sign in "*?["):
                self._task(name)
        self._patterns(names)
        for name, item in self._map("beat_schedule").items():
            self._schedule(name, item)

    def _defaults(self) -> None:
        values = self._draft.of_tasks.values
        if self._settings.get("task_acks_late") is True:
            self._draft.put("retry_policies", "celery", {"max_attempts": 1, "max_crashes": 2})
            values["retry"] = "celery"
            self._draft.of_tasks.say("task_acks_late: a job of a lost worker runs again; an exception ends it")
        else:
            values["retry"] = "none"
            self._draft.of_tasks.say("as Celery without task_acks_late: each job begins once; see `retry`")
        values["timeout"] = self._timeout(self._settings, "task_") or "1d"
        if values["timeout"] == "1d":
            self._draft.of_tasks.say("Celery ends no task by itself; here each one has a timeout")
        values |= dict(self._options(self._settings, "task_", "settings"))
        rate = self._settings.get("task_default_rate_limit")
        if (found := self._rate(rate, "task_default_rate_limit")) is not None:
            values["limit"] = {"rate_limit": found}
        expires = _seconds(self._settings.get("result_expires"))
        if expires:
            values["result_ttl"] = written(expires)
        elif "result_expires" in self._settings:
            self._without(f"result_expires: {self._settings['result_expires']}", "`result_ttl` is a duration")

    def _group(self) -> None:
        values: dict[str, Any] = {"queues": [self._queue], "processes": 1}
        comments = ["`celery worker` has as many processes as processors, unless worker_concurrency says so"]
        concurrency = self._settings.get("worker_concurrency")
        if isinstance(concurrency, int | Reference):
            values["processes"], comments = concurrency, []
        elif concurrency is None:
            values["processes"] = "auto"
        else:
            self._without(f"worker_concurrency: {concurrency}", _RUNS)
        pool = self._settings.get("worker_pool", "prefork")
        if pool in ("gevent", "eventlet", "threads"):
            values |= {"processes": 1, "isolation": "process", "executor": "thread", "concurrency": values["processes"]}
            if not isinstance(values["concurrency"], int | Reference):
                values["concurrency"] = 10
            comments = [f"worker_pool {pool}: the jobs of a child run in threads"]
        for key, ours in (("worker_max_tasks_per_child", "max_jobs"), ("worker_max_memory_per_child", "max_memory")):
            if isinstance(found := self._settings.get(key), int):
                values |= {"isolation": "process", ours: f"{found}KiB" if ours == "max_memory" else found}
            elif found is not None:
                self._without(f"{key}: {found}", _RUNS)
        values.setdefault("isolation", "process")
        self._draft.of_workers.values |= {"directory": "."}
        self._draft.of_workers.say("where your packages are; `python: .venv/bin/python` names their interpreter")
        self._draft.group(MAIN, values, *comments)

    def _queues(self) -> None:
        given = self._settings.get("task_queues")
        for item in given if isinstance(given, list) else given.keys() if isinstance(given, dict) else []:
            name = item.args[0] if isinstance(item, PythonCall) and item.args else item
            name = item.kwargs.get("name", name) if isinstance(item, PythonCall) else name
            if isinstance(name, str):
                self._draft.queue(name)
            else:
                self._without(f"task_queues: {item}", "the name of the queue is known only when Python runs")

    def _scheduled(self) -> list[str]:
        items = self._map("beat_schedule").values()
        return [item["task"] for item in items if isinstance(item, dict) and isinstance(item.get("task"), str)]

    def _routes(self) -> dict[str, Any]:
        """Name or pattern → where its jobs go; the last one of a name counts."""
        given = self._settings.get("task_routes")
        found: dict[str, Any] = {}
        for each in given if isinstance(given, list) else [given]:
            if isinstance(each, dict):
                found |= each
            elif isinstance(each, list) and len(each) == 2 and isinstance(each[0], str):
                found[each[0]] = each[1]
            elif each is not None:
                self._without(f"task_routes: {each}", "a router is a function, which is not run")
        return found

    def _annotations(self) -> dict[str, Any]:
        return {name: item for name, item in self._map("task_annotations").items() if isinstance(item, dict)}

    def _patterns(self, names: Mapping[str, object]) -> None:
        """Routes and annotations of tasks that are not known here."""
        for pattern, route in self._routes().items():
            if any(sign in pattern for sign in "*?[") and not any(
                fnmatchcase(name, pattern) for name in names if name != pattern
            ):
                queue = _queue_of(route)
                reason = (
                    f"write `queue: {queue}` into each of these tasks" if queue else "it is known only when Python runs"
                )
                self._without(f"task_routes: {pattern}", reason)

    def _task(self, name: str) -> str | None:
        """Declare a task; None, and a comment, if its name is no dotted path."""
        if not _PATH.fullmatch(name):
            self._without(f"task {name!r}", "it is a name of Celery's: declare it with `run: package.module.function`")
            return None
        values: dict[str, Any] = {"run": name}
        routes = self._routes()
        matching = [name] if name in routes else [pattern for pattern in routes if fnmatchcase(name, pattern)]
        route = _queue_of(routes[matching[0]]) if matching else self._queue_of_beat(name)
        queue = self._draft.queue(route) if route else self._queue
        values |= {"queue": queue} if queue != DEFAULT_QUEUE else {}
        given = {**self._annotations().get("*", {}), **self._annotations().get(name, {})}
        if timeout := self._timeout(given, ""):
            values["timeout"] = timeout
        values |= dict(self._options(given, "", name))
        if (rate := self._rate(given.get("rate_limit"), f"{name}: rate_limit")) is not None:
            values["limit"] = {"rate_limit": rate}
        if "max_retries" in given:
            values["retry"] = self._policy(given, name)
        for item in self._map("beat_schedule").values():
            if isinstance(item, dict) and item.get("task") == name and (expires := _seconds(_option(item, "expires"))):
                values["expires"] = written(expires)
        return self._draft.put("tasks", name, values)

    def _queue_of_beat(self, name: str) -> str | None:
        """The queue that the options of its schedules name."""
        items = self._map("beat_schedule").values()
        found = [
            _queue_of(_map(item, "options")) for item in items if isinstance(item, dict) and item.get("task") == name
        ]
        return next(filter(None, found), None)

    def _policy(self, given: Mapping[str, Any], name: str) -> str:
        retries, delay = given["max_retries"], _seconds(given.get("default_retry_delay", 180)) or 180
        if not isinstance(retries, int) or retries < 0:
            self._without(f"{name}: max_retries {retries}", "`max_attempts` of a retry policy is a number")
            return "none"
        values = {"max_attempts": retries + 1, "backoff": "fixed", "delay": written(delay)}
        comment = "in Celery for exceptions of `self.retry` and `autoretry_for`; here for all but those of `give_up_on`"
        return self._draft.put("retry_policies", f"retries_{retries}", values, comment)

    def _options(self, given: Mapping[str, Any], prefix: str, where: str) -> Iterator[tuple[str, Any]]:
        if given.get(f"{prefix}ignore_result") is True:
            yield "result", "ignore"
        if not prefix:
            known = {
                "rate_limit",
                "time_limit",
                "soft_time_limit",
                "max_retries",
                "default_retry_delay",
                "ignore_result",
            }
            for key in sorted(given.keys() - known):
                self._without(f"task_annotations: {where}, {key}", "it has no counterpart here")

    def _timeout(self, given: Mapping[str, Any], prefix: str) -> Any:
        """The soft and the hard limit, in seconds."""
        soft, hard = (_seconds(given.get(f"{prefix}{name}")) for name in ("soft_time_limit", "time_limit"))
        for name in ("soft_time_limit", "time_limit"):
            if isinstance(given.get(f"{prefix}{name}"), Unknown | Reference | PythonCall):
                self._without(f"{prefix}{name}: {given[prefix + name]}", _RUNS)
        if soft and hard and soft < hard:
            return {"soft": written(soft), "hard": written(hard)}
        return written(soft or hard) if soft or hard else None

    def _rate(self, rate: Any, where: str) -> str | None:
        if rate is None:
            return None
        found = _RATE.fullmatch(rate) if isinstance(rate, str) else None
        if isinstance(rate, int) and rate > 0:
            return f"{rate}/s"
        if found is None:
            self._without(f"{where}: {rate}", "a rate is written 10/s or 100/1m")
            return None
        return f"{found[1]}/s" if found[2] == "s" else f"{found[1]}/1{found[2]}"

    def _schedule(self, name: str, item: Any) -> None:
        where = f"beat_schedule: {name}"
        if not isinstance(item, dict) or not isinstance(item.get("task"), str):
            self._without(where, "it names no task that is known before Python runs")
            return
        task = self._task(item["task"]) if _PATH.fullmatch(item["task"]) else None
        timing = self._timing(item.get("schedule"), where)
        given = {"args": item.get("args") or [], "kwargs": item.get("kwargs") or {}}
        if task is None or timing is None:
            if task is None:
                self._without(where, f"its task {item['task']!r} is not declared")
            return
        if has_unknown(given):
            self._without(where, "an argument is known only when Python runs")
            return
        for key in sorted(
            {*item.keys(), *_map(item, "options")} - {"task", "schedule", "args", "kwargs", "options", "expires"}
        ):
            if not (
                key == "queue"
                and _option(item, "queue") == self._draft.sections["tasks"][task].values.get("queue", self._queue)
            ):
                self._without(f"{where}, {key}", "write it into the task; an entry of `cron` has no such key")
        values = {"task": task, **timing, "overlap": "allow", **{key: value for key, value in given.items() if value}}
        self._draft.put(
            "cron", name, values, *([] if isinstance(item["schedule"], int | float) else [str(item["schedule"])])
        )

    def _timing(self, given: Any, where: str) -> dict[str, Any] | None:
        """The keys of an entry that say when it ticks; None, and a comment, if that is not known."""
        if isinstance(given, PythonCall) and given.function.endswith("crontab"):
            return self._crontab(given, where)
        if isinstance(given, PythonCall) and given.function.rpartition(".")[2] == "schedule":
            given = given.kwargs.get("run_every", given.args[0] if given.args else None)
        if (every := _of_environment(given)) is not None:
            return {"every": every}
        seconds = _seconds(given)
        if not seconds:
            self._without(f"{where}: {given}", "it is known only when Python runs, or has no counterpart")
            return None
        return {"every": written(seconds)}

    def _crontab(self, call: PythonCall, where: str) -> dict[str, Any] | None:
        given = {**dict(zip(_POSITIONS, call.args, strict=False)), **call.kwargs}
        fields = [_field(given.get(name, "*")) for name in _CRONTAB]
        if None in fields:
            self._without(f"{where}: {call}", "a field is known only when Python runs")
            return None
        if fields[2] != "*" and fields[4] != "*":
            self._without(f"{where}: {call}", "Celery runs it when both day fields match; here one of them is enough")
            return None
        text = " ".join(map(str, fields))
        schedule = Expanded(text) if any(isinstance(given.get(name), Reference) for name in _CRONTAB) else text
        return {"schedule": schedule, **({"timezone": self._zone} if self._zone else {})}

    def _map(self, key: str) -> dict[str, Any]:
        found = self._settings.get(key)
        if found is not None and not isinstance(found, dict) and key != "task_routes":
            self._without(f"{key}: {found}", _RUNS)
        return found if isinstance(found, dict) else {}

    def _without(self, what: str, reason: str) -> None:
        self._draft.leave_out(what, reason)


def _field(value: Any) -> str | None:
    """A field of a cron text; None if it is not known."""
    if isinstance(value, Reference):
        return str(value)
    if isinstance(value, list):
        return ",".join(map(str, value)) if value and all(isinstance(item, int | str) for item in value) else None
    if isinstance(value, int | str) and not isinstance(value, bool):
        return str(value).replace(" ", "").lower() or None
    return None


def _seconds(value: Any) -> float:
    """Seconds of a number or of a timedelta; 0: neither."""
    if isinstance(value, PythonCall) and value.function.endswith("timedelta"):
        given = {**dict(zip(("days", "seconds"), value.args, strict=False)), **value.kwargs}
        if all(key in _TIMEDELTA and isinstance(part, int | float) for key, part in given.items()):
            return max(0.0, float(sum(part * _TIMEDELTA[key] for key, part in given.items())))
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 10**9
    return float(value) if known else 0.0


def _of_environment(value: Any) -> Reference | None:
    """A timedelta of one number that comes from the environment; None: it is none."""
    if isinstance(value, Reference):
        return value.in_unit("s")
    if not isinstance(value, PythonCall) or not value.function.endswith("timedelta") or len(value.kwargs) != 1:
        return None
    ((unit, number),) = value.kwargs.items()
    sign = {"days": "d", "hours": "h", "minutes": "m", "seconds": "s"}.get(unit)
    return number.in_unit(sign) if sign and isinstance(number, Reference) and not value.args else None


def _queue_of(route: Any) -> str | None:
    queue = route.get("queue") if isinstance(route, dict) else route
    return queue if is_plain(queue) else None


def _option(item: Mapping[str, Any], key: str) -> Any:
    return item.get(key, _map(item, "options").get(key))


def _map(around: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = around.get(key)
    return found if isinstance(found, dict) else {}
