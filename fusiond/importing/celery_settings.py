"""The settings of Celery in a module: of any release, in the module itself, in a class, in `app.conf`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fusiond.importing.python_settings import PythonModule

#: settings of Celery 3, as they are called since Celery 4
_OLD: Final = {
    "celerybeat_schedule": "beat_schedule", "celery_routes": "task_routes", "celery_annotations": "task_annotations",
    "celeryd_concurrency": "worker_concurrency", "celeryd_task_time_limit": "task_time_limit",
    "celeryd_task_soft_time_limit": "task_soft_time_limit", "celeryd_prefetch_multiplier": "worker_prefetch_multiplier",
    "celeryd_max_tasks_per_child": "worker_max_tasks_per_child", "celery_acks_late": "task_acks_late",
    "celeryd_pool": "worker_pool", "celery_default_queue": "task_default_queue", "celery_queues": "task_queues",
    "celery_ignore_result": "task_ignore_result", "celery_task_result_expires": "result_expires",
    "celery_always_eager": "task_always_eager", "broker_url": "broker_url", "celery_imports": "imports",
    "celery_enable_utc": "enable_utc", "celery_timezone": "timezone", "celery_result_backend": "result_backend",
    "celerybeat_scheduler": "beat_scheduler", "celery_default_rate_limit": "task_default_rate_limit",
}  # fmt: skip
#: settings that have a counterpart here
TAKEN: Final = frozenset(
    {"beat_schedule", "broker_url", "enable_utc", "result_expires", "task_acks_late", "task_annotations"}
    | {"task_default_queue", "task_default_rate_limit", "task_ignore_result", "task_queues"}
    | {"task_reject_on_worker_lost", "task_routes", "task_soft_time_limit", "task_time_limit", "timezone"}
    | {"worker_concurrency", "worker_max_memory_per_child", "worker_max_tasks_per_child", "worker_pool"}
)
_JSON: Final = "arguments and results are JSON"
_AT_ONCE: Final = "nothing to set: a group takes a job when a child is free"
#: settings that nothing here stands for, with the reason
WITHOUT: Final = {
    "result_backend": "results are kept in the broker's Redis, for `result_ttl`",
    "task_serializer": _JSON,
    "result_serializer": _JSON,
    "accept_content": _JSON,
    "worker_prefetch_multiplier": _AT_ONCE,
    "broker_transport_options": "there is no visibility timeout: a job of a lost worker is taken back after 15 s",
    "task_track_started": "it is always known whether a job has started",
    "imports": "`run` of each task names its module",
    "include": "`run` of each task names its module",
    "task_always_eager": "tests call the function",
    "beat_scheduler": "schedules in a database are not known here; write them under `cron`",
    "task_create_missing_queues": "each queue is declared",
    "broker_connection_retry_on_startup": "the daemon waits for Redis",
    "task_default_exchange": "there are queues, and no exchanges",
    "task_default_routing_key": "there are queues, and no exchanges",
    "worker_send_task_events": "`events: {}` keeps events",
    "task_send_sent_event": "`events: {}` keeps events",
    "task_default_priority": "`priority` of a task has names; with a broker of Redis, Celery runs low numbers first",
}
_KNOWN: Final = TAKEN | WITHOUT.keys()


def settings_of(module: PythonModule) -> Iterator[tuple[str, Any]]:
    """Setting, in the name of today, and value."""
    for call in module.calls:
        if call.function.endswith("Celery"):
            names = {"broker": "broker_url", "backend": "result_backend", "include": "include"}
            yield from ((names[key], value) for key, value in call.kwargs.items() if key in names)
    for attributes in (*module.classes.values(), module.names):
        yield from known_settings(attributes)
    for call in module.calls:
        if call.function.endswith(".conf.update"):
            given = {key: value for each in call.args if isinstance(each, dict) for key, value in each.items()}
            yield from known_settings({**given, **call.kwargs})


def known_settings(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The names of today of those attributes that are settings."""
    for name, value in attributes.items():
        last = name.rpartition(".conf.")[2]
        key = _OLD.get(last.lower(), last.lower().removeprefix("celery_"))
        prefixed = last.lower() in _OLD or last.upper().startswith("CELERY_")
        if prefixed and isinstance(value, dict) and value.keys() & _KNOWN:
            yield from known_settings(value)  # CELERY_CONFIG = {…}
        elif (prefixed and "." not in last and key != "config") or last in _KNOWN:
            yield key, value
