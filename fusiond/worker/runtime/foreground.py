"""
Run one task in the terminal that asked: `fusiond call`.

1. read    the request, JSON on the command line
2. load    the task, the group's directory first on sys.path
3. call    it, with the terminal as its input and output: `breakpoint()` works
4. say     the result as JSON, or the traceback of the task's own frames

No Redis, no lease, no retry, no timeout. Run by the group's interpreter as a module of a private package, so that
no name of the application's is shadowed. Standard library only, CPython 3.9 and later.
"""

from __future__ import annotations

import bdb
import json
import os
import signal
import sys
import time
from types import CoroutineType
from typing import Any, Callable

from . import errortext
from .passed_job import PassedJob
from .payload import TaskFailed, check_arguments, check_ran, result_json, trace
from .task import load_function
from .task_errors import TaskError

#: what the group's interpreter is started with; its arguments are the request and the directories of our files
BOOT = (
    "import sys, types; p = types.ModuleType('_fusiond'); p.__path__ = sys.argv[2:]; sys.modules['_fusiond'] = p; "
    "from _fusiond.foreground import main; sys.exit(main(sys.argv[1]))"
)


def main(text: str) -> int:
    """Run what the request names; returns the exit status: 0, or 1 where the task cannot be run, or raised."""
    request = json.loads(text)
    # `-c` puts "" first, but a task that changes the working directory must not change what is imported next.
    sys.path[:] = [os.getcwd(), *filter(None, sys.path)]
    sys.argv = [request["run"]]
    args, kwargs = request["args"], request["kwargs"]
    if request["pass_job"]:
        deadline = time.time() + request["soft"]
        known = {"id": "call", "round": 1, "attempt": 1, "deadline": deadline}
        known |= {"key": None, "meta": None, "traceparent": None}
        kwargs[request["pass_job"]] = PassedJob(known, _say)
    if request["run"].startswith("{"):
        # A command's program must end with this process.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
    try:
        start = load_function(request["on_start"]) if request["on_start"] else None
        function = load_function(request["run"])
        check_arguments(function, args, kwargs)
    except (TaskError, TaskFailed) as error:
        print(f"fusiond: {error}", file=sys.stderr)
        return 1
    return _call(start, function, args, kwargs)


def _say(share: float, message: str) -> None:
    """What the task says of how far it is."""
    print(f"progress: {share:.0%}{message and ' ' + message}", file=sys.stderr)


def _call(
    start: Callable[[], Any] | None, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
) -> int:
    try:
        result = _result(start() if start else None, function, args, kwargs)
    except (KeyboardInterrupt, bdb.BdbQuit):  # the person has left, in the task or in the debugger
        return 130
    except (TaskError, TaskFailed) as error:  # of a command
        print(f"fusiond: {error}", file=sys.stderr)
        return 1
    except BaseException as error:  # noqa: BLE001 - whatever the task raises is its outcome, sys.exit(0) too
        print(trace(error) or f"fusiond: {error}\n", end="", file=sys.stderr)
        return 1
    try:
        result_json(result)
    except TaskFailed as error:
        if error.code != "RESULT_TOO_LARGE":  # a terminal has room for it
            print(f"fusiond: {error}: {_shown(result)}", file=sys.stderr)
            return 1
    print(json.dumps(result, ensure_ascii=False))
    return 0


def _result(started: Any, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What the task returns; `started`: what `on_start` has returned, a coroutine maybe."""
    if isinstance(started, CoroutineType):
        import asyncio
        import inspect

        if inspect.iscoroutinefunction(function):
            return asyncio.run(_both(started, function(*args, **kwargs)))
        started = asyncio.run(started)
    check_ran(started)
    result = function(*args, **kwargs)
    if isinstance(result, CoroutineType):
        import asyncio

        result = asyncio.run(result)
    return result


async def _both(started: CoroutineType[Any, Any, Any], result: CoroutineType[Any, Any, Any]) -> Any:
    """What the task returns, after its group's `on_start` and in the same loop."""
    check_ran(await started)
    return await result


def _shown(result: object) -> str:
    """What the task returned; it may fail to describe itself, or be nested too deep to."""
    try:
        return f"{result!r:.200}"
    except Exception:  # noqa: BLE001 - whatever a class of the task's raises
        return f"a {errortext.type_name(type(result))}"
