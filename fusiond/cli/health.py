"""`fusiond health`: a probe for load balancers, containers and scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import source
from fusiond.cli.exits import OK, REFUSED
from fusiond.cli.table import legible, print_json

if TYPE_CHECKING:
    import argparse

#: seconds that the daemon may take to answer
_TIMEOUT: Final = 5.0


def register(subparsers: Any) -> None:
    """Add `health`."""
    parser = subparsers.add_parser(
        "health",
        help="[daemon] a probe: status 0 if the daemon answers, or is ready",
        description="Exit status: 0 yes · 1 not ready, the reasons are printed · 3 the daemon does not answer.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--live", action="store_true", help="whether the daemon answers, even without Redis")
    which.add_argument("--ready", action="store_true", help="whether every group serves and Redis answers, now")
    source.add_daemon_options(parser)
    source.add_json_option(parser)
    parser.set_defaults(handler=_health)


def _health(options: argparse.Namespace) -> int:
    status = source.daemon(options).ask("status", timeout=_TIMEOUT)
    if options.json:
        print_json({name: status[name] for name in ("pid", "ready", "ending", "unready")})
    else:
        print(legible("live" if options.live else _verdict(status)))
    return OK if options.live or status["ready"] else REFUSED


def _verdict(status: dict[str, Any]) -> str:
    """`ready`, or why it is not."""
    if status["ready"]:
        return "ready"
    if status["ending"]:
        return "ending"
    return f"not ready: {'; '.join(f'{name}: {why}' for name, why in status['unready'].items())}"
