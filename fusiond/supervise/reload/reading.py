"""
Read and validate the file in a helper process: the supervisor's loop never waits for YAML, and never loads it.

For a reload the helper writes the candidate snapshot, for a plan it says what a reload would do. What it prints is
described in `fusiond/config/candidate.py`.
"""

from __future__ import annotations

import glob
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fusiond
from fusiond.config.accepted.plan import Effects
from fusiond.config.lint.reports import as_text
from fusiond.config.model import rebuild
from fusiond.config.problems import Problem
from fusiond.supervise.reload.outcome import Refused
from fusiond.supervise.supervisord.process import describe_exit
from fusiond.supervise.watch import Fingerprint, fingerprint_as_read

#: seconds that the helper may take
DEADLINE = 30.0
#: seconds between two looks of the daemon's start at whether the helper has ended
_PAUSE = 0.01
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Result:
    """What the helper found; the fields are those that it prints."""

    #: sha256 hex of what the file says; "": the file cannot be used
    hash: str = ""
    problems: tuple[Problem, ...] = ()
    #: patterns of every file that was read, and the globs that were searched
    files: tuple[str, ...] = ()
    #: path → what the file was when it was read, as `config.yaml.nodes.tell_apart` returns it
    stats: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: the key of the file, whatever else is wrong with the file
    state_directory: str | None = None
    #: group → digest of its environment files
    environment_files: Mapping[str, str] = field(default_factory=dict)
    #: key → file, line and column: of each task's `run`, and of each key that a reload cannot change
    places: Mapping[str, tuple[str, int, int]] = field(default_factory=dict)
    #: of a plan: what a reload would do
    effects: Effects | None = None

    def refusal(self) -> Refused:
        """Why the file cannot be used."""
        return Refused(as_text(self.problems), self.problems)


@dataclass(slots=True)
class LastRead:
    """What is known of the file from its last reading."""

    #: files and globs that the configuration is made of
    files: tuple[str, ...]
    #: of these files, just before they were read
    seen: Fingerprint = ()
    #: sha256 hex of what the file said; "": it could not be used
    hash: str = ""

    def add(self, source: Path, files: Sequence[str], stats: Mapping[str, Sequence[int]]) -> None:
        """Note which files were read; what is new among them is marked as it was when it was read."""
        watched = watched_files(source, files)
        if watched != self.files:
            self.files, self.seen = watched, fingerprint_as_read(watched, stats)


def watched_files(source: Path, files: Sequence[str] = ()) -> tuple[str, ...]:
    """Globs: a change to a matching file triggers a reload. These are the file itself and what it includes."""
    return tuple(dict.fromkeys([glob.escape(str(source)), *files]))


def read(source: Path, request: Mapping[str, Any], *, development: bool) -> Generator[float, None, Result]:
    """
    Read the file, a step at each turn of the loop; the end of the helper wakes the loop by SIGCHLD.

    Args:
        source: the YAML file.
        request: what the helper is asked, beside these.
        development: whether to take the file as `fusiond dev` does.

    Yields:
        the monotonic time at which to resume it at the latest.

    Raises:
        Refused: the helper took too long.
        OSError: the helper cannot be started.
    """
    deadline = time.monotonic() + DEADLINE
    asked = json.dumps({"version": fusiond.__version__, "file": str(source), "development": development, **request})
    # Files and not pipes: nobody empties a pipe while the helper runs.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fusiond.config.candidate", asked],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise Refused(f"{source} was not read within {DEADLINE:.0f} s: the machine is too busy; try again")
                yield deadline
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        errors.seek(0)
        return _result(output.read(), errors.read(), process.returncode)


def read_now(source: Path, request: Mapping[str, Any], *, development: bool) -> Result:
    """As `read`, for a caller without a loop: it waits for the helper."""
    steps = read(source, request, development=development)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        time.sleep(_PAUSE)


def _result(output: bytes, errors: bytes, status: int) -> Result:
    """What the helper printed. `status` is 0 if supervisor reaped the helper first; then it has logged the status."""
    try:
        result: Result = rebuild(Result, json.loads(output))
    except (ValueError, KeyError, TypeError):
        text = errors.decode(errors="replace").strip()
        log.exception("the helper that reads the file ended with %s, without a result: %s", describe_exit(status), text)
        last = text.splitlines()[-1] if text else f"the helper ended with {describe_exit(status)} and without a result"
        reason = f"the file could not be validated: {last}"
        return Result(problems=(Problem("fusiond", 0, 0, "error", "internal", reason),))
    return result
