"""
The files that keep what jobs have printed, all in one directory.

    <from>-<until>-<pid>-<n>.text     pieces, one behind the other
    <from>-<until>-<pid>-<n>.index    an entry for each of them, in the same order

The two are a segment, written by one process. `from` and `until` are hours since 1970: it has pieces of the hour
`from`, and nobody needs it from the hour `until` on. A piece is written before its entry: what has no entry is not
there.

An entry has ENTRY.size bytes: digests of the job's id and of its queue, attempt, bytes of the piece, where that begins,
epoch ms.
Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ENTRY = struct.Struct("<8s8sIIQQ")
_HOUR = 3600
#: bytes of a segment's text; one that has more is closed. Many can be deleted before `max_total` is reached
_LARGE = 64 << 20
_SHARE = 64
#: entries of a segment, which a reader looks through
_MOST_ENTRIES = 200_000
#: ms; a file may be read for so long after its last piece
_LATE = 5000


class Piece(NamedTuple):
    """A part of what one attempt has printed, to be written."""

    queue: str
    id: bytes
    attempt: int
    #: s for which it is kept
    ttl: float
    text: bytes


class KeptPiece(NamedTuple):
    """A piece in a segment. Pieces of a job sort in the order in which they were printed."""

    #: epoch ms
    at: int
    segment: str
    offset: int
    attempt: int
    size: int


#: before every piece
START = KeptPiece(0, "", 0, 0, 0)


class SegmentWriter:
    """Writes the pieces of one process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        #: (from, until) → the segment that takes pieces
        self._open: dict[tuple[int, int], _Segment] = {}

    def write(self, pieces: Iterable[Piece], max_total: int) -> None:
        """Write them, into new segments once the hour is over or one is large. Raises OSError: some may be lost."""
        now = time.time()
        hour = int(now) // _HOUR
        for of in [of for of, segment in self._open.items() if of[0] != hour or segment.is_full(max_total)]:
            self._open.pop(of).close()
        for piece in pieces:
            of = hour, hour + math.ceil(piece.ttl / _HOUR) + 1
            if of not in self._open:
                self._open[of] = _Segment.begun(self._directory, of)
            try:
                self._open[of].add(piece, int(now * 1000))
            except OSError:
                # It may have a part of the piece, and no piece may follow that.
                self._open.pop(of).close()
                raise

    def close(self) -> None:
        """Close all segments."""
        while self._open:
            self._open.popitem()[1].close()


@dataclass(slots=True)
class _Segment:
    """One that is being written."""

    text: int
    index: int
    size: int = 0
    entries: int = 0

    @classmethod
    def begun(cls, directory: Path, of: tuple[int, int]) -> _Segment:
        """A new one. Raises OSError."""
        directory.mkdir(mode=0o700, exist_ok=True)
        number = 0
        while True:
            path = directory / f"{of[0]}-{of[1]}-{os.getpid()}-{number:06}"
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                text = os.open(path.with_suffix(".text"), flags, 0o600)
            except FileExistsError:  # of an earlier process with this pid, or one that is full
                number += 1
                continue
            try:
                return cls(text, os.open(path.with_suffix(".index"), flags, 0o600))
            except OSError:
                os.close(text)
                raise

    def is_full(self, max_total: int) -> bool:
        """Whether further pieces go to another one."""
        return self.size > min(_LARGE, max_total // _SHARE) or self.entries > _MOST_ENTRIES

    def add(self, piece: Piece, at: int) -> None:
        """Raises OSError."""
        entry = ENTRY.pack(
            digest(piece.id), digest(piece.queue.encode()), piece.attempt, len(piece.text), self.size, at
        )
        _write(self.text, piece.text)
        _write(self.index, entry)
        self.size += len(piece.text)
        self.entries += 1

    def close(self) -> None:
        os.close(self.text)
        os.close(self.index)


def digest(text: bytes) -> bytes:
    """Of a job's id or a queue's name, as entries have it."""
    return hashlib.blake2b(text, digest_size=8).digest()


def pieces_behind(
    directory: Path, id_: bytes, after: KeptPiece, attempt: int | None = None, queue: str | None = None
) -> list[KeptPiece]:
    """
    What is kept of a job behind this piece, or of one attempt, in order. Raises OSError.

    `queue`: only what it has printed in this queue. A job that was moved has printed in several.
    """
    wanted, of_queue = digest(id_), None if queue is None else digest(queue.encode())
    found: list[KeptPiece] = []
    for path in directory.glob("*.index"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime_ns // 1_000_000 + _LATE >= after.at:
                found += _pieces(path, wanted, of_queue)
    return sorted(each for each in found if each > after and attempt in (None, each.attempt))


def _pieces(path: Path, wanted: bytes, of_queue: bytes | None) -> Iterator[KeptPiece]:
    data, at = path.read_bytes(), -1
    while (at := data.find(wanted, at + 1)) >= 0:
        if at % ENTRY.size == 0 and at + ENTRY.size <= len(data):
            _, found_in, attempt, size, offset, ms = ENTRY.unpack_from(data, at)
            if of_queue in (None, found_in):
                yield KeptPiece(ms, path.stem, offset, attempt, size)


def text_of(directory: Path, piece: KeptPiece) -> bytes:
    """What the piece says; empty: it was deleted. Raises OSError."""
    try:
        with (directory / f"{piece.segment}.text").open("rb") as file:
            file.seek(piece.offset)
            return file.read(piece.size)
    except FileNotFoundError:
        return b""


@dataclass(slots=True)
class _Files:
    """A segment on the disk."""

    until: int
    #: ns, when it was written last
    written: int = 0
    bytes: int = 0
    paths: list[Path] = field(default_factory=list)


def tidy(directory: Path, max_total: int) -> None:
    """Delete the segments that nobody needs any more, and the oldest of those that are too many. Raises OSError."""
    segments: dict[str, _Files] = {}
    for path in directory.glob("*-*-*-*.*"):
        if (until := path.stem.split("-")[1]).isdigit():
            segment = segments.setdefault(path.stem, _Files(int(until)))
            segment.paths.append(path)
            with contextlib.suppress(FileNotFoundError):
                found = path.stat()
                segment.bytes += found.st_size
                segment.written = max(segment.written, found.st_mtime_ns)
    hour, total = int(time.time()) // _HOUR, sum(each.bytes for each in segments.values())
    # Those of one moment, to the clock of files, by their names, which have numbers.
    for _, segment in sorted(segments.items(), key=lambda each: (each[1].written, each[0])):
        if segment.until <= hour or total > max_total:
            total -= segment.bytes
            for path in segment.paths:
                path.unlink(missing_ok=True)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
