"""
From files of another runner to a file that loads.

1. read    each input, and have the runner's module put what it says into one draft
2. write   the draft
3. load    the text with the loader of `fusiond validate`; each entry that it refuses becomes a comment with the reason,
           until none is refused: an entry that names a refused one is refused in the next round
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fusiond.config.load import load
from fusiond.config.problems import Problem
from fusiond.importing import draft_text
from fusiond.importing.draft import Draft
from fusiond.importing.input_files import ImportRefused, text_of

#: what a runner's files are called → the module that reads them; each has `read(inputs, draft, options)`
RUNNERS: Final = {
    "crontab": "crontab",
    "sidekiq": "sidekiq",
    "solid-queue": "solid_queue",
    "celery": "celery",
    "rq": "rq",
    "kubernetes": "kubernetes",
}
#: each round names up to 250 errors
_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the command line says beside the files."""

    #: of schedules that say no zone
    timezone: str | None = None
    #: of files with a section for each, such as those of Rails
    environment: str = "production"
    #: crontab: each line names a user; None: that is found out
    has_users: bool | None = None


@dataclass(frozen=True, slots=True)
class SourceText:
    """One file."""

    #: as the user named it
    name: str
    text: str


def imported(runner: str, names: Sequence[str], options: ImportOptions) -> str:
    """
    The text of a fusion.yaml that says what these files say.

    Raises:
        OSError: a file cannot be read.
        ImportRefused: a file is not what it should be.
    """
    inputs, draft = [SourceText(name, text_of(name)) for name in names], Draft()
    module = importlib.import_module(f"fusiond.importing.{RUNNERS[runner]}")
    module.read(inputs, draft, options)
    draft.finish()
    return _loadable(draft, f"fusiond import {runner} {' '.join(names)}")


def _loadable(draft: Draft, command: str) -> str:
    for _ in range(_ROUNDS):
        text, lines = draft_text.text_of(draft, command)
        # No variable is set: those of the file have defaults.
        found = load("fusion.yaml", environ={}, data=text.encode(), elsewhere=True)
        errors = [problem for problem in found.problems if problem.is_error]
        if not errors:
            return text
        for problem in errors:
            _refuse(draft, lines, problem)
    raise ImportRefused("too much of it cannot be carried over; import fewer files at a time")


def _refuse(draft: Draft, lines: draft_text.Lines, problem: Problem) -> None:
    """Leave out the entry that a problem is about."""
    if problem.line not in lines:
        raise ImportRefused(f"what it says cannot be one file of fusiond: {problem.sentence}")
    section, name = lines[problem.line]
    entry = draft.sections[section][name]
    entry.refused = entry.refused or problem.sentence
