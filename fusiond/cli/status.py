"""`fusiond status`: the daemon, its queues and its workers, once or again and again."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import source
from fusiond.cli.exits import AWAY
from fusiond.cli.table import legible, print_json

if TYPE_CHECKING:
    import argparse

#: seconds between two looks of --watch
_WATCH: Final = 1.0
_CLEAR: Final = "\x1b[H\x1b[2J"


def register(subparsers: Any) -> None:
    """Add `status`, also as `info`."""
    parser = subparsers.add_parser(
        "status",
        aliases=["info"],
        help="[daemon, broker] show the daemon, its programs, the queues and the workers",
        description="If the daemon or the broker cannot be reached, the other is shown, and the exit status is 3. "
        "The status is 0 even if the daemon is not ready: scripts use `fusiond health --ready`.",
    )
    parser.add_argument(
        "-W", "--workers", action="store_true", help="also show each worker of each host, and what it does"
    )
    parser.add_argument("--watch", action="store_true", help="show it again each second, until Ctrl-C")
    source.add_broker_options(parser)
    parser.add_argument("--metrics", action="store_true", help="print numbers in the text format of Prometheus")
    source.add_json_option(parser)
    parser.set_defaults(handler=_status)


def _status(options: argparse.Namespace) -> int:
    from fusiond.cli.look import look_around
    from fusiond.cli.metrics import exposition
    from fusiond.cli.queue import complain

    while True:
        look = look_around(options)
        if options.watch and sys.stdout.isatty() and not options.json:
            print(_CLEAR, end="")
        if options.metrics:
            print(exposition(look), end="")
        elif options.json:
            print_json(look.document())
        else:
            print(look.page())
        for sentence in look.errors.values():
            print(f"fusiond: {legible(sentence)}", file=sys.stderr)
        status = complain(look.spoilt)
        if not options.watch:
            return AWAY if look.errors else status
        sys.stdout.flush()
        time.sleep(_WATCH)
