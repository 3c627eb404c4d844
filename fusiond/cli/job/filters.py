"""Which jobs a command means: the filters of `job list`, which the commands that change jobs take as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fusiond.cli import arguments
from fusiond.cli.find import entry
from fusiond.cli.terminal.text import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusiond.broker.hosts.host_records import Catalogue
    from fusiond.inspecting.search import JobFilter


def add_filters(parser: Any, statuses: Sequence[str], default: str = "all") -> None:
    """Add them. `statuses`: that a job may have; `default`: which of them, in words, if none is named."""
    add = parser.add_argument
    add("--queue", metavar="Q", action="append", help="may be repeated; default: all")
    add("--status", choices=statuses, action="append", help=f"may be repeated; default: {default}")
    add("--task", metavar="TASK", action="append", default=[], help="may be repeated; default: all")
    add("--tag", metavar="TAG", action="append", default=[], help="the log tag; may be repeated")
    add("--owner", metavar="NAME", action="append", default=[], help="who answers for them; may be repeated")
    since = "that ended, began or were enqueued since: 2h, or a time in ISO 8601"
    add("--since", type=arguments.since, metavar="TIME", help=since)
    add("--until", type=arguments.since, metavar="TIME", help="the same, until then")
    add("--error", default="", metavar="TEXT", help="whose error has it in its type or message")
    add("--text", default="", metavar="TEXT", help="that have it in arguments, error or id")


def job_filter(options: arguments.Options) -> JobFilter:
    """What they say, apart from queue and status."""
    from fusiond.inspecting.search import JobFilter

    since = float("-inf") if options.since is None else options.since * 1000
    until = float("inf") if options.until is None else options.until * 1000
    tasks, tags = tuple(options.task), tuple(options.tag)
    return JobFilter(tasks, tags, options.text, since, until, error=options.error)


def of_owners(wanted: JobFilter, options: arguments.Options, catalogue: Catalogue) -> JobFilter:
    """
    The same, for the jobs of --owner alone. Raises FusionError for an unknown owner.

    A task that no file has gets a note: jobs of it may be kept.
    """
    from dataclasses import replace
    from functools import partial

    from fusiond.config.lint.suggest import nearest

    for task in options.task:
        if task not in catalogue.tasks:
            tell(f"note: no file has a task {task!r}; {nearest(task, catalogue.tasks)}")
    if not options.owner:
        return wanted
    known = {each.owner: each for each in catalogue.owners.values() if each.owner}
    for owner in options.owner:
        entry("owner", known, owner)
    return replace(wanted, is_owned=partial(catalogue.answers, options.owner))


def is_filtered(options: arguments.Options) -> bool:
    """Whether the command names jobs by what they are like."""
    return bool(options.queue or options.status or options.owner) or not job_filter(options).is_plain


def in_words(options: arguments.Options) -> str:
    """` of task send since 2030-01-31 02:00:00`: what the filters say, behind a noun; "" if they say nothing."""
    import time

    parts = [f"of {noun} {' or '.join(given)}" for noun, given in _named(options) if given]
    parts += [f"with {text!r} in the error" for text in [options.error] if text]
    parts += [f"with {text!r}" for text in [options.text] if text]
    for word, moment in (("since", options.since), ("until", options.until)):
        if moment is not None:
            parts.append(f"{word} {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(moment))}")
    return " ".join(["", *parts])


def _named(options: arguments.Options) -> list[tuple[str, Sequence[str]]]:
    return [("task", options.task), ("owner", options.owner), ("queue", options.queue or ()), ("tag", options.tag)]
