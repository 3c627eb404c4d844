"""
From files, or the application, of another runner to a file that loads.

1. read    each input, or ask the running application; have the runner's module put what it says into one draft
2. write   the draft
3. load    the text with the loader of `fusiond validate`; each entry that it refuses becomes a comment with the reason,
           until none is refused: an entry that names a refused one is refused in the next round
"""

import importlib
from collections.abc import Sequence
from typing import Final

from fusiond.config.load import load
from fusiond.config.problems import Problem
from fusiond.importing import draft_text, running_application, task_names
from fusiond.importing.draft import Draft
from fusiond.importing.input_files import ImportOptions, ImportRefused, SourceText, text_of

#: what a runner's files are called → the module that reads them; each has `read(inputs, draft, options)`
RUNNERS: Final = {
    "crontab": "crontab",
    "sidekiq": "sidekiq",
    "solid-queue": "solid_queue",
    "celery": "celery",
    "rq": "rq",
    "kubernetes": "kubernetes",
}
#: those of which the application itself is asked, unless its source is only read
APPLICATIONS: Final = ("celery", "rq")
#: each round names up to 250 errors
_ROUNDS: Final = 5


def imported(runner: str, names: Sequence[str], options: ImportOptions) -> str:
    """
    The text of a fusion.yaml that says what these files say.

    Raises:
        OSError: a file cannot be read.
        ImportRefused: a file is not what it should be, or an application cannot be loaded.
    """
    draft, module = Draft(), importlib.import_module(f"fusiond.importing.{RUNNERS[runner]}")
    if runner in APPLICATIONS and not options.static:
        module.read([running_application.settings_of(runner, name, options) for name in names], draft, options)
    else:
        inputs = [SourceText(name, text_of(name)) for name in names]
        if options.static:
            task_names.read(runner, inputs, draft, options)
        else:
            module.read(inputs, draft, options)
    draft.finish()
    return _loadable(draft, f"fusiond import {runner} {'--static ' * options.static}{' '.join(names)}")


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
