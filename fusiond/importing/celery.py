"""
Celery: the effective configuration of an application, as `application_settings` asks for it.

1. settings   those that differ from Celery's defaults, whatever module, class or release named them
2. tasks      each one that the application's workers know, with what its decorator, annotations and routes come to
3. schedules  `crontab(…)`, `timedelta(…)` and seconds of beat, those of `add_periodic_task` included
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from fusiond.config.units import written
from fusiond.importing.draft import DEFAULT_QUEUE, MAIN, Draft, Unknown, has_unknown
from fusiond.importing.input_files import ImportOptions, ImportRefused
from fusiond.importing.redis_address import take_broker

_RATE: Final = re.compile(r"(\d+)/([smh])")
#: settings that have a counterpart here
_TAKEN: Final = frozenset(
    {"beat_schedule", "broker_url", "enable_utc", "result_expires", "task_acks_late", "task_annotations"}
    | {"task_default_queue", "task_default_rate_limit", "task_ignore_result", "task_queues"}
    | {"task_reject_on_worker_lost", "task_routes", "task_soft_time_limit", "task_time_limit", "timezone"}
    | {"worker_concurrency", "worker_max_memory_per_child", "worker_max_tasks_per_child", "worker_pool"}
)
_JSON: Final = "arguments and results are JSON"
_MODULES: Final = "`run` of each task names its module"
_EXCHANGES: Final = "there are queues, and no exchanges"
_EVENTS: Final = "`events: {}` keeps events"
#: settings that nothing here stands for, with the reason
_WITHOUT: Final = {
    "result_backend": "results are kept in the broker's Redis, for `result_ttl`",
    "task_serializer": _JSON,
    "result_serializer": _JSON,
    "accept_content": _JSON,
    "worker_prefetch_multiplier": "nothing to set: a group takes a job when a child is free",
    "broker_transport_options": "there is no visibility timeout: a job of a lost worker is taken back after 15 s",
    "task_track_started": "it is always known whether a job has started",
    "imports": _MODULES,
    "include": _MODULES,
    "task_always_eager": "tests call the function",
    "beat_scheduler": "schedules in a database are not known here; write them under `cron`",
    "task_create_missing_queues": "each queue is declared",
    "broker_connection_retry_on_startup": "the daemon waits for Redis",
    "task_default_exchange": _EXCHANGES,
    "task_default_routing_key": _EXCHANGES,
    "worker_send_task_events": _EVENTS,
    "task_send_sent_event": _EVENTS,
    "task_default_priority": "`priority` of a task has names; with a broker of Redis, Celery runs low numbers first",
}
_UNSUPPORTED: Final = "fusiond has no such setting"


def read(inputs: Sequence[dict[str, Any]], draft: Draft, options: ImportOptions) -> None:
    """Put the application into the draft."""
    if len(inputs) > 1:
        raise ImportRefused("each application of Celery's becomes a file of its own; name one")
    draft.remark("the limits of a rate hold for all workers together; in Celery for each of them.")
    draft.remark("values that come from the environment are those of this command; write ${VARIABLE} where they vary.")
    _Application(inputs[0], draft, options).put()


class _Application:
    """One application."""

    def __init__(self, found: dict[str, Any], draft: Draft, options: ImportOptions) -> None:
        self._settings, self._tasks, self._beat = found["settings"], found["tasks"], found["beat"]
        self._unknown, self._given_queues, self._draft = found["unknown"], found["queues"], draft
        self._zone = self._settings.get("timezone") or options.timezone
        self._default = self._settings.get("task_default_queue", "celery")
        #: name of a task in Celery → that in the file
        self._names: dict[str, str] = {}

    def put(self) -> None:
        """Put everything into the draft."""
        for key in sorted(self._settings.keys() - _TAKEN):
            self._draft.leave_out(key, _WITHOUT.get(key, _UNSUPPORTED))
        for key in self._unknown:
            self._draft.leave_out(key, "Celery has no such setting")
        address = self._settings["broker_url"]
        take_broker(address[0] if isinstance(address, list) and address else address, self._draft)
        for name in self._given_queues:
            self._queue(name)
        self._defaults()
        self._group()
        for name, task in self._tasks.items():
            self._task(name, task)
        self._unmatched()
        for name, item in self._beat.items():
            self._schedule(name, item)

    def _queue(self, name: str) -> str:
        return DEFAULT_QUEUE if name == self._default == "celery" else self._draft.queue(name)

    def _defaults(self) -> None:
        defaults = self._draft.of_tasks
        if self._settings.get("task_acks_late"):
            defaults.values["retry"] = self._late()
            defaults.say("task_acks_late: a job of a lost worker runs again; an exception ends it")
        else:
            defaults.values["retry"] = "none"
            defaults.say("as Celery without task_acks_late: each job begins once; see `retry`")
        defaults.values["timeout"] = self._timeout(self._settings, "task_") or "1d"
        if defaults.values["timeout"] == "1d":
            defaults.say("Celery ends no task by itself; here each one has a timeout")
        if self._settings.get("task_ignore_result"):
            defaults.values["result"] = "ignore"
        if expires := _seconds(self._settings.get("result_expires")):
            defaults.values["result_ttl"] = written(expires)
        elif "result_expires" in self._settings:
            self._draft.leave_out(f"result_expires: {self._settings['result_expires']}", "`result_ttl` is a duration")

    def _late(self) -> str:
        return self._draft.put("retry_policies", "celery", {"max_attempts": 1, "max_crashes": 2})

    def _group(self) -> None:
        processes = self._settings.get("worker_concurrency") or "auto"
        values: dict[str, Any] = {"queues": [self._queue(self._default)], "processes": processes}
        comments = []
        pool = self._settings.get("worker_pool", "prefork")
        if pool in ("gevent", "eventlet", "threads"):
            concurrency = 10 if processes == "auto" else processes
            values |= {"processes": 1, "isolation": "process", "executor": "thread", "concurrency": concurrency}
            comments = [f"worker_pool {pool}: the jobs of a child run in threads"]
        values["isolation"] = "process"
        if jobs := self._settings.get("worker_max_tasks_per_child"):
            values["max_jobs"] = jobs
        if memory := self._settings.get("worker_max_memory_per_child"):
            values["max_memory"] = f"{memory}KiB"
        self._draft.of_workers.values |= {"directory": "."}
        self._draft.of_workers.say("where your packages are; `python: .venv/bin/python` names their interpreter")
        self._draft.group(MAIN, values, *comments)

    def _unmatched(self) -> None:
        """Routes and annotations of tasks that this application does not have."""
        for key in ("task_routes", "task_annotations"):
            given = self._settings.get(key)
            for each in given if isinstance(given, list) else [given]:
                for pattern in each if isinstance(each, dict) else []:
                    if not any(fnmatchcase(name, pattern) for name in self._tasks):
                        self._draft.leave_out(f"{key}: {pattern}", "no task of the application has this name")

    def _task(self, name: str, given: dict[str, Any]) -> None:
        """Declare a task; a comment if no function can be named for it."""
        if "run" in given and given["run"] is None:
            self._draft.leave_out(f"task {name}", "it is a class: declare it with `run: package.module.function`")
            return
        values: dict[str, Any] = {"run": given.get("run", name)}
        comments = [] if "run" in given else ["the application does not know this task, which a schedule names"]
        scheduled = [_options(item) for item in self._beat.values() if item["task"] == name]
        queues = [given["queue"], *(each.get("queue") for each in scheduled)]
        queue = next((each for each in queues if each not in (None, self._default)), self._default)
        if isinstance(queue, Unknown):
            self._draft.leave_out(f"task {name}: queue", str(queue))
        elif (found := self._queue(queue)) != DEFAULT_QUEUE:
            values["queue"] = found
        timeout = self._timeout(given, "")
        if timeout and timeout != self._draft.of_tasks.values["timeout"]:
            values["timeout"] = timeout
        if given.get("ignore_result") and not self._settings.get("task_ignore_result"):
            values["result"] = "ignore"
        values |= self._rate(given.get("rate_limit"), f"task {name}, rate_limit")
        expires = [given.get("expires"), *(each.get("expires") for each in scheduled)]
        if found_seconds := next(filter(None, map(_seconds, expires)), 0.0):
            values["expires"] = written(found_seconds)
        if (priority := given.get("priority")) not in (None, self._settings.get("task_default_priority")):
            self._draft.leave_out(f"task {name}: priority {priority}", _WITHOUT["task_default_priority"])
        self._names[name] = self._draft.put("tasks", name, values | self._retry(given), *comments)

    def _retry(self, given: dict[str, Any]) -> dict[str, str]:
        """The retry policy of a task, if it is not that of `defaults`."""
        late, retried = given.get("acks_late"), given.get("autoretry_for") or []
        more = given.get("retry_kwargs") or {}
        retries = more.get("max_retries", given.get("max_retries", 3))
        delay = _seconds(more.get("countdown", given.get("default_retry_delay", 180)))
        if not retried and (retries, delay) == (3, 180):
            if bool(late) == bool(self._settings.get("task_acks_late")) or "run" not in given:
                return {}
            return {"retry": self._late() if late else "none"}
        values: dict[str, Any] = {"max_attempts": min(max(retries, 0), 999) + 1 if isinstance(retries, int) else 1000}
        values |= {"backoff": "fixed", "delay": written(delay)}
        factor = given.get("retry_backoff")
        if backoff := 1.0 if factor is True else _seconds(factor):
            longest = _seconds(given.get("retry_backoff_max")) or 600
            values |= {"backoff": "exponential", "delay": written(max(1, int(backoff))), "max_delay": written(longest)}
        if retried and not {"Exception", "BaseException"} & set(retried):
            values["retry_on"] = retried
        comments = (
            [] if retried else ["in Celery for exceptions of `self.retry`; here for all but those of `give_up_on`"]
        )
        return {"retry": self._draft.put("retry_policies", f"retries_{retries}", values, *comments)}

    def _timeout(self, given: Mapping[str, Any], prefix: str) -> Any:
        """The soft and the hard limit, in seconds."""
        soft, hard = (_seconds(given.get(f"{prefix}{name}")) for name in ("soft_time_limit", "time_limit"))
        if soft and hard and soft < hard:
            return {"soft": written(soft), "hard": written(hard)}
        return written(soft or hard) if soft or hard else None

    def _rate(self, rate: Any, where: str) -> dict[str, Any]:
        found = _RATE.fullmatch(f"{rate}/s" if isinstance(rate, int) else str(rate))
        if found is None or not int(found[1]):
            if rate is not None:
                self._draft.leave_out(f"{where}: {rate}", "a rate is written 10/s or 100/1m")
            return {}
        return {"limit": {"rate_limit": f"{found[1]}/{'' if found[2] == 's' else 1}{found[2]}"}}

    def _schedule(self, name: str, item: dict[str, Any]) -> None:
        where = f"beat_schedule: {name}"
        task, timing = self._names.get(item["task"]), self._timing(item, where)
        arguments = {key: item[key] for key in ("args", "kwargs") if item.get(key)}
        if has_unknown(arguments):
            self._draft.leave_out(where, "an argument is not JSON")
        elif task is None:
            self._draft.leave_out(where, f"its task {item['task']!r} is not declared")
        elif timing is not None:
            given = _options(item)
            queue = self._draft.sections["tasks"][task].values.get("queue", DEFAULT_QUEUE)
            if isinstance(given.get("queue"), str) and self._queue(given["queue"]) == queue:
                del given["queue"]
            for key in sorted(given.keys() - {"task", "every", "crontab", "args", "kwargs", "options", "expires"}):
                self._draft.leave_out(f"{where}, {key}", "write it into the task; an entry of `cron` has no such key")
            self._draft.put("cron", name, {"task": task, **timing, "overlap": "allow", **arguments})

    def _timing(self, item: dict[str, Any], where: str) -> dict[str, Any] | None:
        """The keys of an entry that say when it ticks; None, and a comment, if nothing here does."""
        fields = [field.replace(" ", "").lower() for field in item.get("crontab", [])]
        if fields and fields[2] != "*" and fields[4] != "*":
            reason = "Celery runs it when both day fields match; here one of them is enough"
            self._draft.leave_out(f"{where}: {' '.join(fields)}", reason)
        elif fields:
            return {"schedule": " ".join(fields), **({"timezone": self._zone} if self._zone else {})}
        elif every := _seconds(item["every"]):
            return {"every": written(every)}
        else:
            self._draft.leave_out(f"{where}: {item['every']}", "it has no counterpart here")
        return None


def _seconds(value: Any) -> float:
    """A number of seconds; 0: it is none."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 10**9
    return float(value) if known else 0.0


def _options(item: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a schedule, and those of its `options`."""
    return {**item, **(item.get("options") or {})}
