"""
The command line, `fusiond COMMAND …`.

1. register   each family file adds its commands; nothing but argparse is loaded for it
2. parse      a wrong usage is argparse's sentence and exit status 2
3. run        the command's handler; it imports what it uses, when it is called
4. answer     what the handler returns is the exit status; a FusionError is one sentence on stderr

A family is a module with `register(subparsers)`, which calls `set_defaults(handler=…)` on each of its parsers:
`handler(options: argparse.Namespace) -> int`. No command has logic of its own: it asks a room and prints.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING, Any, Protocol, cast

from fusiond.cli.exits import INTERRUPTED, OK, USAGE, status_of
from fusiond.errors import FusionError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: in the order of the help
FAMILIES = (
    "daemon", "validate", "plan", "explain", "history", "status", "health", "enqueue", "job", "queue", "cron",
    "fsck", "call",
)  # fmt: skip

_EPILOG = """\
[daemon] talks to this host's daemon over its control socket; [broker] talks to Redis, from any host.
The file: -c, otherwise $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml.
The broker: --url, otherwise the file of -c, $FUSION_URL, the file that is found.
Exit status: 0 success · 1 problems, refused, the job failed · 2 usage, unreadable file · 3 daemon or broker out of
reach · 4 plan --exit-code found changes · 124 the time of --wait is over · 78 `run`: the file cannot be used.
"""


class _Family(Protocol):
    def register(self, subparsers: Subparsers, /) -> None: ...


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that takes options between positionals: `enqueue send --in 5m +49 code=1`."""

    _mixing = False

    def parse_known_args(  # type: ignore[override]  # the stubs overload on the namespace's type
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As the base, but intermixed where this parser has no commands under it."""
        if self._mixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._mixing = True  # parse_known_intermixed_args comes back here
        try:
            found, unknown = self.parse_known_intermixed_args(_sheltered(args or ()), namespace)
        finally:
            self._mixing = False
        for name, value in vars(found).items():
            setattr(found, name, _bared(value))
        return found, unknown


# What follows `--` is never an option. Intermixed parsing loses a leading `--`, so the words behind it are marked
# instead, with the one character that no argument of a process can hold.
_MARK = "\0"


def _sheltered(args: Sequence[str]) -> list[str]:
    """The arguments without `--`, each that stood behind it marked."""
    cut = args.index("--") if "--" in args else len(args)
    return [*args[:cut], *(_MARK + word for word in args[cut + 1 :])]


def _bared(value: Any) -> Any:
    """The value of an option or positional without the mark; what a list of words holds, not what JSON does."""
    if isinstance(value, list):
        return [item.removeprefix(_MARK) if isinstance(item, str) else item for item in value]
    return value.removeprefix(_MARK) if isinstance(value, str) else value


if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Parser]  # noqa: SLF001 - argparse has no public name for it


def parser() -> Parser:
    """The whole command line."""
    top = Parser(
        prog="fusiond",
        description="A job runner that you describe in one YAML file. Jobs are in Redis; a saved change is applied.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action=_Version)
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in FAMILIES:
        cast("_Family", importlib.import_module(f"{__name__}.{name}")).register(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows ASCII alone is shown the code
    try:
        status = _run(argv)
        sys.stdout.flush()
    except FusionError as error:
        from fusiond.cli.table import legible

        print(f"fusiond: {legible(str(error))}", file=sys.stderr)
        return status_of(error)
    except UnicodeEncodeError as error:
        # Python hands over bytes of the command line that are no text as lone surrogates.
        print(f"fusiond: {error.object[:100]!r} is not valid UTF-8", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has had enough: no complaint now, nor from the flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return status


def _run(argv: Sequence[str] | None) -> int:
    try:
        options = parser().parse_args(argv)
    except SystemExit as leave:  # argparse's: help, version, or a wrong usage
        return leave.code if isinstance(leave.code, int) else USAGE
    return int(options.handler(options))


class _Version(argparse.Action):
    """Prints the version; the metadata is looked up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print and leave."""
        from importlib.metadata import version

        print(f"fusiond {version('fusiond')}")
        parser.exit()
