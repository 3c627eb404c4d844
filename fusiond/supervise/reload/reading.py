"""
Wait for the helper that reads the file (helper.py), and take what it has found.
"""

from __future__ import annotations

import glob
import json
import logging
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fusiond.config.accepted.plan import Effects
from fusiond.config.lint.reports import as_text
from fusiond.config.model import rebuild
from fusiond.config.problems import Problem
from fusiond.supervise.reload.helper import Helper
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
        """Why the file cannot be used: the errors. Its warnings would hide them at each save; validate prints both."""
        return Refused(as_text([problem for problem in self.problems if problem.is_error]), self.problems)


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
    Read the file, a step at each turn of the loop; the arguments are those of Helper.

    Yields:
        the monotonic time at which to resume it at the latest.

    Raises:
        Refused: the helper took too long.
        OSError: the helper cannot be started.
    """
    with Helper(source, request, development=development) as helper:
        deadline = time.monotonic() + DEADLINE
        while not helper.has_ended:
            _check(helper, deadline)
            yield deadline
        return _result(helper)


def wait_for(helper: Helper) -> Result:
    """What the helper of a caller without a loop has found. Raises Refused."""
    deadline = time.monotonic() + DEADLINE
    while not helper.has_ended:
        _check(helper, deadline)
        time.sleep(_PAUSE)
    return _result(helper)


def _check(helper: Helper, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise Refused(f"{helper.source} was not read within {DEADLINE:.0f} s: the machine is too busy; try again")


def _result(helper: Helper) -> Result:
    """What the helper printed."""
    output, errors = helper.printed()
    try:
        result: Result = rebuild(Result, json.loads(output))
    except (ValueError, KeyError, TypeError):
        text, how = errors.decode(errors="replace").strip(), describe_exit(helper.status)
        log.exception("the helper that reads the file ended with %s, without a result: %s", how, text)
        last = text.splitlines()[-1] if text else f"the helper ended with {how} and without a result"
        reason = f"the file could not be validated: {last}"
        return Result(problems=(Problem("fusiond", 0, 0, "error", "internal", reason),))
    return result
