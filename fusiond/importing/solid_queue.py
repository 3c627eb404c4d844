"""
Solid Queue: config/queue.yml and config/recurring.yml, of one environment.

1. workers     each becomes a worker group; each of its threads is a process here
2. recurring   each becomes a cron entry, and a task whose command has `bin/rails runner` run the class or the code
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fusiond.importing import schedule_words
from fusiond.importing.draft import DEFAULT_QUEUE, Draft, Reference
from fusiond.importing.input_files import ImportOptions, ImportRefused, SourceText
from fusiond.importing.rails_files import RUNNER, number, program, rails_data

_GROUP: Final = "solid_queue"
_THREADS: Final = 3


def read(inputs: Sequence[SourceText], draft: Draft, options: ImportOptions) -> None:
    """Put workers and recurring tasks of each file into the draft."""
    draft.remark(RUNNER)
    draft.remark("Solid Queue reads a schedule in the zone of the application; an entry here in UTC, or `timezone`.")
    for each in inputs:
        data = _of_environment(rails_data(each, draft), each.name, options)
        if "workers" in data or "dispatchers" in data:
            _workers(data, each.name, draft)
        else:
            for name, item in data.items():
                _recurring(name, item, f"{each.name}: {name}", draft, options)
    draft.of_tasks.values |= {"retry": "none", "timeout": "1d"}
    draft.of_tasks.say(
        "Active Job retries what `retry_on` of a class says; by itself a job runs once, without a timeout"
    )
    draft.of_workers.values |= {"directory": "."}
    draft.of_workers.say("the directory of the Rails application, where bin/rails is")


def _of_environment(data: dict[str, Any], where: str, options: ImportOptions) -> dict[str, Any]:
    """The section of the environment; the whole file if it has no sections."""
    found = data.get(options.environment)
    if isinstance(found, dict):
        return found
    items = [item for item in data.values() if isinstance(item, dict)]
    if "workers" in data or "dispatchers" in data or any("schedule" in item for item in items):
        return data
    sections = ", ".join(sorted(data)) or "nothing"
    raise ImportRefused(f"{where} has no section {options.environment}; it has {sections}: name one with --environment")


def _workers(data: dict[str, Any], where: str, draft: Draft) -> None:
    if "dispatchers" in data:
        draft.leave_out(f"{where}: dispatchers", "nothing to set: the groups take over delayed jobs")
    for item in data["workers"] if isinstance(data.get("workers"), list) else []:
        if isinstance(item, Mapping):
            _worker(item, where, draft)


def _worker(item: Mapping[str, Any], where: str, draft: Draft) -> None:
    queues = _queues(item.get("queues", "*"), where, draft)
    if not queues:
        return
    values: dict[str, Any] = {"queues": queues, "order": "strict"}
    if queues == "*" or len(queues) == 1:
        del values["order"]
    threads = number(item.get("threads", _THREADS), f"{where}: threads", draft) or _THREADS
    processes = number(item.get("processes", 1), f"{where}: processes", draft) or 1
    comment = f"{processes} × {threads} threads of Solid Queue; each is a process here"
    if isinstance(threads, int) and isinstance(processes, int):
        values["processes"] = threads * processes
    else:
        values["processes"] = processes if isinstance(processes, Reference) else threads
    if "polling_interval" in item:
        draft.leave_out(f"{where}: polling_interval", "nothing to set: a group is told of a job at once")
    draft.group(_GROUP, values, comment)


def _queues(given: Any, where: str, draft: Draft) -> list[str] | str:
    """A list of queues, or "*"."""
    names = [str(name).strip() for name in (given if isinstance(given, list) else str(given).split(","))]
    for pattern in (name for name in names if name.endswith("*") and name != "*"):
        draft.leave_out(f"{where}: queues, {pattern}", 'a group names each queue, or all with "*"')
    if "*" in names:
        if len(names) > 1:
            draft.leave_out(f"{where}: queues {', '.join(names)}", '"*" stands alone: all queues, in turn')
        return "*"
    return list(dict.fromkeys(draft.queue(name) for name in names if not name.endswith("*")))


def _recurring(name: str, item: Any, where: str, draft: Draft, options: ImportOptions) -> None:
    if not isinstance(item, Mapping) or not isinstance(item.get("schedule"), str):
        draft.leave_out(where, "it has no schedule that is known before Ruby runs")
        return
    argv: list[str] | None
    if isinstance(item.get("command"), str):
        task, argv = name, ["bin/rails", "runner", item["command"]]
    else:
        task = str(item.get("class"))
        argv = program(item.get("class"), item.get("args"), where, draft, is_active_job=True)
    if argv is None:
        return
    if item.get("priority"):
        draft.leave_out(f"{where}, priority", "`priority` of the task has names, and higher numbers first")
    found: dict[str, Any] = dict(schedule_words.timing(item["schedule"]))
    if options.timezone and "schedule" in found:
        found.setdefault("timezone", options.timezone)
    queue = draft.queue(str(item.get("queue") or DEFAULT_QUEUE))
    values = {"task": draft.command(task, queue, argv), **found, "overlap": "allow"}
    description = [str(item["description"])] if item.get("description") else []
    draft.put("cron", name, values, f"{where}: {item['schedule']}", *description)
