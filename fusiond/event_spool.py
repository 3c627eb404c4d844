"""
Events of a daemon that are not in Redis yet, each a file in its state directory, so that whoever is killed loses none.

1. put    the supervisor and the scheduler: something has happened
2. take   the scheduler, or the publisher in its place: what is to be told, the oldest first
3. drop   it is in Redis

A program that is killed between telling and `drop` tells it again: the name of the file is given with it, and Redis
passes over the one that it was told last. Standard library only.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusiond.files import write_atomically

log = logging.getLogger(__name__)

#: files that are kept: the oldest go
_MOST = 1000


class EventSpool:
    """Those of one daemon."""

    def __init__(self, state: Path) -> None:
        """`state`: the daemon's state directory."""
        self._directory = state / "untold-events"
        self._count = 0
        #: what could not be removed
        self._told: set[str] = set()

    def put(self, event: Mapping[str, Any]) -> bool:
        """Keep what JSON can hold; whether it is kept. A full disk is said in the log."""
        self._count += 1
        name = f"{time.time_ns():020}.{os.getpid()}.{self._count}"
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            write_atomically(self._directory / name, json.dumps(event).encode(), durable=False)
            for old in self._names()[:-_MOST]:
                self.drop(old)
        except OSError as error:
            log.error("an event is kept in memory only: %s", error)
            return False
        return True

    def take(self) -> tuple[str, dict[str, Any]] | None:
        """The oldest one: its name, and what it says; None: there is none. What cannot be read is dropped."""
        for name in self._names():
            try:
                said = json.loads((self._directory / name).read_text())
            except FileNotFoundError:
                continue
            except (OSError, ValueError, RecursionError):
                said = None
            if isinstance(said, dict):
                return name, said
            self.drop(name)
        return None

    def drop(self, name: str) -> None:
        """It is told. A disk that can be written no more keeps the file, and this process passes over it."""
        try:
            (self._directory / name).unlink(missing_ok=True)
        except OSError as error:
            self._told.add(name)
            log.error("an event was told and is still there: %s", error)

    @staticmethod
    def age_ms(name: str) -> int:
        """For how long it has been there; 0: the clock was set back."""
        written = name.partition(".")[0]
        return max(0, time.time_ns() - int(written)) // 1_000_000 if written.isdecimal() else 0

    def _names(self) -> list[str]:
        try:
            names = set(os.listdir(self._directory)) - self._told  # noqa: PTH208
        except OSError:
            return []
        return sorted(name for name in names if not name.startswith("."))
