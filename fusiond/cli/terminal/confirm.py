"""Ask the person at the terminal before something is done that cannot be undone."""

import sys
from argparse import Namespace

from fusiond.cli.exits import UsageError
from fusiond.cli.terminal.text import legible


def confirm(what: str, options: Namespace) -> None:
    """
    Return if --yes was given or the person agrees.

    Args:
        what: what would be done, such as `cancel 3 jobs`.
        options: of the command line.

    Raises:
        UsageError: the person does not agree, or nobody can be asked since standard input is not a terminal.
    """
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"this would {what}; give --yes to do it")
    print(f"{legible(what[:1].upper() + what[1:])}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was done")
