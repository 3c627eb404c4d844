"""`fusiond task`: the tasks of all daemons' files, which of them are suspended, and suspend and resume."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fusiond.cli import arguments
from fusiond.cli.find import broker, entry
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import when

if TYPE_CHECKING:
    from fusiond.inspecting.audit import Act


def register(subparsers: Any) -> None:
    """Add `task list`, `suspend` and `resume`."""
    commands = arguments.commands_below(subparsers, "task", "[broker] List, suspend and resume tasks.")
    listing = arguments.command(commands, "list", _list)
    suspend = arguments.command(commands, "suspend", _suspend)
    resume = arguments.command(commands, "resume", _resume)
    for each in (suspend, resume):
        each.add_argument("name", metavar="NAME")
    for each in (listing, suspend, resume):
        arguments.add_broker(each)


def _list(options: arguments.Options) -> int:
    """[broker] List the tasks of all daemons' files: how many jobs are held for them, and who has suspended them."""
    from fusiond.cli.queue import complain
    from fusiond.inspecting.audit import who_suspended_task
    from fusiond.inspecting.queues import count_each
    from fusiond.schedule.held_keeping import suspended_tasks

    with broker.session(options) as session:
        tasks = session.run(session.verbs.catalogue()).tasks
        counted, unreadable = session.run(count_each(session.verbs))
        suspended = suspended_tasks(counted)
        acts = {name: session.run(who_suspended_task(session.verbs, name)) for name in suspended}
    held = [each for counts in counted.values() for each in counts.held_tasks]
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "queue": tasks[name]["queue"] if name in tasks else None,
            "held": sum(each.jobs for each in held if each.task == name),
            "suspended_by": suspended[name].what if name in suspended else None,
        }
        for name in sorted({*tasks, *suspended})
    ]
    lines = [
        (row["name"], row["queue"] or "", row["held"], _by(row["suspended_by"], acts.get(row["name"]))) for row in rows
    ]
    arguments.answer(options, rows, lambda: table(("TASK", "QUEUE", "HELD", "SUSPENDED BY"), lines, right="held"))
    return complain(unreadable)


def _by(suspended_by: str | None, act: Act | None) -> str:
    if suspended_by == "operator" and act:
        return f"{act.who}, {when(act.at, time.time() * 1000)}"
    return f"the {suspended_by}" if suspended_by else ""


def _suspend(options: arguments.Options) -> None:
    """[broker] Hold all jobs of a task that have not begun, in every queue, until it is resumed."""
    _set_suspended(options, on=True)


def _resume(options: arguments.Options) -> None:
    """[broker] Undo suspend; held jobs are back in their old places."""
    _set_suspended(options, on=False)


def _set_suspended(options: arguments.Options, *, on: bool) -> None:
    from fusiond.cli.queue import outcome

    with broker.session(options) as session:
        known = [*session.run(session.verbs.catalogue()).tasks, *session.run(session.verbs.suspended_by_operator())]
        name = entry("task", {task: task for task in known}, options.name)
        suspended = session.run(session.verbs.suspend_task(name, on=on, who=session.who))
    document = {"name": name, "suspended": suspended}
    arguments.answer(options, document, lambda: f"{name}: {outcome(on=on, suspended=suspended)}")
