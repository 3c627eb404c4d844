"""
The settings of a Celery application, or of a module of RQ, as JSON.

The application's own interpreter runs this text: `python -c TEXT RUNNER NAME DESCRIPTOR`, in its directory. It has the
standard library, what the application has installed, and nothing of fusiond.

1. load    the application, as its own workers do: modules of tasks, signals, Django
2. ask     what is in force after that; a value that JSON cannot hold becomes {"?": the path of its type}
3. write   into the open file of that descriptor, or {"error": …}
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from datetime import timedelta
from typing import Any

_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
#: what a task of Celery's says of itself
_OF_TASK = (
    "rate_limit", "time_limit", "soft_time_limit", "max_retries", "default_retry_delay", "ignore_result", "acks_late",
    "expires", "priority", "autoretry_for", "retry_kwargs", "retry_backoff", "retry_backoff_max",
)  # fmt: skip
#: what `rq worker -c` and django-rq read
_OF_RQ = (
    "QUEUES", "REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_DB", "REDIS_PASSWORD", "REDIS_SSL", "SENTINEL", "NAME",
    "SENTRY_DSN", "DICT_CONFIG", "RQ_QUEUES",
)  # fmt: skip


def celery(name: str) -> dict[str, Any]:
    """The application of this name, as `celery -A` takes it."""
    app = importlib.import_module("celery.app.utils").find_app(name)
    app.loader.import_default_modules()
    app.finalize()
    conf, module = app.conf, importlib.import_module("celery.app.defaults")
    defaults = module.DEFAULTS
    settings = {key: plain(conf[key]) for key in defaults if conf[key] != defaults[key]}
    settings["broker_url"] = plain(conf.broker_url)
    settings["timezone"] = str(conf.timezone) if conf.timezone else None
    known = {*defaults, *(key.lower() for key in vars(module)["_TO_NEW_KEY"])}
    beat = {key: _entry(app, item) for key, item in conf.beat_schedule.items()}
    queues = list(app.amqp.queues)
    own = (each for each in app.tasks if not each.startswith("celery."))
    names = {*own, *(item["task"] for item in beat.values())}
    return {
        "settings": settings,
        "unknown": [
            key
            for key in map(str, conf)
            if key.upper().startswith("CELERY_") and not {key.lower(), key.lower()[7:]} & known
        ],
        "queues": queues,
        "beat": beat,
        "tasks": {each: _task(app, each) for each in sorted(names)},
    }


def _task(app: Any, name: str) -> dict[str, Any]:
    task = app.tasks.get(name)
    queue = getattr(task, "queue", None)
    try:
        route = app.amqp.router.route({"queue": queue} if queue else {}, name, (), {}, task)["queue"]
        found = {"queue": getattr(route, "name", route)}
    except Exception as error:  # noqa: BLE001 - a router is code of the application
        found = {"queue": {"?": f"its router failed: {type(error).__name__}"}}
    if task is None:
        return found
    function = getattr(task, "__wrapped__", None)
    said = {key: plain(getattr(task, key, None)) for key in _OF_TASK}
    return {**found, **said, "run": path_of(function) if function else None}


def _entry(app: Any, item: Any) -> dict[str, Any]:
    schedules = importlib.import_module("celery.schedules")
    schedule = schedules.maybe_schedule(item["schedule"], app=app)
    found = {key: plain(value) for key, value in item.items() if key != "schedule"}
    if isinstance(schedule, schedules.crontab):
        fields = [getattr(schedule, "_orig_" + field) for field in _FIELDS]
        return {
            **found,
            "crontab": [
                ",".join(map(str, each if isinstance(each, (list, tuple, set)) else [each])) for each in fields
            ],
        }
    every = schedule.run_every if type(schedule) is schedules.schedule else schedule
    return {**found, "every": plain(every)}


def rq(name: str) -> dict[str, Any]:
    """A module, a file of `rq cron`, or `module:object` with settings as attributes or keys."""
    path, _, attribute = name.partition(":")
    if path.startswith(os.getcwd() + "/"):
        path = os.path.relpath(path)  # of an absolute one, RQ makes a module that nobody can import
    jobs: list[Any] = []
    try:
        cron = importlib.import_module("rq.cron")
    except ImportError:  # an RQ that has no schedules
        cron = None
    if cron is not None:
        scheduler = cron.CronScheduler(connection=None, logging_level="WARNING")
        scheduler.load_config_from_file(path)
        jobs = scheduler.get_jobs()
    settings: Any = {}
    if not path.startswith("/"):
        settings = importlib.import_module(path[:-3].replace("/", ".") if path.endswith(".py") else path)
    if attribute:
        settings = getattr(settings, attribute)
    given = settings if isinstance(settings, dict) else vars(settings)
    return {
        "settings": {key: plain(given[key]) for key in _OF_RQ if given.get(key) is not None},
        "jobs": [
            {
                **plain(job.job_options), "func": path_of(job.func), "queue_name": job.queue_name,
                "args": plain(job.args), "kwargs": plain(job.kwargs), "cron": job.cron, "interval": job.interval,
            }
            for job in jobs
        ],
    }  # fmt: skip


def plain(value: Any) -> Any:
    """The value as JSON has it."""
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and abs(value) < 1e300):
        return value
    if type(value).__module__ == "kombu.entity":
        return value.name  # of a queue
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return path_of(value) if isinstance(value, type) else {"?": path_of(value)}


def path_of(value: Any) -> str:
    """The dotted path of a function or of a class; of something else, that of its class."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return named.__qualname__ if named.__module__ == "builtins" else f"{named.__module__}.{named.__qualname__}"


def main() -> None:
    """Answer, and end at once: threads of the application do not hold the answer back."""
    runner, name, descriptor = sys.argv[1:]
    sys.path.insert(0, os.getcwd())
    try:
        answer = {"celery": celery, "rq": rq}[runner](name)
    except BaseException as error:  # noqa: BLE001 - the application may raise anything, SystemExit included
        traceback.print_exc()
        answer = {"error": f"{type(error).__name__}: {error}"}
    with open(int(descriptor), "w") as file:
        json.dump(answer, file)
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
