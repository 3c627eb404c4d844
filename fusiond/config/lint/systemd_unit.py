"""
The systemd unit that runs the daemon: how long a stop may take.

systemd kills whatever is left after TimeoutStopSec, so a longer `drain_timeout` is cut short. If this machine has no
unit of the daemon's name, and none is given, there is nothing to compare. An instance has the unit `fusiond@.service`.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fusiond.config.model import Config
from fusiond.config.problems import Problem
from fusiond.config.units import written
from fusiond.config.yaml.nodes import Node
from fusiond.paths import system_name

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


def check(root: Node, config: Config, path: Path | None, unit: str) -> Iterator[Problem]:
    """Each group whose drain the unit cuts short; `path` is the unit file, None if there is none."""
    stop = timeout_stop(path, unit) if path is not None else None
    if stop is None:
        return
    extra = _SETTLING + (_EMBEDDED if config.broker.url == "embedded" else 0)
    for name, group in config.workers.items():
        if group.drain_timeout + extra > stop:
            needed, limit = math.ceil(group.drain_timeout + extra), f"{written(stop)} (TimeoutStopSec in {path})"
            message = f"workers.{name}: a stop may take {written(needed)}, and systemd kills the daemon after {limit}"
            remedy = f"write TimeoutStopSec={needed} in a drop-in of the unit"
            yield root.nearest("workers", name, "drain_timeout").warning("drain-above-stop", message, remedy)


def unit_of(file: Path) -> str:
    """The name of the unit that runs this file's daemon: `fusiond@NAME.service` for an instance's file."""
    name = (system_name(file) or "").partition("-")[2]
    return f"fusiond@{name}.service" if name else "fusiond.service"


def installed(unit: str, directories: tuple[Path, ...] = DIRECTORIES) -> Path | None:
    """This machine's file of the unit; of an instance, its template."""
    name = re.sub("@.*[.]", "@.", unit)
    found = (directory / name for directory in directories)
    return next((path for path in found if path.is_file()), None)


def timeout_stop(path: Path, unit: str = "") -> float | None:
    """
    The seconds of TimeoutStopSec in a unit and its drop-ins; None if it cannot be read.

    The last value wins. Drop-ins are read by name; of several with one name, that in the first of DIRECTORIES counts,
    and that of an instance before that of all.

    Args:
        path: the file of the unit, or of its template.
        unit: the unit's name, if it is an instance.
    """
    directories = [*reversed(DIRECTORIES)] if path.parent in DIRECTORIES else [path.parent]
    units = (path.name, unit) if "@" in unit else (path.name,)
    dropins = [each for name in units for where in directories for each in (where / f"{name}.d").glob("*.conf")]
    try:
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
