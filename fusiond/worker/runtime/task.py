"""
Dotted path → callable, exception → whether it is worth trying again, and the table of a group's tasks.

The error says which of these it is: the module does not exist, its own import failed, it has no such name, or what has
the name is not callable.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import builtins
import importlib
import json
import sys
import types
from collections import namedtuple

from . import errortext, refusals, wire
from .task_errors import EnqueuedError, ProgramFailed, TaskError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable

#: flag of a function that has `*args`
_VARARGS = 4


def load(path: str) -> Callable[..., Any]:
    """The callable at `package.module.name`, at `package.module.Class.name`, or of a command. Raises TaskError."""
    if path.startswith("{"):
        from . import command

        return command.Command(path).check()
    begun, failure = refusals.begin(), None
    try:
        found = _load(path)
    except TaskError as error:
        failure = error
    finally:
        reason = refusals.taken(path)
        refusals.end(begun)
    if reason:  # whatever else came of it
        raise EnqueuedError("IMPORT_ERROR", reason) from (failure and failure.__cause__)
    if failure is not None:
        raise failure
    return found


def load_function(path: str) -> Callable[..., Any]:
    """The function, method or callable object at the path. Raises TaskError, for a class too: a call only makes one."""
    found = load(path)
    if isinstance(found, type):
        raise TaskError("TASK_NOT_FOUND", f"{path}: is a class, not a function; name a function that uses it")
    return found


def positional(function: Callable[..., Any]) -> str | None:
    """
    The names of the parameters that a call may pass by position, with a comma between them.

    One that has no name for callers is empty. None: the function takes more of them, or it is not a plain function,
    and so may pass them on to another one, as what a decorator has made does.
    """
    bound = type(function) is types.MethodType
    plain: Any = function.__func__ if bound else function  # type: ignore[attr-defined]
    if type(plain) is not types.FunctionType or plain.__code__.co_flags & _VARARGS:
        return None
    code = plain.__code__
    names = code.co_varnames[: code.co_argcount]
    return ",".join([*[""] * code.co_posonlyargcount, *names[code.co_posonlyargcount :]][bound:])


def _load(path: str) -> Callable[..., Any]:
    module, names = _module_of(path)
    found: Any = module
    for name in names:
        try:
            found = getattr(found, name)
        except AttributeError:
            raise TaskError(
                "TASK_NOT_FOUND", f"{path}: module '{module.__name__}' has no '{'.'.join(names)}'"
            ) from None
        except BaseException as error:  # a module's own __getattr__ may raise anything
            if isinstance(error, KeyboardInterrupt):
                raise
            raise _failed(module.__name__, error) from error
    if not callable(found):
        raise TaskError("TASK_NOT_FOUND", f"{path}: is a {errortext.type_name(type(found))}, not a function")
    return found  # type: ignore[no-any-return]


def _module_of(path: str) -> tuple[Any, list[str]]:
    """The module at the longest head of the path that can be imported, and the names after it."""
    parts = path.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[:cut])
        try:
            return importlib.import_module(name), parts[cut:]
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            # A shorter head is tried only if this very module does not exist. If the module exists and something that
            # it imports does not, the path is right and the module is wrong.
            if not _is_missing(name, error):
                raise _failed(name, error) from error
    raise TaskError("IMPORT_ERROR", f"{path}: no module named '{'.'.join(parts[:-1]) or path}'")


def _is_missing(name: str, error: BaseException) -> bool:
    """Whether the error says that this very module, or a package that it lies in, is not there."""
    # What the import system raises is of that class itself; another one is a module's own, and may raise when asked.
    if type(error) is not ModuleNotFoundError or type(error.name) is not str:
        return False
    return (name + ".").startswith(error.name + ".")


def _failed(name: str, error: BaseException) -> TaskError:
    what = f"{errortext.type_name(type(error))}: {errortext.message(error)}"
    if type(error) is ModuleNotFoundError:
        what += f"; install it for {sys.executable}, or name another interpreter by `python`"
    return TaskError("IMPORT_ERROR", f"module '{name}' failed to import{_place(error)}: {what}")


def _place(error: BaseException) -> str:
    """` at FILE, line N`: the line of the module loaded last, or of the syntax error; empty if no line is known."""
    file, line = "", 0
    frame = errortext.frames(error)
    while frame is not None:
        code = frame.tb_frame.f_code
        if code.co_name == "<module>":
            file, line = code.co_filename, frame.tb_lineno
        frame = frame.tb_next
    # Of exactly that class, as the compiler raises it: another one may raise when it is asked.
    if type(error) in (SyntaxError, IndentationError, TabError):
        file, line = error.filename, error.lineno  # type: ignore[attr-defined]
    return f" at {file}, line {line}" if type(file) is str and file and type(line) is int else ""


#: the bases of a class, whatever its metaclass says of them
_bases = type.__dict__["__mro__"].__get__


def what_next(error: BaseException, row: TaskRow, also: str | None = None) -> int:
    """
    What a policy's exception names say of another attempt: wire.SNOOZE, wire.RETRY or wire.GIVE_UP.

    A name matches a class among the error's bases that is found under that name, as `validate --imports` finds it.
    Nothing is imported for a package of which nothing is loaded. `snooze_on` wins, then `give_up_on`; no `retry_on`
    means every exception. `also` is a name that matches as well.
    """
    if type(error) is ProgramFailed:
        if error.follows:
            return error.follows
        also = "ProgramFailed"
    if row.snooze_on and _matches(error, row.snooze_on, also):
        return wire.SNOOZE
    retry = not _matches(error, row.give_up_on, also) and (not row.retry_on or _matches(error, row.retry_on, also))
    return wire.RETRY if retry else wire.GIVE_UP


def _matches(error: BaseException, names: Sequence[str], also: str | None) -> bool:
    bases = _bases(type(error))
    return any(
        (also and name in (also, f"fusiond.{also}")) or any(_loaded(name) is base for base in bases) for name in names
    )


def _loaded(name: str) -> Any:
    """What a dotted name means where its package is loaded; a bare name is a built-in. None: nothing."""
    package, _, rest = name.partition(".")
    if not rest:
        return getattr(builtins, name, None)
    if package not in sys.modules:
        return None
    try:
        return _load(name)
    except BaseException:  # noqa: BLE001 - a lazy module of the user's may raise anything
        return None


class TaskRow(namedtuple("TaskRow", "run soft retry_on give_up_on snooze_on pass_job keeps_result")):
    """
    What a child must know of a task.

    Its path, or its command as JSON; its soft timeout in s; exceptions; a keyword; whether it keeps results.
    """

    __slots__ = ()


class Tasks:
    """The table, and the functions that were loaded for it; made by the fork server, copied by each fork."""

    def __init__(self, body: bytes) -> None:
        """`body`: of a TABLE frame."""
        self._functions: dict[str, Callable[..., Any]] = {}
        self.replace(body)

    def replace(self, body: bytes) -> None:
        """Follow a new table."""
        table = json.loads(body)
        self.rows = {name.encode(): TaskRow(*row) for name, row in table["tasks"].items()}
        #: names of the tasks that have a command
        self.commands = {name for name, row in self.rows.items() if row.run.startswith("{")}
        if self.commands:
            import subprocess  # noqa: F401 - before the forks, once for all of them
        #: retry policy → its exceptions, as in a row
        self._policies: dict[str, list[list[str]]] = table.get("policies", {})
        #: jobs, and bytes of resident memory, after which a child is replaced; None: no limit
        self.max_jobs: int | None = table["max_jobs"]
        self.max_memory: int | None = table["max_memory"]
        #: level of the group's log
        self.level: int = table["level"]

    def row_of_call(self, row: TaskRow, header: bytes) -> TaskRow:
        """The row with the exceptions of the retry policy that the job's header names, if it names one."""
        if b'"retry"' not in header:
            return row
        try:
            retry_on, give_up_on, snooze_on = self._policies[json.loads(header)["retry"]]
        except (ValueError, TypeError, LookupError, RecursionError):
            return row
        return row._replace(retry_on=retry_on, give_up_on=give_up_on, snooze_on=snooze_on)

    def function(self, path: str) -> Callable[..., Any]:
        """The function at the path, loaded at the first time. Raises TaskError."""
        found = self._functions.get(path)
        if found is None:
            found = self._functions[path] = load_function(path)
        return found
