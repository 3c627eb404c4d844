"""
Commands of tasks, and the calls of them that the file has: what the program would get, and what it would be refused.

1. keys        of commands at a function's task, and of functions at a command
2. words       an empty program; words that a shell would read, where there is none; a `$(` that is no placeholder;
               placeholders without a parameter, in the program, and in code
3. parameters  that fill nothing, patterns that are no regular expressions, and values that are never accepted;
               arguments that no call can pass, in `secret`, `limit` and `unique`
4. statuses    with two meanings, and a snooze of jobs that begin once
5. calls       of cron entries, steps of flows, and callbacks: arguments that the command does not accept

Nothing is started, and no file is looked for: `machine.py` does that.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final

from fusiond.config.kinds import WORD
from fusiond.config.layers import place_of
from fusiond.config.lint.calls import DeclaredCall, calls
from fusiond.config.lint.suggest import listed
from fusiond.config.model import Config, Task
from fusiond.config.model.commands import OF_COMMANDS, OF_FUNCTIONS, Parameter, parts_of
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node

_NO_PLACEHOLDER: Final = re.compile(rf"(?<!\$)\$\((?!{WORD}\))")
_LITERAL: Final = "write $$( for a literal $("
_SHELLS: Final = "(?:r?ba|da|z|m?k|a|fi|t?c)?sh"
#: names of interpreters; the last letters of options whose next word belongs to them; options that take code
_INTERPRETERS: Final = (
    (_SHELLS, "oO", r"\w*c"),
    ("python|pypy", "WX", r"\w*c"),
    ("perl|ruby", "Ir", r"\w*[eE]"),
    ("node|nodejs", "r", r"\w*[ep]|-(?:eval|print)(?![\w-])"),
    ("php", "cd", r"\w*[rBRE]"),
)
#: words that end with one that an interpreter takes as code, or with an option that has code in it: -eCODE. Each word
#: has a NUL before it. Nothing is tried twice: the time is linear in their length
_CODE: Final = re.compile(
    r"[\0/](?:"
    + "|".join(
        rf"(?:{names})[\d.]*\0(?:(?:[-+]\w*[{taking}]\0[^-+\0][^\0]*|[-+][^\0]*)\0)*-(?={code})-?"
        for names, taking, code in _INTERPRETERS
    )
    + r")(?:\w*+(?:(?<=o)\0[^-+\0][^\0]*+)?+\0(?:(?:[-+]o\0[^-+\0][^\0]*+|[-+][^\0]*+)\0)*+)?+[^\0]*+\Z"
)
#: words that a shell would not pass on to a program
_OPERATORS: Final = frozenset({"|", "||", "&&", ";", ">", ">>", "<", "&"})
#: programs behind which they may be meant: shells, and programs with such operators of their own
_WITH_OPERATORS: Final = re.compile(rf"(?:{_SHELLS}|ssh|find|expr|test|\[|tr)[\d.]*")
#: what a pattern that is no regular expression raises
_BROKEN: Final = (re.error, ValueError, OverflowError, RecursionError)


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each mistake in a command, and each call that its program would never get."""
    for name, task in config.tasks.items():
        for key, said in task.callbacks.items():
            target = config.tasks.get(said.task or "")
            if target and target.command and (target.parameters or target.stdin != "arguments"):
                message = f"{key}: task {target.name!r} is a command, and the `event`, a map, fills no placeholder"
                yield place_of(root, "tasks", name, key).error("bad-arguments", message, "write stdin: arguments there")
        if node := root.get("tasks", name):
            yield from _keys(node, task)
            yield from _words(node, task)
            yield from _parameters(node, task)
            yield from _statuses(root, config, task)
    for call in calls(root, config):
        yield from _call(call) if call.task.command else ()


def _keys(node: Node, task: Task) -> Iterator[Problem]:
    kind, idle = ("command", OF_FUNCTIONS) if task.command else ("function", OF_COMMANDS)
    for key in (*idle, "result") if task.run and task.result.startswith("stdout") else idle:
        if key in node.keys and getattr(task, key) != getattr(Task(""), key):
            message = f"tasks.{task.name}: {key} has no meaning for a {kind}"
            yield node.keys[key].error("command-key", message, "remove it")


