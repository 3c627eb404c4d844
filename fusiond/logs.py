"""
Logging that never blocks its caller.

1. format   a record, in the caller: a line of text or of JSON, control characters escaped, fields capped
2. queue    the line; if the queue is full, the line is dropped and counted
3. write    in a thread: to standard output or the file, and to the program's tail file. systemd's journal stores the
            time itself, so lines go to it without the time, and with the level in its own form

Fields are passed as `log.info("done", extra={"job": id, "task": name, "attempt": n})`.
Standard library only: every program of the daemon logs through this module.
"""

import contextlib
import json
import logging
import os
import queue
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

#: level, bytes
Line = tuple[int, bytes]

#: lines that may wait for the writer
QUEUE = 10_000
#: characters of a message, a field, a traceback
MESSAGE, FIELD, TRACE = 33_000, 2048, 16384
#: bytes of a tail file; once it is full, it keeps its second half
TAIL = 256 * 1024
#: seconds between two writes: lines that follow soon after others are written together
GATHER = 0.01
#: seconds between two checks whether the log file was renamed
ROTATED = 1.0

#: level, DEBUG to CRITICAL → the first bytes of a line for the journal, by sd-daemon(3)
_PRIORITIES = {10: b"<7>", 20: b"<6>", 30: b"<4>", 40: b"<3>", 50: b"<2>"}
#: characters of the time at the beginning of a text line, which the journal does not get
_MOMENT = len("2026-01-31T09:00:00.123Z ")

STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
#: a field that holds a traceback, which a job's process has formatted
EXCEPTION = "exception"
#: C0, DEL, C1 and the separators that some viewers take for a line's end or a change of direction
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_IN_TEXT = {n: f"\\x{n:02x}" if n < 0x100 else f"\\u{n:04x}" for n in _CONTROLS} | {9: "\\t", 10: "\\n", 13: "\\r"}
_IN_JSON = {n: f"\\u{n:04x}" for n in _CONTROLS if n >= 0x7F}


def setup(settings: Any, program: str, tail: Path | None = None) -> None:
    """
    Send what this process logs to where `settings` says. Replaces an earlier setup.

    Args:
        settings: `logging` of the Config: level, format (`text` or `json`), file (None: standard output).
        program: marks each line, such as `worker:main@3`.
        tail: a file that keeps the last lines, at most TAIL bytes; None: there is none.

    Raises:
        OSError: the file cannot be opened; the earlier setup stays.
    """
    output = LogOutput(settings.file, tail, 0 if settings.format == "json" else _MOMENT)
    stop()
    global _handler  # noqa: PLW0603 - a process has one log, as it has one standard output
    _handler = Handler(output, partial(json_line if settings.format == "json" else text_line, program))
    # On the root, so that warnings of libraries are logged too.
    logging.getLogger().addHandler(_handler)
    _set_level(logging.getLogger(), "WARNING")
    set_level(settings.level)


def set_level(level: str) -> None:
    """Log nothing below `level` (debug, info, warning, error) from now on."""
    _set_level(logging.getLogger("fusiond"), level.upper())


def set_usual_level() -> None:
    """Set the default of the file's `logging.level` before programs are forked, which then need not set it."""
    set_level("info")


def _set_level(logger: logging.Logger, level: str) -> None:
    """As `logger.setLevel`, which writes to every logger that there is: a page of memory is copied for each."""
    if logging.getLevelName(logger.level) != level:
        logger.setLevel(level)


def stop(timeout: float = 2.0) -> None:
    """Write the lines that wait, for at most `timeout` seconds, and stop logging. May be called twice."""
    global _handler
    handler, _handler = _handler, None
    if handler is not None:
        logging.getLogger().removeHandler(handler)
        handler.stop(timeout)


class Handler(logging.Handler):
    """Formats in the caller, writes in a thread, drops lines if the thread cannot keep up."""

    def __init__(self, output: "LogOutput", line_of: Callable[[logging.LogRecord], str]) -> None:
        """`line_of`: makes the line of a record, without its line break."""
        super().__init__()
        self._line_of = line_of
        self.dropped = 0
        self._reported = 0
        self._output = output
        # A SimpleQueue allows a put from a signal handler that interrupted another put.
        self._lines: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the record's line, or count it as dropped."""
        if self._lines.qsize() >= QUEUE:
            self.dropped += 1
            return
        try:
            line = self._line_of(record)
        except Exception:  # noqa: BLE001 - a bad format string must not end the program
            self.handleError(record)
            return
        self._lines.put((record.levelno, line.encode("utf-8", "backslashreplace") + b"\n"))

    def stop(self, timeout: float) -> None:
        """Write the lines that wait and end the thread; after `timeout` seconds the daemon thread is left alone."""
        self._lines.put(None)
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self._output.close()

    def _write(self) -> None:
        line: Line | None = (0, b"")
        while line is not None:
            line, batch = self._lines.get(), []
            while line is not None:
                batch.append(line)
                if self._lines.empty() or len(batch) >= 100:
                    break
                line = self._lines.get()
            if batch or self.dropped > self._reported:
                self._output.write([*batch, *self._report_dropped()])
            # Lines of a burst are written together: to wake this thread for each would cost several times as much as
            # the lines themselves. It does not sleep while lines wait, since the queue would fill up.
            if self._lines.empty() and line is not None:
                time.sleep(GATHER)

    def _report_dropped(self) -> list[Line]:
        lost, self._reported = self.dropped - self._reported, self.dropped
        if not lost:
            return []
        text = f"{lost} log lines were dropped: the log was not read fast enough"
        record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None)
        return [(record.levelno, self._line_of(record).encode() + b"\n")]


