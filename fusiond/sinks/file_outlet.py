"""A file with one event in each line, as JSON. It may be rotated: if it was renamed or removed, a new one is begun."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from fusiond.config.model.event_log import Sink
from fusiond.sinks.outlets import DeliveryError, Document


class FileOutlet:
    """Appends lines; a batch is on the disk before its cursor is noted."""

    most = 500

    def __init__(self, sink: Sink) -> None:
        self._path = sink.path or ""
        self._file = -1

    def deliver(self, documents: Sequence[Document]) -> None:
        """Append them. What a full disk cut is removed, so that no line is broken. Raises DeliveryError."""
        try:
            self._open()
            lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in self._lines(documents))
            self._append(lines.encode(errors="backslashreplace"))
        except OSError as error:
            raise DeliveryError(f"{error.filename or self._path}: {error.strerror}") from error

    def _lines(self, documents: Sequence[Document]) -> Iterable[Document]:
        """What is appended to the open file for these."""
        return documents

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        if self._file >= 0:
            if _is_same(self._file, self._path):
                return
            self.close()
        # Opened for reading, too, a pipe without a reader would swallow what is written to it.
        access = os.O_WRONLY if Path(self._path).is_fifo() else os.O_RDWR
        self._file = os.open(self._path, access | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o640)
        with contextlib.suppress(OSError):  # a pipe or a terminal has no end to look at
            size = os.fstat(self._file).st_size
            # A kill in the middle of a batch has left a part of a line.
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                self._append(b"\n")

    def _append(self, data: bytes) -> None:
        size = os.fstat(self._file).st_size
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            if error.errno == errno.EINVAL and not left:  # what cannot be synced, such as a pipe
                return
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)
            raise


def _is_same(file: int, path: str) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))  # noqa: PTH116 - may be a pipe
    except FileNotFoundError:
        return False
