"""`fusiond status` and `health`: the daemon, its queues and its workers."""

import sys
import time
from typing import Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import AWAY, OK, REFUSED
from fusiond.cli.find import daemon
from fusiond.cli.terminal.text import legible, tell
from fusiond.status_document import StatusDocument

#: seconds between two pages of --watch
_WATCH: Final = 1.0
#: seconds that the daemon may take to answer a probe
_TIMEOUT: Final = 5.0
_CLEAR: Final = "\x1b[H\x1b[2J"


def register(subparsers: Any) -> None:
    """Add `status`, also as `info`, and `health`."""
    status = arguments.command(subparsers, "status", _status, aliases=["info"])
    status.add_argument(
        "-W", "--workers", action="store_true", help="also show each worker of each host, and what it does"
    )
    status.add_argument("--watch", action="store_true", help="show it again each second, until Ctrl-C")
    status.add_argument("--metrics", action="store_true", help="print numbers in the text format of Prometheus")
    arguments.add_broker(status)
    health = arguments.command(subparsers, "health", _health)
    which = health.add_mutually_exclusive_group(required=True)
    which.add_argument("--live", action="store_true", help="whether the daemon answers, even without Redis")
    which.add_argument("--ready", action="store_true", help="whether every group serves and Redis answers, now")
    arguments.add_daemon(health)


def _status(options: arguments.Options) -> int:
    """
    [daemon, broker] Show the daemon, its programs, the queues and the workers.

    If the daemon or the broker cannot be reached, the other is shown, and the exit status is 3. The status is 0 even if
    the daemon is not ready: scripts use `fusiond health --ready`.
    """
    from fusiond.cli.queue import complain
    from fusiond.cli.status.report import ask

    while True:
        report = ask(options)
        if options.watch and sys.stdout.isatty() and not options.json:
            print(_CLEAR, end="")
        if options.metrics:
            print(_metrics(report), end="")
        else:
            arguments.answer(options, report.document(), report.page)
        for sentence in dict.fromkeys(report.errors.values()):  # without a file, daemon and broker have the same
            tell(sentence)
        status = complain(report.unreadable)
        if not options.watch:
            return AWAY if report.errors else status
        sys.stdout.flush()
        time.sleep(_WATCH)


def _metrics(report: Any) -> str:
    from fusiond.monitoring.exposition import exposition

    return exposition(report.daemon, report.broker).body.decode()


def _health(options: arguments.Options) -> int:
    """
    [daemon] A probe: status 0 if the daemon answers, or is ready.

    Exit status: 0 yes · 1 not ready, the reasons are printed · 3 the daemon does not answer.
    """
    status = daemon.find(options).status(_TIMEOUT)
    warnings = [program["warning"] for program in status["programs"] if program["warning"]]
    shown = {"pid": status["pid"], "ready": status["ready"], "ending": status["ending"], "unready": status["unready"]}
    verdict = "live" if options.live else _verdict(status)
    arguments.answer(options, {**shown, "warnings": warnings}, lambda: legible("\n".join([verdict, *warnings])))
    return OK if options.live or status["ready"] else REFUSED


def _verdict(status: StatusDocument) -> str:
    """`ready`, or why the daemon is not."""
    if status["ready"] or status["ending"]:
        return "ready" if status["ready"] else "ending"
    return f"not ready: {'; '.join(f'{name}: {why}' for name, why in status['unready'].items())}"
