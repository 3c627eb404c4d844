"""
What several commands share: options, types of option values, and the two forms of an answer.

A value that makes no sense is refused while the command line is parsed, before anything is asked or done.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fusiond.cli.terminal.text import print_json

if TYPE_CHECKING:
    from collections.abc import Callable

#: what a command line was parsed to
Options = Namespace

#: seconds, a day: no daemon needs longer to answer
_LONGEST: Final = 86400
#: rows, or generations: a number that Redis can use
_MOST: Final = 999_999_999
N = TypeVar("N", int, float)


def command(subparsers: Any, name: str, handler: Callable[[Options], int], **more: Any) -> ArgumentParser:
    """
    Add a command. Its help is the docstring of its handler; the first paragraph is also its line in the list of
    commands.

    `more`: further arguments of argparse's `add_parser`.
    """
    text = handler.__doc__ or ""
    summary, description = (" ".join(part.split()) for part in (text.partition("\n\n")[0], text))
    parser: ArgumentParser = subparsers.add_parser(name, help=summary, description=description, **more)
    parser.set_defaults(handler=handler)
    return parser


def commands_below(subparsers: Any, name: str, summary: str) -> Any:
    """Add a command that only has subcommands; returns what they are added to."""
    parser = subparsers.add_parser(name, help=summary)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_file(parser: ArgumentParser) -> None:
    """Add -c FILE."""
    parser.add_argument(
        "-c", "--config", metavar="FILE", help="default: $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml"
    )


def add_daemon(parser: ArgumentParser) -> None:
    """Add -c FILE and --dev."""
    add_file(parser)
    parser.add_argument(
        "--dev", action="store_true", help="use the daemon of fusiond dev, if another one runs this file too"
    )


def add_broker(parser: ArgumentParser) -> None:
    """Add --url, --namespace, -c FILE and --dev."""
    group = parser.add_argument_group(
        "which broker", "the first that is given: --url, -c, $FUSION_URL, the file that is found"
    )
    group.add_argument("--url", metavar="URL", help="such as redis://localhost or unix:///run/redis.sock")
    group.add_argument("--namespace", metavar="NAME", help="the prefix of each key; default: the file's, or fusion")
    add_daemon(group)  # type: ignore[arg-type]  # a group takes arguments as a parser does


def add_timeout(parser: ArgumentParser) -> None:
    """Add --timeout SECONDS: how long to wait for the daemon's answer."""
    parser.add_argument("--timeout", type=daemon_timeout, default=120.0, metavar="SECONDS", help="default: 120")


def add_json(parser: ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def answer(options: Options, document: Any, text: Callable[[], str]) -> None:
    """Print the document with --json, otherwise the text for people, unless it is empty."""
    if options.json:
        print_json(document)
    elif shown := text():
        print(shown)


def daemon_timeout(text: str) -> float:
    """Seconds to wait for the daemon: above 0, at most a day."""
    return _number(text, float, f"no number of seconds above 0, up to {_LONGEST}", lambda n: 0 < n <= _LONGEST)


def job_timeout(text: str) -> float:
    """Seconds to wait for a job: 0 or more."""
    return _number(text, float, "no number of seconds, 0 or more", lambda n: n >= 0)


def positive_number(text: str) -> int:
    """A number of rows, or of a generation: 1 or more."""
    return _number(text, int, f"no whole number from 1 to {_MOST}", lambda n: 0 < n <= _MOST)


def duration(text: str) -> float:
    """Seconds of a duration such as `5m`: 0 or more."""
    return _as_job_option("duration", text)


def positive_duration(text: str) -> float:
    """Seconds of a duration such as `5m`: above 0."""
    return _as_job_option("lasting", text)


def moment(text: str) -> float:
    """Epoch seconds of a time in ISO 8601; without an offset it is local time."""
    from datetime import datetime

    try:
        found = datetime.fromisoformat(text)
        return _as_job_option("moment", found if found.tzinfo else found.astimezone())
    except (ValueError, OverflowError) as error:
        raise ArgumentTypeError(f"{text!r} is no time such as 2030-01-31T02:00+01:00") from error


def _as_job_option(kind: str, given: object) -> float:
    """The value as the producer reads it; argparse adds to the error which option it is about."""
    from fusiond import enqueue_options
    from fusiond.errors import EnqueueError

    try:
        found: float = getattr(enqueue_options, kind)("", given)
    except EnqueueError as error:
        raise ArgumentTypeError(str(error).removeprefix(": ")) from error
    return found


def _number(text: str, kind: Callable[[str], N], problem: str, fits: Callable[[N], bool]) -> N:
    try:
        found = kind(text)
    except ValueError:
        found = None
    if found is None or not fits(found):
        raise ArgumentTypeError(f"{text!r} is {problem}")
    return found