class LogOutput:
    """Where lines go: standard output or a file that may be rotated, and the tail. Once open, it never raises."""

    def __init__(self, file: str | None, tail: Path | None, moment: int) -> None:
        """`moment`: length of the time at the beginning of each line."""
        self._path, self._moment, self._is_lost = file, moment, False
        self._fd = sys.__stdout__.fileno() if file is None and sys.__stdout__ else _open(file or os.devnull)
        self._journal = _is_journal(self._fd)
        self._looked = time.monotonic()
        self._tail = _Tail(tail) if tail else None

    def write(self, lines: list[Line]) -> None:
        """Append to both. If the disk is full or the pipe is closed, lines are lost and the program goes on."""
        text = b"".join(line for _, line in lines)
        with contextlib.suppress(OSError):  # if no new file can be opened, the old one is used
            self._follow_rotation()
        try:
            _write_all(self._fd, b"".join(self._entries(lines)) if self._journal else text)
            self._is_lost = False
        except OSError as error:
            self._say_lost(error)
        if self._tail:
            self._tail.write(text)

    def _say_lost(self, error: OSError) -> None:
        """Once, until a line is written again, on the only other place that there is."""
        if not self._is_lost and sys.__stderr__:
            self._is_lost = True
            with contextlib.suppress(OSError):
                os.write(
                    2, f"fusiond: lines of the log are lost: {self._path or 'stdout'}: {error.strerror}\n".encode()
                )

    def _entries(self, lines: list[Line]) -> Iterator[bytes]:
        for level, line in lines:
            for part in line[self._moment :].splitlines(keepends=True):
                yield _PRIORITIES.get(level, b"") + part

    def close(self) -> None:
        """Close the files."""
        if self._path is not None:
            os.close(self._fd)
        if self._tail:
            self._tail.close()

    def _follow_rotation(self) -> None:
        """Open the log file again if it was renamed, as logrotate does."""
        now = time.monotonic()
        if self._path is None or now - self._looked < ROTATED:
            return
        self._looked = now
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self._path), os.fstat(self._fd)):  # noqa: PTH116 - beside fstat
                return
        fd = _open(self._path)
        os.dup2(fd, self._fd, inheritable=False)
        os.close(fd)


class _Tail:
    """A file that keeps the last lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = open(_open(str(path), 0o600), "ab", buffering=0)  # noqa: SIM115 - until `close`

    def write(self, lines: bytes) -> None:
        with contextlib.suppress(OSError):  # the log itself has the lines
            if self._file.tell() + len(lines) > TAIL:
                kept = self._path.read_bytes()[-TAIL // 2 :]
                self._file.truncate(0)
                self._file.write(kept[kept.find(b"\n") + 1 :])
            self._file.write(lines[-TAIL // 2 :])

    def close(self) -> None:
        self._file.close()


def text_line(program: str, record: logging.LogRecord) -> str:
    """`2026-01-31T09:00:00.123Z INFO    worker:main@3  finished job=… task=…`; a traceback follows, indented."""
    fields = "".join(f" {name}={_plain(value)}" for name, value in _fields(record).items())
    message = _cap(record.getMessage(), MESSAGE).translate(_IN_TEXT)
    line = f"{_moment(record)} {record.levelname:<7} {program}  {message}{fields}"
    return "\n    ".join([line, *(part.translate(_IN_TEXT) for part in _trace(record).splitlines())])


def json_line(program: str, record: logging.LogRecord) -> str:
    """One JSON object: the fields, time, level, program, logger, message, and `exception` if there is one."""
    fields = {name: _cap(value, FIELD) if isinstance(value, str) else value for name, value in _fields(record).items()}
    line = {
        **fields,
        "time": _moment(record),
        "level": record.levelname.lower(),
        "program": program,
        "logger": record.name,
        "message": _cap(record.getMessage(), MESSAGE),
    }
    if trace := _trace(record):
        line["exception"] = trace
    text = json.dumps(line, ensure_ascii=False, default=lambda value: _cap(repr(value), FIELD))
    return text.translate(_IN_JSON)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    known = vars(record).items()
    return {name: value for name, value in known if name not in STANDARD and name != EXCEPTION and value is not None}


def _plain(value: object) -> str:
    text = _cap(str(value), FIELD).translate(_IN_TEXT)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or '"' in text else text


def _trace(record: logging.LogRecord) -> str:
    text = str(getattr(record, EXCEPTION, None) or "").rstrip()
    if record.exc_info and record.exc_info[0] is not None:
        text = "".join(traceback.format_exception(*record.exc_info)).rstrip()
    # The end of a traceback says what went wrong.
    return text if len(text) <= TRACE + 100 else "…" + text[-TRACE:]


def _moment(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def _cap(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def _is_journal(fd: int) -> bool:
    """Whether the descriptor leads to systemd's journal, by the rule of systemd.exec(5)."""
    stat = os.fstat(fd)
    return os.environ.get("JOURNAL_STREAM") == f"{stat.st_dev}:{stat.st_ino}"


def _open(path: str, mode: int = 0o640) -> int:
    # A pipe without a reader is refused (ENXIO), where it would let the opening wait for one.
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK, mode)


def _write_all(fd: int, data: bytes) -> None:
    """Write all of it; if a pipe is full, wait, even if another process made it non-blocking."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select.select([], [fd], [])


_handler: Handler | None = None
