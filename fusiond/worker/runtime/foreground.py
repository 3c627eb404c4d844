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
import sys
import time
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Callable

from . import errortext, nesting
from .payload import TaskFailed, check_arguments
from .task import TaskError, load

if TYPE_CHECKING:
    from types import TracebackType

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
        kwargs[request["pass_job"]] = {"id": "call", "attempt": 1, "deadline": deadline, "key": None, "meta": None}
    try:
        function = load(request["run"])
        check_arguments(function, args, kwargs)
    except (TaskError, TaskFailed) as error:
        print(f"fusiond: {error}", file=sys.stderr)
        return 1
    return _call(function, args, kwargs)


def _call(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> int:
    try:
        result = function(*args, **kwargs)
        if isinstance(result, CoroutineType):
            import asyncio

            result = asyncio.run(result)
    except (KeyboardInterrupt, bdb.BdbQuit):  # the person has left, in the task or in the debugger
        return 130
    except BaseException as error:  # noqa: BLE001 - whatever the task raises is its outcome, sys.exit(0) too
        print(errortext.trace(error, _without_ours(errortext.frames(error))), end="", file=sys.stderr)
        return 1
    try:
        print(_as_json(result))
    except (TypeError, ValueError) as error:
        print(f"fusiond: the result is not JSON ({error}): {_shown(result)}", file=sys.stderr)
        return 1
    return 0


def _as_json(result: object) -> str:
    """The result as a worker would store it. Raises TypeError or ValueError."""
    try:
        text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise ValueError(f"{nesting.TOO_DEEP}, or holds itself") from None
    if nesting.too_deep(text.encode(errors="surrogatepass")):
        raise ValueError(nesting.TOO_DEEP)
    return text


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is the task's."""
    while frames and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return frames


def _shown(result: object) -> str:
    """What the task returned; it may fail to describe itself, or be nested too deep to."""
    try:
        return f"{result!r:.200}"
    except Exception:  # noqa: BLE001 - whatever a class of the task's raises
        return f"a {errortext.type_name(type(result))}"