def _words(node: Node, task: Task) -> Iterator[Problem]:
    meant = False
    for at, (word, item) in enumerate(zip(task.command, node.items("command"), strict=True)):
        meant = meant or bool(_WITH_OPERATORS.fullmatch(word.rpartition("/")[2]))
        if not (at or word):
            yield item.place.error("empty", "the program is empty", "write its name or path, such as [pg_dump, shop]")
        if word in _OPERATORS and not meant and not task.command[at - 1].startswith("-"):
            remedy = "write the line as one word behind sh -c: [sh, -c, '…']"
            yield item.place.warning("no-shell", f"no shell reads {word}, and the program gets it as a word", remedy)
        if _NO_PLACEHOLDER.search(word):
            yield item.place.error("broken-placeholder", "this $( begins no placeholder such as $(name)", _LITERAL)
        for name in parts_of(word)[1::2]:
            if at == 0:
                message = f"$({name}) is in the program, which no caller may choose"
                yield item.place.error("placeholder-in-program", message, "write a task for each program")
            elif _CODE.search("\0".join(["", *task.command[max(0, at - 12) : at + 1]])):
                remedy = f"pass it as a further argument: [sh, -c, 'echo \"$1\"', sh, $({name})]; or {_LITERAL}"
                yield item.place.error("placeholder-in-code", f"what fills $({name}) would be run as code", remedy)
            elif name not in task.parameters:
                remedy = f"add parameters: {{{name}: {{pattern: …}}}}; or {_LITERAL}"
                yield item.place.error("unknown-parameter", f"$({name}) has no parameter", remedy)


def _parameters(node: Node, task: Task) -> Iterator[Problem]:
    used = {name for word in task.command for name in parts_of(word)[1::2]}
    for name, place in node.names("parameters").items() if task.command else ():
        if name not in used and task.stdin != "arguments":
            remedy = "remove it, or write stdin: arguments"
            yield place.error("unused-parameter", f"no word of the command has $({name})", remedy)
        try:
            re.compile(task.parameters[name].pattern or "", re.ASCII)
        except _BROKEN as error:
            message, where = f"it is no regular expression: {error}", node.nearest("parameters", name, "pattern")
            yield where.error("broken-pattern", message, "write one of Python's module re")
        for value in node.items("parameters", name, "enum") if not task.parameters[name].leading_dash else ():
            if value.raw.startswith("-"):
                yield value.place.error("bad-value", f"{value.raw} is never accepted", "write leading_dash: true")
    takes_any = not task.command or task.stdin == "arguments"
    for path in () if takes_any else (("secret",), ("limit", "by"), ("unique", "by")):
        for item in node.items(*path):
            if str(item.value).removeprefix("kwargs.") not in task.parameters:
                message = f"{path[0]}: no call can pass {item.value}, which is no parameter"
                remedy = f"its parameters: {listed(task.parameters) or 'none'}"
                yield item.place.error("unknown-parameter", message, remedy)


def _statuses(root: Node, config: Config, task: Task) -> Iterator[Problem]:
    place, said = place_of(root, "tasks", task.name, "exit_status"), task.exit_status
    success, retry, snooze = ({*each} for each in (said.success, said.retry, said.snooze))
    for status in sorted(success & retry | success & snooze | retry & snooze):
        remedy = "leave it in one of success, which is [0] by default, retry and snooze"
        yield place.error("two-meanings", f"the exit status {status} has two meanings", remedy)
    if task.command and snooze and config.retry_policies[task.retry].at_most_once:
        yield place.error("snooze-once", f"retry: {task.retry} lets a job begin only once", "remove snooze")
    if task.command and retry and config.retry_policies[task.retry].max_attempts == 1:
        message = f"retry: {task.retry} allows one attempt, so exit_status.retry retries nothing"
        yield place.warning("ignored-key", message, "name another policy, or remove retry")


def _call(call: DeclaredCall) -> Iterator[Problem]:
    rules, of = call.task.parameters, f"{call.name}: task {call.task.name!r}"
    known = f"its parameters: {listed(rules) or 'none'}"
    if call.args and call.task.stdin != "arguments":
        yield call.node.keys["args"].error("bad-arguments", f"{of} takes arguments by name only", known)
    for name in sorted(rules.keys() - call.kwargs.keys()):
        yield call.place.error("bad-arguments", f"{of} needs the keyword {name!r}", known)
    for name, key in call.keys.items():
        if name not in rules and call.task.stdin != "arguments":
            yield call.argument(name).error("bad-arguments", f"{of} has no parameter {name!r}", known)
        elif name in rules and key == "kwargs" and not _accepts(rules[name], call.kwargs[name]):
            message = f"{of} accepts {rules[name].pattern or listed(rules[name].enum)} as {name!r}"
            yield call.node.nearest(key, name).error("bad-arguments", message, "correct it; - needs leading_dash")


def _accepts(rule: Parameter, value: Any) -> bool:
    """Whether a value can fill the placeholder; worker/runtime/command.py decides by the same rules."""
    text = str(value) if type(value) in (int, float) else value
    good = isinstance(text, str) and (rule.leading_dash or not text.startswith("-"))
    with contextlib.suppress(*_BROKEN):
        return good and bool(re.fullmatch(rule.pattern or "|".join(map(re.escape, rule.enum)), text, re.ASCII))
    return True
