r"""
Commands of tasks, and the calls of them that the file has: what the program would get, and what it would be refused.

1. keys        of commands at a function's task, and of functions at a command
2. words       a `$(` that is no placeholder; placeholders without a parameter, in the program, and in code
3. parameters  that fill nothing, and patterns that are no regular expressions
4. statuses    with two meanings
5. calls       of cron entries, steps of flows, and callbacks: arguments that the command does not accept

Nothing is started, and no file is looked for: `machine.py` does that.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fusiond.config.kinds import WORD
from fusiond.config.layers import node_of, place_of
from fusiond.config.lint.calls import DeclaredCall, calls
from fusiond.config.lint.suggest import listed
from fusiond.config.model import Config, Task
from fusiond.config.model.commands import OF_COMMANDS, OF_FUNCTIONS, Parameter, placeholders
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node

_NO_PLACEHOLDER: Final = re.compile(rf"(?<!\$)\$\((?!{WORD}\))")
_LITERAL: Final = "write $$( for a literal $("
#: words behind an interpreter's name, each with a NUL at its end
_OPTIONS: Final = r"\0(?:(?:[-+][^\0]*|pipefail)\0)*"
#: words that end with one that an interpreter takes as code, or with an option that has code in it: -eCODE
_CODE: Final = re.compile(
    rf"[\0/](?:(?:(?:ba|da|z|k|a|fi)?sh|(?:python|pypy)[\d.]*){_OPTIONS}-\w*c"
    rf"|(?:perl|ruby|node|nodejs)[\d.]*{_OPTIONS}-(?:\w*[eE]|-eval))"
    r"(?:\w*\0(?:[-+][^\0]*\0)*)?[^\0]*\Z"
)
#: so many words before a placeholder are looked at
_NEAR: Final = 12
#: what a pattern that is no regular expression raises
_BROKEN: Final = (re.error, ValueError, OverflowError, RecursionError)
#: bytes of one value that worker/runtime/command.py accepts
_LONGEST: Final = 4096


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each mistake in a command, and each call that its program would never get."""
    for name, task in config.tasks.items():
        for key, said in task.callbacks.items():
            target = config.tasks.get(said.task or "")
            if target and target.command and (target.parameters or target.stdin is None):
                message = f"{key}: the command of {target.name!r} gets an `event`, a map, which fills no placeholder"
                remedy = f"write stdin: arguments in task {target.name!r}, and no parameters"
                yield place_of(root, "tasks", name, key).error("bad-arguments", message, remedy)
        if node := root.get("tasks", name):
            yield from _keys(node, task)
            yield from _words(node, task)
            yield from _parameters(node, task)
            yield from _statuses(node_of(root, "tasks", name, "exit_status"), task)
    for call in calls(root, config):
        yield from _call(call) if call.task.command else ()


def _keys(node: Node, task: Task) -> Iterator[Problem]:
    result = ("result",) if task.result.startswith("stdout") else ()
    for key in OF_FUNCTIONS if task.command else (*OF_COMMANDS, *result):
        if (given := node.get(key)) and given.value is not None:
            message = f"{key} has no meaning for a {'command' if task.command else 'function'}"
            yield node.keys[key].error("command-key", f"tasks.{task.name}: {message}", "remove it")


def _words(node: Node, task: Task) -> Iterator[Problem]:
    for at, (word, item) in enumerate(zip(task.command, node.items("command"), strict=True)):
        if _NO_PLACEHOLDER.search(word):
            message = "this $( begins no placeholder, which is a name of letters, digits and _ between $( and )"
            yield item.place.error("broken-placeholder", message, _LITERAL)
        for name in placeholders(word):
            if at == 0:
                message, remedy = f"$({name}) is in the program, which no caller may choose", "write one task for each"
                yield item.place.error("placeholder-in-program", message, remedy)
            elif is_code(task.command, at):
                remedy = f"pass it as a further argument: [sh, -c, 'echo \"$1\"', sh, $({name})]; or {_LITERAL}"
                yield item.place.error("placeholder-in-code", f"what fills $({name}) would be run as code", remedy)
            elif name not in task.parameters:
                message = f"$({name}) has no parameter, which says what it accepts"
                remedy = f"add parameters: {{{name}: {{pattern: …}}}}; or {_LITERAL}"
                yield item.place.error("unknown-parameter", message, remedy)


def is_code(words: Sequence[str], at: int) -> bool:
    """Whether an interpreter among the words, such as `sh -c`, takes the word with this index as code."""
    return bool(_CODE.search("\0".join(["", *words[max(0, at - _NEAR) : at + 1]])))


def _parameters(node: Node, task: Task) -> Iterator[Problem]:
    used = {name for word in task.command for name in placeholders(word)}
    for name, place in node.names("parameters").items() if task.command else ():
        if name not in used and task.stdin is None:
            message = f"the parameter {name!r} fills nothing: no word of the command has $({name})"
            yield place.error("unused-parameter", message, "remove it, or write stdin: arguments")
        try:
            re.compile(task.parameters[name].pattern or "", re.ASCII)
        except _BROKEN as error:
            message, where = f"it is no regular expression: {error}", node.nearest("parameters", name, "pattern")
            yield where.error("broken-pattern", message, "write one of Python's module re")


def _statuses(node: Node | None, task: Task) -> Iterator[Problem]:
    meanings = dict.fromkeys(task.exit_status.success, "success")
    for key in ("retry", "snooze") if node is not None else ():
        for item, status in zip(node.items(key), getattr(task.exit_status, key), strict=True):
            if (meaning := meanings.setdefault(status, key)) != key:
                message = f"the exit status {status} is in {key} and in {meaning}"
                yield item.place.error("two-meanings", message, "leave it in one of them; success is [0] by default")


def _call(call: DeclaredCall) -> Iterator[Problem]:
    rules, reads_all, of = call.task.parameters, call.task.stdin is not None, f"task {call.task.name!r}"
    known = f"its parameters: {listed(rules) or 'none'}"
    if call.args and not reads_all:
        message = f"{call.name}: {of} is a command, and takes arguments by name only"
        yield call.node.keys["args"].error("bad-arguments", message, f"write kwargs; {known}")
    for name in sorted(rules.keys() - call.kwargs.keys()):
        yield call.place.error("bad-arguments", f"{call.name}: {of} needs the keyword {name!r}", known)
    for name, key in call.keys.items():
        if name not in rules and not reads_all:
            yield call.argument(name).error("bad-arguments", f"{call.name}: {of} has no parameter {name!r}", known)
        elif name in rules and key == "kwargs" and not accepts(rules[name], call.kwargs[name]):
            message = f"{call.name}: {of} does not accept this value of {name!r}"
            remedy = f"write a number or text that its pattern or enum has{'' if rules[name].leading_dash else ', without - before it'}"
            yield call.node.nearest(key, name).error("bad-arguments", message, remedy)


def accepts(rule: Parameter, value: Any) -> bool:
    """Whether a value can fill the placeholder; worker/runtime/command.py decides by the same rules."""
    text = str(value) if type(value) in (int, float) else value
    if not isinstance(text, str) or len(text.encode(errors="replace")) > _LONGEST:
        return False
    if text.startswith("-") and not rule.leading_dash:
        return False
    with contextlib.suppress(*_BROKEN):
        return text in rule.enum if rule.pattern is None else bool(re.fullmatch(rule.pattern, text, re.ASCII))
    return True
