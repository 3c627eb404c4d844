"""`fusiond record`: a load of what Redis has counted."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import UsageError
from fusiond.cli.find import broker
from fusiond.cli.terminal.text import tell
from fusiond.errors import FusionError

_SINK: Final = "give --from counters; another load is recorded by a sink: events: {sinks: {load: {kind: load, …}}}"


def register(subparsers: Any) -> None:
    """Add `record`."""
    parser = arguments.command(subparsers, "record", _record)
    parser.add_argument("--from", dest="source", choices=["counters"], help="what the load is made of")
    since = "since then: 24h, or a time in ISO 8601; Redis has whole hours, of 30 days; default: 24h"
    parser.add_argument("--since", type=arguments.since, metavar="TIME", help=since)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="a new file; default: standard output")
    arguments.add_broker(parser)


def _record(options: arguments.Options) -> None:
    """
    [broker] Make a coarse load of the hourly counters, for a simulation.

    Redis counts if `metrics: true` or `web` is in the file.
    """
    from fusiond.cli.statistics import OFF
    from fusiond.inspecting.coarse_load import COARSE, coarse_load
    from fusiond.inspecting.statistics import hours_between

    if options.source is None:
        raise UsageError(_SINK)
    now = time.time()
    hours = hours_between(now - 86_400 if options.since is None else options.since, now)
    with broker.session(options) as session:
        counted = session.run(session.verbs.hours(session.queues(), hours))
    lines = [json.dumps(line, ensure_ascii=False) for line in coarse_load(counted, now)]
    if len(lines) < 2:
        raise FusionError(OFF)
    _write("\n".join([*lines, ""]), options.output)
    tell(COARSE)


def _write(text: str, path: Path | None) -> None:
    """Raises FusionError if there is such a file, which may be a recording, or it cannot be written."""
    if path is None:
        sys.stdout.write(text)
        return
    try:
        with path.open("x") as file:
            file.write(text)
    except OSError as error:
        raise FusionError(f"{path}: {error.strerror}; name a new file") from error
