"""
Sidekiq: config/sidekiq.yml, and the schedules of sidekiq-cron and sidekiq-scheduler.

1. settings    queues with weights become a worker group; `limits` of sidekiq-limit_fetch become `max_running`
2. schedules   each entry is a cron entry, and a task whose command has `bin/rails runner` run the job's class
3. retries     25, or `max_retries`, as the retry policy `sidekiq`

What the classes say of themselves, `sidekiq_options`, is in Ruby code and not known here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fusiond.importing import schedule_words
from fusiond.importing.draft import DEFAULT_QUEUE, Draft, DraftEntry, Reference
from fusiond.importing.input_files import ImportOptions, SourceText
from fusiond.importing.rails_files import RUNNER, number, program, rails_data

_GROUP: Final = "sidekiq"
_CONCURRENCY: Final = 5
_TIMEOUT: Final = 25
_RETRIES: Final = 25
#: settings that nothing here stands for, with the reason
_WITHOUT: Final = {
    "verbose": "`logging: {level: debug}` logs more",
    "logfile": "`logging: {file: …}` names a file",
    "pidfile": "systemd or a container keeps track of the daemon",
    "daemon": "systemd or a container runs it in the background",
    "process_limits": "`max_running` of a queue holds for all hosts together",
    "blocking": "no queue holds back others; a group with `order: strict` prefers the first ones",
    "dynamic": 'each queue is declared; `queues: "*"` of a group serves all of them',
    "require": "the command starts the application itself",
    "tag": "a group has a name",
    "labels": "a group has a name",
    "strict": "a list of queues without weights is in strict order",
    "poll_interval_average": "nothing to set: a job that is due is noticed at once",
    "average_scheduled_poll_interval": "nothing to set: a job that is due is noticed at once",
    "dead_max_jobs": "failed jobs are kept for a time: `failure_ttl`",
    "dead_timeout_in_seconds": "failed jobs are kept for a time: `failure_ttl`",
    "reloader": "the command starts the application again",
    "max_retries": "",
}
_KNOWN: Final = {"concurrency", "timeout", "queues", "limits", "schedule", "scheduler", "max_retries", *_WITHOUT}
#: keys of a schedule's entry that are read, or that mean nothing here
_READ: Final = frozenset(
    {"cron", "every", "interval", "class", "klass", "name", "args", "queue", "queue_name", "description", "status"}
    | {"active_job", "enabled", "rails_env", "source"}
)


def read(inputs: Sequence[SourceText], draft: Draft, options: ImportOptions) -> None:
    """Put settings and schedules of each file into the draft."""
    draft.remark(RUNNER)
    draft.remark("queue, retry and the like of `sidekiq_options` are in Ruby code: write them into the task.")
    draft.remark(
        "sidekiq-scheduler reads a schedule in the zone of the application; an entry here in UTC, or `timezone`."
    )
    for each in inputs:
        data = rails_data(each, draft)
        own = data if _are_schedules(data) else _of_environment(data, each.name, draft, options)
        (_schedules if _are_schedules(own) else _settings)(own, each.name, draft, options)
    if "sidekiq" not in draft.sections["retry_policies"]:
        _retries(_RETRIES, draft)
    draft.of_tasks.values |= {"retry": "sidekiq", "timeout": "1d"}
    draft.of_tasks.say("Sidekiq ends no job by itself; here each task has a timeout")
    draft.of_workers.values |= {"directory": "."}
    draft.of_workers.say("the directory of the Rails application, where bin/rails is")


def _are_schedules(data: Mapping[str, Any]) -> bool:
    """Whether each of these says when it runs, or what; then the file has no settings."""
    words = {"cron", "every", "interval", "class", "klass"}
    return bool(data) and all(isinstance(item, Mapping) and item.keys() & words for item in data.values())


def _of_environment(data: dict[str, Any], where: str, draft: Draft, options: ImportOptions) -> dict[str, Any]:
    """The settings with those of the environment over them, and without those of others."""
    sections = {key for key, value in data.items() if key not in _KNOWN and isinstance(value, Mapping)}
    for other in sorted(sections - {options.environment}):
        draft.leave_out(f"{where}: {other}", f"it is not of the environment {options.environment}; see --environment")
    own = data.get(options.environment)
    settings = {key: value for key, value in data.items() if key not in sections}
    return {**settings, **(own if isinstance(own, dict) else {})}


def _settings(data: dict[str, Any], where: str, draft: Draft, options: ImportOptions) -> None:
    queues = _queues(data.get("queues"), draft)
    values: dict[str, Any] = {"queues": queues or [DEFAULT_QUEUE]}
    if queues and isinstance(queues, list) and not _has_weights(data.get("queues")):
        values["order"] = "strict"
    values["processes"] = _number_of(data, "concurrency", _CONCURRENCY, where, draft)
    drain = _number_of(data, "timeout", _TIMEOUT, where, draft)
    values["drain_timeout"] = drain.in_unit("s") if isinstance(drain, Reference) else f"{drain}s"
    draft.group(_GROUP, values, "each thread of Sidekiq is a process here")
    for name, limit in _map(data, "limits").items():
        if (found := number(limit, f"{where}: limits, {name}", draft)) is not None:
            draft.of_queue(name, max_running=found)
    retries = number(data["max_retries"], f"{where}: max_retries", draft) if "max_retries" in data else None
    if isinstance(retries, int):
        _retries(retries, draft)
    for key in data.keys() - {"concurrency", "timeout", "queues", "limits", "schedule", "scheduler", "max_retries"}:
        draft.leave_out(f"{where}: {key}", _WITHOUT.get(key) or "it is not a setting that is known here")
    schedules = {**_map(data, "schedule"), **_map(_map(data, "scheduler"), "schedule")}
    _schedules(schedules, where, draft, options)


def _number_of(data: dict[str, Any], key: str, default: int, where: str, draft: Draft) -> int | Reference:
    if key not in data:
        return default
    found = number(data[key], f"{where}: {key}", draft)
    return default if found is None else found


def _queues(given: Any, draft: Draft) -> list[str] | dict[str, int]:
    """The queues in their order, or with their weights, if these differ."""
    weights: Counter[str] = Counter()
    for item in given if isinstance(given, list) else []:
        name, weight = [*item, 1, 1][:2] if isinstance(item, list) and item else (item, 1)
        if isinstance(item, Mapping) and item:
            name, weight = next(iter(item.items()))
        weights[draft.queue(str(name))] += weight if isinstance(weight, int) else 1
    return dict(weights) if len(set(weights.values())) > 1 else list(weights)


def _has_weights(given: Any) -> bool:
    return any(isinstance(item, list | Mapping) and len(item) > 0 for item in given)


def _retries(retries: int, draft: Draft) -> None:
    values = {"max_attempts": retries + 1, "delay": "15s", "max_delay": "2d"}
    comment = f"as Sidekiq: {retries} retries, of any exception, with growing delays"
    draft.sections["retry_policies"]["sidekiq"] = DraftEntry(values, [comment])


def _schedules(data: Mapping[str, Any], where: str, draft: Draft, options: ImportOptions) -> None:
    for name, item in data.items():
        if isinstance(item, Mapping):
            _schedule(str(item.get("name") or name), item, f"{where}: {name}", draft, options)
        else:
            draft.leave_out(f"{where}: {name}", "it is not a schedule with a class")


def _schedule(name: str, item: Mapping[str, Any], where: str, draft: Draft, options: ImportOptions) -> None:
    class_ = _class_of(item) or name
    argv = program(class_, item.get("args"), where, draft, is_active_job=item.get("active_job") is True)
    found = _timing(item, where, draft)
    if argv is None or found is None:
        return
    environments = str(item.get("rails_env") or options.environment).replace(",", " ").split()
    if options.environment not in environments:
        draft.leave_out(where, f"it is of the environment {' '.join(environments)}; see --environment")
        return
    for key in sorted(item.keys() - _READ):
        draft.leave_out(f"{where}, {key}", "the entries of a schedule have no such key here")
    queue = draft.queue(str(item.get("queue") or item.get("queue_name") or DEFAULT_QUEUE))
    values = {"task": draft.command(str(class_), queue, argv), **found}
    if options.timezone and "schedule" in found:
        values.setdefault("timezone", options.timezone)
    if item.get("enabled") is False or item.get("status") == "disabled":
        values["suspended"] = True
    description = [str(item["description"])] if item.get("description") else []
    draft.put("cron", name, {**values, "overlap": "allow"}, where, *description)


def _timing(item: Mapping[str, Any], where: str, draft: Draft) -> dict[str, Any] | None:
    """When it ticks; None, and a comment, if that is not known."""
    readers = {"cron": schedule_words.timing, "every": schedule_words.interval, "interval": schedule_words.interval}
    for key, keys_of in readers.items():
        text = item.get(key)
        if isinstance(text, list) and text:  # ["30s", {first_in: "2m"}]
            if len(text) > 1:
                draft.leave_out(f"{where}, {key}", "only the interval was taken over: ticks are at multiples of it")
            text = text[0]
        if isinstance(text, str):
            return dict(keys_of(text))
    draft.leave_out(where, "it has neither `cron` nor `every`, so it runs once, or when Ruby says so")
    return None


def _class_of(item: Mapping[str, Any]) -> Any:
    return item.get("class") or item.get("klass")


def _map(around: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = around.get(key)
    return found if isinstance(found, dict) else {}
