"""
A file with a line for each arrival and each attempt, as JSON, which `fusiond simulate` replays.

1. begin   the first line of each file says that it is a recording, and when it began
2. write   arrivals and attempts; of ids and keys the HMAC alone, of arguments and results nothing

The key of the HMAC is in the file `<path>.secret`: after a restart, and in a rotated file, a job must have the same
name as before, and a line that is written twice must be recognized.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from fusiond.broker.event_reading import LOST
from fusiond.config.model.event_log import Sink
from fusiond.files import read_secret, write_atomically
from fusiond.sinks.file_outlet import FileOutlet
from fusiond.sinks.outlets import Document

log = logging.getLogger(__name__)

#: events of attempts that have ended; a `released` one was cut off by a shutdown, and its job begins again
_ENDS: Final = frozenset({"finished", "failed", "retry", "snoozed", "canceled"})
#: code of an error without a type, which nothing inside the task has raised → outcome
_KILLED: Final = {"TIMEOUT": "timeout", "WORKER_CRASHED": "crashed"}


class LoadOutlet(FileOutlet):
    """Appends the lines of a recording."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._secret = b""

    def _lines(self, documents: Sequence[Document]) -> Iterable[Document]:
        self._secret = self._secret or _secret_beside(self._path)
        if not os.fstat(self._file).st_size:
            yield {"recording": 1, "from": "events", "began": f"{documents[0]['log_time'][:19]}Z"}
        for said in documents:
            job = {"job": self._digest(f"{said.get('queue')}/{said.get('job_id')}")}
            if said["event"] == LOST:
                log.warning("the recording has a gap in the queue '%s': %s", said.get("queue"), said["message"])
            elif said["event"] == "enqueued":
                yield job | self._arrival(said)
            elif said["event"] in _ENDS and "duration" in said:
                yield job | _attempt(said)

    def _arrival(self, said: Document) -> dict[str, Any]:
        line = {"task": said["task"], "at": datetime.fromisoformat(said["log_time"]).timestamp()}
        is_so = {"after": said["status"] == "deferred", "cron": said["job_id"].startswith("cron:")}
        line |= {name: True for name in is_so if is_so[name]} | {n: said[n] for n in ("delay", "flow") if n in said}
        return line | {name: self._digest(said[name]) for name in ("by", "fair_by") if name in said}

    def _digest(self, text: str) -> str:
        return hmac.digest(self._secret, text.encode(errors="backslashreplace"), "sha256")[:8].hex()


def _attempt(said: Document) -> dict[str, Any]:
    error = said.get("error", {})
    killed = None if error.get("type") else _KILLED.get(error.get("code"))
    line = {"n": said["attempt"], "took": said["duration"], "outcome": killed or said["event"]}
    line |= {"last": True} if killed and said["event"] == "failed" else {}
    return line | ({"delay": said["delay"]} if said["event"] == "snoozed" else {})


def _secret_beside(path: str) -> bytes:
    """The secret of the recording, made if there is none. Raises OSError."""
    file = Path(f"{path}.secret")
    if not file.exists():
        write_atomically(file, f"{secrets.token_hex(32)}\n".encode())
    return read_secret(file).encode()
