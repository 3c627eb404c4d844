"""
What several commands share: options, types of option values, and the two forms of an answer.

A value that makes no sense is refused while the command line is parsed, before anything is asked or done.
"""

import contextlib
import os
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any, Final, TypeVar

from fusiond.cli.terminal.text import print_json
from fusiond.errors import ConfigError

#: what a command line was parsed to
Options = Namespace

#: seconds, a day: no daemon needs longer to answer
_LONGEST: Final = 86400
#: rows, or generations: a number that Redis can use
_MOST: Final = 999_999_999
N = TypeVar("N", int, float)


def command(subparsers: Any, name: str, handler: Callable[[Options], int | None], **more: Any) -> ArgumentParser:
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
    """Add -c FILE and --instance NAME, which is short for the instance's file."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-c", "--config", metavar="FILE", help="default: $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml"
    )
    which.add_argument(
        "--instance", type=_instance, dest="config", metavar="NAME", help="the same as -c /etc/fusion-NAME.yaml"
    )


def _instance(name: str) -> str:
    from fusiond import paths

    try:
        return str(paths.instance_file(name))
    except ConfigError as error:
        raise ArgumentTypeError(str(error)) from error


def add_daemon(parser: ArgumentParser) -> None:
    """Add -c FILE, --instance NAME, --dev and --json."""
    _add_daemon(parser)
    add_json(parser)


def add_broker(parser: ArgumentParser) -> None:
    """Add --url, --namespace, -c FILE, --instance NAME, --dev and --json."""
    group = parser.add_argument_group(
        "which broker", "the first that is given: --url, -c, $FUSION_URL, the file that is found"
    )
    group.add_argument("--url", metavar="URL", help="such as redis://localhost or unix:///run/redis.sock")
    group.add_argument("--namespace", metavar="NAME", help="the prefix of each key; default: the file's, or fusion")
    _add_daemon(group)  # type: ignore[arg-type]  # a group takes arguments as a parser does
    add_json(parser)


def _add_daemon(parser: ArgumentParser) -> None:
    add_file(parser)
    parser.add_argument(
        "--dev", action="store_true", help="use the daemon of fusiond dev, if another one runs this file too"
    )


def add_timeout(parser: ArgumentParser) -> None:
    """Add --timeout SECONDS: how long to wait for the daemon's answer."""
    parser.add_argument("--timeout", type=daemon_timeout, default=120.0, metavar="SECONDS", help="default: 120")


def add_yes(parser: ArgumentParser) -> None:
    """Add --yes, which `terminal/confirm.py` reads."""
    parser.add_argument("--yes", action="store_true", help="do not ask whether to do it")


def add_json(parser: ArgumentParser) -> None:
    """Add --json and --wide."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    wide = "print whole cells, however wide a table gets; default: as wide as the terminal, in a pipe 80 columns"
    parser.add_argument("--wide", action=_Wide, nargs=0, help=wide)


class _Wide(Action):
    """Tells tables that they have room, as the environment does."""

    def __call__(self, *_: Any) -> None:
        """Set it."""
        os.environ["COLUMNS"] = str(_MOST)


def answer(options: Options, document: Any, text: Callable[[], str]) -> None:
    """Print the document with --json, otherwise the text for people, unless it is empty."""
    if options.json:
        print_json(document)
    elif shown := text():
        print(shown)


def daemon_timeout(text: str) -> float:
    """Seconds to wait for the daemon: above 0, at most a day."""
    return _number(text, float, f"not a number of seconds above 0, up to {_LONGEST}", lambda n: 0 < n <= _LONGEST)


def job_timeout(text: str) -> float:
    """Seconds to wait for a job: 0 or more."""
    return _number(text, float, "not a number of seconds, 0 or more", lambda n: n >= 0)


def positive_number(text: str) -> int:
    """A number of rows, or of a generation: 1 or more."""
    return _number(text, int, f"not a whole number from 1 to {_MOST}", lambda n: 0 < n <= _MOST)


def duration(text: str) -> float:
    """Seconds of a duration such as `5m`: 0 or more."""
    return _as_job_option("duration", text)


def positive_duration(text: str) -> float:
    """Seconds of a duration such as `5m`: above 0."""
    return _as_job_option("positive_seconds", text)


def moment(text: str) -> float:
    """Epoch seconds of a time in ISO 8601; without an offset it is local time."""
    from datetime import datetime

    try:
        found = datetime.fromisoformat(text)
        return _as_job_option("moment", found if found.tzinfo else found.astimezone())
    except (ValueError, OverflowError) as error:
        raise ArgumentTypeError(f"{text!r} is not a time such as 2030-01-31T02:00+01:00") from error


def since(text: str) -> float:
    """Epoch seconds of a time in ISO 8601, of a length of time ago, such as `2h`, or of `today` or `yesterday`."""
    import time
    from datetime import date, timedelta

    if text in ("today", "yesterday"):
        return moment(str(date.today() - timedelta(days=text == "yesterday")))  # noqa: DTZ011 - of the viewer
    try:
        return time.time() - duration(text)
    except ArgumentTypeError:
        pass
    try:
        return moment(text)
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"{text!r} is neither a time such as 2030-01-31T02:00, nor 2h or the like, nor today or yesterday"
        ) from None


def ahead(text: str) -> float:
    """Epoch seconds of a time in ISO 8601, of a length of time from now, such as `12h`, or of the end of `tomorrow`."""
    import time
    from datetime import datetime, timedelta

    if text == "tomorrow":
        day = datetime.now().astimezone() + timedelta(days=2)
        return datetime(day.year, day.month, day.day).astimezone().timestamp()
    try:
        return time.time() + duration(text)
    except ArgumentTypeError:
        return moment(text)


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
    with contextlib.suppress(ValueError):
        if fits(found := kind(text)):
            return found
    raise ArgumentTypeError(f"{text!r} is {problem}")
