"""
Completion of a command line, by argcomplete: it asks the parser itself, whenever somebody presses Tab.

1. script   `fusiond completion bash` prints what the shell needs; the stubs in `share/` of the wheel run it
2. answer   the shell runs `fusiond` with `_ARGCOMPLETE` set: commands, options and words come from the parser
3. names    the queues, tasks, groups and newest jobs that there are come from the broker
"""

from __future__ import annotations

import argparse
import os
import signal
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import REFUSED
from fusiond.cli.find import broker
from fusiond.cli.terminal.text import one_line
from fusiond.errors import FusionError
from fusiond.job import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHELLS: Final = ("bash", "zsh", "fish")
#: as an argument is called in the help → the names that it takes
_KINDS: Final = {"Q": "queues", "QUEUE": "queues", "TASK": "tasks", "GROUP": "groups", "JOB": "jobs"}
#: newest jobs that are offered, and seconds that the broker may take
_JOBS: Final = 50
_PATIENCE: Final = 3


def register(subparsers: Any) -> None:
    """Add `completion`."""
    parser = arguments.command(subparsers, "completion", _completion)
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=", ".join(_SHELLS))


def _completion(options: arguments.Options) -> None:
    """
    Print what a shell needs to complete commands and options.

    bash: source <(fusiond completion bash). zsh: the same with zsh. fish: fusiond completion fish | source.
    """
    from argcomplete.shell_integration import shellcode

    print(shellcode(["fusiond"], shell=options.shell), end="")


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell that has set `_ARGCOMPLETE`, and end the process."""
    import argcomplete

    argcomplete.autocomplete(
        parser,
        always_complete_options=False,
        default_completer=_offered,  # type: ignore[arg-type]  # a function does
    )


def _offered(prefix: str, action: argparse.Action, parsed_args: argparse.Namespace, **more: Any) -> Iterable[str]:
    """What an argument takes: names, or files."""
    from argcomplete.completers import FilesCompleter

    kind = _KINDS.get(str(action.metavar))
    if kind is None:
        return FilesCompleter()(prefix, action=action, parsed_args=parsed_args, **more)
    options = argparse.ArgumentParser()
    arguments.add_broker(options)
    # Who presses Tab while Redis is away gets no names, and soon.
    signal.signal(signal.SIGALRM, lambda *_: os._exit(REFUSED))
    signal.alarm(_PATIENCE)
    try:
        with broker.session(argparse.Namespace(**vars(options.parse_args([])) | vars(parsed_args))) as session:
            return [*map(one_line, _names(session, kind))]
    except (FusionError, OSError):
        return []


def _names(session: broker.Session, kind: str) -> list[str]:
    """What there is of a kind."""
    if kind == "queues":
        return session.queues()
    if kind == "groups":
        found = session.run(session.verbs.workers())
        return sorted({worker.fields["group"] for worker in found if worker.fields.get("group")})
    if kind == "tasks":
        return sorted(session.run(session.verbs.catalogue()).tasks)
    from fusiond.cli.job.record import search
    from fusiond.inspecting.search import JobFilter

    newest = search(session, session.queues(), [*JobStatus], JobFilter(), most=_JOBS, depth=_JOBS)
    return [job.name for job in newest.jobs]
