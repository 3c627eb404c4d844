"""
What tasks log with Python's `logging`, on its way to the group's log: each record as one line.

1. watch    for `logging` to be imported, by a module or by a job; a task that does not use it costs nothing
2. install  a handler on the root logger, if the loaded code has put none there, at the level of the group's log
3. vanish   as soon as the application adds a handler of its own, and give its level back

A record is written to standard error as NUL, R, the number of its level, a space and a JSON object: `message`,
`logger`, `exception` (the traceback, if there is one) and `extra` (what `extra=` gave). A record that a handler of the
application's own has printed already is left out.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any, Callable

#: characters of a record's message, of its traceback, of its fields
_MOST_MESSAGE, _MOST_TRACE, _MOST_EXTRA = 32768, 16384, 2000
_level = 30
#: the root logger's handlers, while they are ours
_ours: Any = None


def install(level: int) -> None:
    """The tasks are loaded: handle what they log from this level on, now or once `logging` is imported."""
    global _level
    _level = level
    if "logging" in sys.modules:
        _put_handler()
    else:
        sys.meta_path.insert(0, _Watch())


def set_level(level: int) -> None:
    """The group's log has another level now."""
    global _level
    if level != _level:
        _level = level
        if _ours is not None:
            _ours.set_level(level)


class _Watch:
    """Finds no module by itself; has the handler put behind the import of `logging`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002 - part of the face
        """As the import system calls it."""
        if name != "logging":
            return None
        sys.meta_path.remove(self)
        specs = (finder.find_spec(name, path) for finder in sys.meta_path)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_put(module: Any) -> None:
                run(module)
                _put_handler()

            spec.loader.exec_module = run_and_put  # type: ignore[method-assign]
        return spec


class _Handlers(list):  # type: ignore[type-arg]
    """The root logger's handlers: ours alone, which counts as none, until the application adds one."""

    def __init__(self, root: Any, handler: Any) -> None:
        super().__init__([handler])
        self._root, self._before, self._level = root, root.level, root.level
        #: the application has set the level itself
        self._is_set = False
        self._set_level = root.setLevel
        root.setLevel = self._on_set_level
        root.handlers = self

    def __len__(self) -> int:
        # `basicConfig` does nothing where there is a handler; `logging.info` calls it where there is none.
        return 0 if sys._getframe(1).f_code.co_name == "basicConfig" else 1

    def set_level(self, level: int) -> None:
        """Log from this level on, unless the application has set another than Python's own, WARNING."""
        if not self._is_set and self._before == 30:
            self._level = level
            self._set_level(level)

    def append(self, handler: Any) -> None:
        """The application's first handler: ours goes, and its level."""
        global _ours
        _ours = None
        self._root.__dict__.pop("setLevel", None)
        if not self._is_set:
            self._set_level(self._before)
        self._root.handlers = [handler]

    def _on_set_level(self, level: Any) -> None:
        self._is_set = True
        self._set_level(level)


def _put_handler() -> None:
    global _ours
    import logging

    class Handler(logging.Handler):
        """Writes to standard error, whatever `sys.stderr` is."""

        def emit(self, record: logging.LogRecord) -> None:
            """One line."""
            try:
                if not _is_printed(logging.getLogger(record.name)):
                    write(b"\0R%d %s\n" % (record.levelno, _document(record, formatter, standard)))
            except Exception:  # noqa: BLE001 - as every handler does
                self.handleError(record)

    formatter = logging.Formatter()
    standard = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
    root = logging.getLogger()
    if not root.handlers:
        _ours = _Handlers(root, Handler())
        _ours.set_level(_level)


def _is_printed(logger: logging.Logger) -> bool:
    """Whether a logger below the root has a handler that writes to this process's output."""
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    while logger.parent is not None:
        if any(getattr(handler, "stream", logger) in streams for handler in logger.handlers):
            return True
        logger = logger.parent
    return False


def _document(record: logging.LogRecord, formatter: logging.Formatter, standard: set[str]) -> bytes:
    """The record as JSON. `standard`: attributes that every record has; what is too long is cut."""
    import json

    try:
        message = record.getMessage()
    except Exception as error:  # noqa: BLE001 - arguments that do not fit, or a __str__ of the task's
        message = f"{record.msg!s} (its arguments do not fit: {type(error).__name__})"
    if len(message) > _MOST_MESSAGE:
        message = f"{message[:_MOST_MESSAGE]}… ({len(message) - _MOST_MESSAGE} more characters)"
    found: dict[str, Any] = {"message": message, "logger": record.name}
    trace = (formatter.formatException(record.exc_info) if record.exc_info else record.exc_text) or ""
    trace = f"{trace}\n{record.stack_info or ''}".strip()
    if len(trace) > _MOST_TRACE:
        # Where it was raised stands in front, and the exception's own text behind.
        front, back = trace[: _MOST_TRACE // 4], trace[-_MOST_TRACE // 4 * 3 :]
        trace = f"{front}\n… {len(trace) - _MOST_TRACE} characters …\n{back}"
    if trace:
        found["exception"] = trace
    if extra := {name: value for name, value in vars(record).items() if name not in standard}:
        found["extra"] = _fields(extra)
    return json.dumps(found).encode()


def _fields(extra: dict[str, Any]) -> dict[str, Any]:
    """What was given as `extra=`; what is not a plain value as its text, what is too long left out."""
    import json

    found: dict[str, Any] = {}
    left = _MOST_EXTRA
    for name, value in extra.items():
        # Of these classes themselves; NaN is not JSON.
        if not (value is None or type(value) in (str, int, bool) or (type(value) is float and value - value == 0)):
            try:
                value = repr(value)  # noqa: PLW2901
            except Exception:  # noqa: BLE001, S112 - whatever a class of the task's raises, the line is not lost
                continue
        left -= len(json.dumps([name, value]))
        if left < 0:
            break
        found[name] = value
    return found


def warn(message: str) -> None:
    """Write a warning of fusiond's own."""
    import json

    write(b"\0R30 %s\n" % json.dumps({"message": message, "logger": "fusiond"}).encode())


def _write(data: bytes) -> None:
    """Write to standard error, whatever `sys.stderr` is."""
    while data:
        try:
            data = data[posix.write(2, data) :]
        except BlockingIOError:  # a program that the task started has changed the pipe
            posix.set_blocking(2, True)


#: writes whole lines; a child that runs many jobs at once has another one
write: Callable[[bytes], None] = _write
