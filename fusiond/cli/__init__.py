"""
The command line, `fusiond COMMAND …`.

1. register   the command's family adds its parsers, or all families do; this loads argparse and little else
2. parse      argparse answers a wrong usage with a sentence and exit status 2
3. run        the command's handler, which imports what it needs
4. end        with the exit status that the handler returns, 0 if it returns none; a FusionError is printed on standard
              error

A family is a module with `register(subparsers)`. A handler is `handler(options: argparse.Namespace) -> int | None`; it
only asks other packages and prints their answers.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from fusiond.cli.exits import INTERRUPTED, OK, USAGE, status_of
from fusiond.cli.guesses import meant, suggestion
from fusiond.cli.terminal.text import as_the_terminal_reads, tell
from fusiond.errors import FusionError

#: module → its commands, in the order of the help
FAMILIES = {
    "daemon": ("run", "dev", "reload", "history", "rollback"),
    "group": ("group", "drain"),
    "init": ("init",),
    "validate": ("validate", "explain", "schema"),
    "importing": ("import",),
    "plan": ("plan",),
    "simulate": ("simulate",),
    "test": ("test",),
    "status": ("status", "info", "health"),
    "statistics": ("ps", "stats"),
    "recording": ("record",),
    "top": ("top",),
    "enqueue": ("enqueue",),
    "job": ("job", "requeue", "discard"),
    "failures": ("failures",),
    "unique": ("unique",),
    "queue": ("queue", "suspend", "resume"),
    "task": ("task",),
    "pools": ("pools",),
    "broken": ("broken",),
    "flow": ("flow",),
    "cron": ("cron",),
    "outbox": ("outbox",),
    "events": ("events",),
    "audit": ("audit",),
    "fsck": ("fsck",),
    "call": ("call",),
    "completion": ("completion",),
}

_EPILOG = """\
[daemon] talks to this host's daemon over its control socket; [broker] talks to Redis, from any host.
The file: -c or --instance, otherwise $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml.
The broker: --url, otherwise the file of -c, $FUSION_URL, the file that is found.
Exit status: 0 success · 1 problems, refused, the job failed · 2 usage, unreadable file · 3 daemon or broker out of
reach · 4 plan --exit-code found changes · 124 the time of --wait is over · 78 `run`: the file cannot be used.
"""


class Parser(argparse.ArgumentParser):
    """
    An ArgumentParser that accepts options between positional arguments: `enqueue send --in 5m +49 code=1`.

    Each parser refuses what it does not know, so that the usage which is printed is that of the command.
    """

    #: whether options stand before or behind positional arguments; set for completion, which walks along them
    is_plain = False

    def error(self, message: str) -> NoReturn:
        """As the base class; of many commands the nearest ones are named."""
        super().error(suggestion(message))

    def parse_known_args(  # type: ignore[override]  # the stubs overload on the namespace's type
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As the base class; options may stand between positional arguments if this parser has no subcommands."""
        if self.is_plain:
            return super().parse_known_args(args, namespace)
        found, unknown = self._known(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def _known(
        self, args: Sequence[str] | None, namespace: argparse.Namespace | None
    ) -> tuple[argparse.Namespace, list[str]]:
        if self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self.is_plain = True  # parse_known_intermixed_args calls parse_known_args
        try:
            found, unknown = self.parse_known_intermixed_args(_marked(args or ()), namespace)
        finally:
            self.is_plain = False
        for name, value in vars(found).items():
            setattr(found, name, _unmarked(value))
        return found, _unmarked(unknown)


# What follows `--` is never an option. Intermixed parsing loses a leading `--`. So the words behind it are marked
# instead, with the only character that an argument of a process cannot contain.
_MARK = "\0"


def _marked(args: Sequence[str]) -> list[str]:
    """The arguments without `--`; those that followed it are marked."""
    cut = args.index("--") if "--" in args else len(args)
    return [*args[:cut], *(_MARK + word for word in args[cut + 1 :])]


def _unmarked(value: Any) -> Any:
    """The value of an option or positional argument without the mark."""
    if isinstance(value, list):
        return [item.removeprefix(_MARK) if isinstance(item, str) else item for item in value]
    return value.removeprefix(_MARK) if isinstance(value, str) else value


def parser(command: str = "") -> Parser:
    """
    The whole command line; or the part of it that parses `command`, if that is one.

    All families take 60 ms to load, and 2 MB of which a daemon would never use a byte.
    """
    top = Parser(
        prog="fusiond",
        description="A job runner that you describe in one YAML file. Jobs are in Redis; a saved change is applied.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in [family for family, its in FAMILIES.items() if command in its] or FAMILIES:
        importlib.import_module(f"{__name__}.{name}").register(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    as_the_terminal_reads()
    try:
        if "_ARGCOMPLETE" in os.environ:
            from fusiond.cli.completion import complete

            Parser.is_plain = True
            complete(parser())
        words = sys.argv[1:] if argv is None else argv
        words, note = meant([*words], {command for its in FAMILIES.values() for command in its})
        if note:
            tell(note)
        options = parser(*words[:1]).parse_args(words)
        status: int = options.handler(options) or OK
        sys.stdout.flush()
    except SystemExit as leave:  # argparse's: help, version, or a wrong usage
        return leave.code if isinstance(leave.code, int) else USAGE
    except FusionError as error:
        tell(str(error))
        return status_of(error)
    except UnicodeEncodeError as error:
        # Bytes of the command line that are not UTF-8 arrive as lone surrogates.
        tell(f"{error.object[:100]!r} is not valid UTF-8")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has ended: no error now, nor from the flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return status


class _Version(argparse.Action):
    """Prints the version and the layout of the keys; the package's metadata is read only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print and exit."""
        from fusiond import __version__
        from fusiond.broker.keys import LAYOUT

        print(f"fusiond {__version__} (layout {LAYOUT})")
        parser.exit()
