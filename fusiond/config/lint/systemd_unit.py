"""
The systemd unit that runs the daemon: how long a stop may take.

systemd kills whatever is left after TimeoutStopSec, so a longer `drain_timeout` is cut short. Where this machine has no
unit of the daemon's name, and none is given, there is nothing to compare.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fusiond.config.units import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Config
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node

_NAME: Final = "fusiond.service"
#: where systemd looks; the first one wins
DIRECTORIES: Final = tuple(map(Path, ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system")))
#: s: what a stop takes after the drain: settling jobs, and the last write of the embedded server
_SETTLING, _EMBEDDED = 15.0, 30.0
#: s: systemd's own DefaultTimeoutStopSec
_DEFAULT: Final = 90.0
_SECONDS: Final = {
    **dict.fromkeys(("us", "usec", "µs"), 1e-6),
    **dict.fromkeys(("ms", "msec"), 1e-3),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zµ]*)\s*")
_STOP: Final = re.compile(r"^\s*Timeout(?:Stop)?Sec\s*=\s*(.*?)\s*$", re.MULTILINE)


def check(root: Node, config: Config, path: Path | None) -> Iterator[Problem]:
    """Each group whose drain the unit cuts short; `path` is the unit file, None where there is none."""
    stop = timeout_stop(path) if path is not None else None
    if stop is None:
        return
    extra = _SETTLING + (_EMBEDDED if config.broker.url == "embedded" else 0)
    for name, group in config.workers.items():
        if group.drain_timeout + extra > stop:
            needed, limit = math.ceil(group.drain_timeout + extra), f"{written(stop)} (TimeoutStopSec in {path})"
            message = f"workers.{name}: a stop may take {written(needed)}, and systemd kills the daemon after {limit}"
            remedy = f"write TimeoutStopSec={needed} in a drop-in of the unit"
            yield root.nearest("workers", name, "drain_timeout").warning("drain-above-stop", message, remedy)


def installed(directories: tuple[Path, ...] = DIRECTORIES) -> Path | None:
    """The unit file of this machine."""
    paths = (directory / _NAME for directory in directories)
    return next((path for path in paths if path.is_file()), None)


def timeout_stop(path: Path) -> float | None:
    """
    The seconds of TimeoutStopSec in a unit and its drop-ins; None where it cannot be read.

    The last one wins: drop-ins in the order of their names, of one name that of the first of DIRECTORIES.
    """
    directories = reversed(DIRECTORIES) if path.parent in DIRECTORIES else [path.parent]
    try:
        dropins = [dropin for directory in directories for dropin in (directory / f"{path.name}.d").glob("*.conf")]
        texts = [each.read_text() for each in (path, *sorted(dropins, key=lambda dropin: dropin.name))]
    except (OSError, UnicodeDecodeError):
        return None
    values = [value for text in texts for value in _STOP.findall(text)]
    return _span(values[-1]) if values else _DEFAULT


def _span(text: str) -> float | None:
    """The seconds of `90`, `1min 30s` or `infinity`; None for anything else."""
    if text in ("infinity", "0"):
        return math.inf
    parts = _SPAN.findall(text)
    if not parts or _SPAN.sub("", text) or any(unit not in _SECONDS for _, unit in parts):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
