"""
Read and validate the file, in a helper process: the supervisor's loop never waits for YAML, and never loads it.

For a reload the helper writes the candidate snapshot, for a plan it says what the change would mean. What it prints,
candidate.py says.
"""

from __future__ import annotations

import glob
import json
import logging
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fusiond.config.lint.reports import as_text
from fusiond.config.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

#: seconds
DEADLINE = 30.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Result:
    """What the helper found."""

    #: whether the file could be taken
    usable: bool
    #: sha256 hex of what it says; "" where it cannot be taken
    hash: str = ""
    problems: tuple[Problem, ...] = ()
    #: patterns of every file that was read, and the globs that were searched
    files: tuple[str, ...] = ()
    #: path → what the file was when it was read, as `tell_apart` of `config.yaml.nodes` gives it
    stats: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: where the file puts it, if it says so, whatever else is wrong with it
    state_directory: str | None = None
    #: group → digest of its environment files
    environment_files: Mapping[str, str] = field(default_factory=dict)
    #: key → file, line and column: of each task's `run`, and of what a reload may refuse to change
    places: Mapping[str, tuple[str, int, int]] = field(default_factory=dict)
    #: of a plan: what its reload would mean, as `config.effects` says it
    effects: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The problems, for people."""
        return as_text(self.problems)

    @property
    def plain(self) -> list[dict[str, Any]]:
        """The problems, for programs."""
        return [problem.to_dict() for problem in self.problems]


class Reading:
    """
    One run of the helper. Close it.

    Args:
        source: the YAML file.
        foreign: the supervisor's list of children that are not its own to reap.
        arguments: the helper's: `for_reload` or `for_plan`.
    """

    def __init__(self, source: Path, foreign: set[int], arguments: Sequence[str]) -> None:
        self._foreign = foreign
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._complained = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-P", "-m", "fusiond.config.candidate", str(source), *arguments]
        # Files and not pipes: nobody reads while it runs.
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._complained, start_new_session=True
        )
        foreign.add(self._process.pid)

    def poll(self) -> Result | None:
        """The result, once the helper has ended; its end wakes the loop by SIGCHLD."""
        return None if self._process.poll() is None else self._result()

    def wait(self, timeout: float = DEADLINE) -> Result:
        """The result, for who has nothing else to do. Raises subprocess.TimeoutExpired."""
        self._process.wait(timeout)
        return self._result()

    def close(self) -> None:
        """Kill it if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._foreign.discard(self._process.pid)
        self._said.close()
        self._complained.close()

    def _result(self) -> Result:
        self._said.seek(0)
        try:
            said = json.loads(self._said.read())
            problems = tuple(Problem(**one) for one in said["problems"])
            return Result(
                usable=self._process.returncode == 0,
                hash=said.get("hash") or "",
                problems=problems,
                files=_strings(said.get("files")),
                stats=said.get("stats") or {},
                state_directory=said.get("state_directory"),
                environment_files=said.get("environment_files") or {},
                places={key: tuple(place) for key, place in (said.get("places") or {}).items()},
                effects=said.get("effects"),
            )
        except (ValueError, KeyError, TypeError):
            self._complained.seek(0)
            complaint = self._complained.read().decode(errors="replace").strip()
            log.exception("the validating helper ended with status %s: %s", self._process.returncode, complaint)
            last = complaint.splitlines()[-1] if complaint else f"status {self._process.returncode}"
            return Result(usable=False, problems=(_crashed(last),))


def for_reload(out: Path, generation: int, *, development: bool = False) -> tuple[str, ...]:
    """Write the candidate, with this number, to `out`."""
    return ("--out", str(out), "--generation", str(generation), *_dev(development))


def for_plan(running: Path, *, development: bool = False) -> tuple[str, ...]:
    """Write nothing; compare with the snapshot that runs."""
    return ("--against", str(running), *_dev(development))


def _dev(development: bool) -> tuple[str, ...]:
    """Take the file as `fusiond dev` does."""
    return ("--dev",) if development else ()


def watched(source: Path, files: Sequence[str] = ()) -> tuple[str, ...]:
    """Patterns of what a change of means another reading: the file itself and all that it included."""
    return tuple(dict.fromkeys([glob.escape(str(source)), *files]))


def _crashed(reason: str) -> Problem:
    return Problem("fusiond", 0, 0, "error", "internal", f"the file could not be validated: {reason}")


def _strings(value: Iterable[Any] | None) -> tuple[str, ...]:
    return tuple(str(item) for item in value or ())
