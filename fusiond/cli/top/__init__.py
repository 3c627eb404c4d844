"""`fusiond top`: queues, workers, jobs and failures on a full screen, with keys to act on them."""

import sys
from functools import partial
from typing import Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import REFUSED, UsageError
from fusiond.cli.find import broker
from fusiond.cli.terminal.text import tell
from fusiond.installed import not_installed
from fusiond.status_document import ReloadOutcome

_KEYS: Final = """\
keys:
  1 2 3 4 5  queues, workers, jobs, failures by task and error, failed jobs
  enter      all about the job of that line, or about the last one of those failures
  s          suspend the queue, or resume it
  r          requeue the job, if it failed or was canceled, or all jobs that failed so
  d          delete all jobs that failed so
  c          cancel the job
  g          restart the group of that worker, if it is one of this host
  q          quit
"""


def register(subparsers: Any) -> None:
    """Add `top`."""
    import argparse

    raw = argparse.RawDescriptionHelpFormatter
    parser = arguments.command(subparsers, "top", _top, epilog=_KEYS, formatter_class=raw)
    every = "seconds between two looks; default: 1"
    parser.add_argument("--every", type=arguments.daemon_timeout, default=1.0, metavar="SECONDS", help=every)
    arguments.add_broker(parser)


def _top(options: arguments.Options) -> int | None:
    """[broker] Show queues, workers, jobs and failures live on a full screen, and act on them by keys."""
    if options.json:
        raise UsageError("top is for people; fusiond status, queue list and job list have --json")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("top needs a terminal; fusiond status --watch prints into a pipe")
    if missing := not_installed("top"):
        tell(f"top: {' and '.join(missing)} not installed; pip install 'fusiond[top]'")
        return REFUSED
    from fusiond.cli.top.top_screen import TopApp
    from fusiond.cli.top.top_views import Views

    with broker.session(options) as session:
        views = Views(session, partial(_restart, options))
        views.page("queues")  # what is out of reach is said before the screen is taken
        return TopApp(views, options.every).run()


def _restart(options: arguments.Options, group: str, pid: int) -> str:
    """Restart a group of the daemon that has this dispatcher; what was done. Raises FusionError."""
    from fusiond.cli.find import daemon
    from fusiond.errors import FusionError

    located = daemon.find(options)
    if pid not in [program["pid"] for program in located.status(10.0)["programs"]]:
        raise FusionError(f"the daemon of {located.source} does not run process {pid}; name its file with -c")
    outcome: ReloadOutcome = located.ask("reload", daemon.asker(f"fusiond top, restart of {group}"), group)
    return outcome["summary"]
