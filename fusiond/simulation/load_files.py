"""
Read the file of a load: JSON lines.

A line written by hand is a stream of jobs that arrive at random:

    {"task": "send_otp", "rate": "20/s", "takes": {"p50": "80ms", "p99": "900ms"}, "fails": 0.01}

The lines of a recording are single arrivals and attempts, which recordings.py reads.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusiond.config import units
from fusiond.config.lint.suggest import nearest
from fusiond.config.model.limits import jobs_and_seconds
from fusiond.simulation.loads import Load, LoadError, Stream, run_times
from fusiond.simulation.recordings import Recording

#: keys of a line written by hand
_KEYS = ("task", "rate", "from", "for", "takes", "fails", "keys")


def read_load(path: str, seed: int) -> tuple[Load, list[str]]:
    """The load of a file, and what is to be said of it. Raises LoadError."""
    notes: list[str] = []
    streams, recording, is_recorded = [], Recording(), False
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                where = f"{path}, line {number}"
                try:
                    said = json.loads(line)
                except (ValueError, RecursionError):
                    if is_recorded and not line.endswith(b"\n"):
                        notes.append(f"{where}: the recording is cut there, and its last line is left out")
                        continue
                    raise LoadError(f"{where}: this is not JSON; each line is one object") from None
                if not isinstance(said, dict):
                    raise LoadError(f"{where}: write an object, such as {_EXAMPLE}")
                is_recorded = recording.take(said, where)
                if not is_recorded:
                    streams.append(stream(said, where))
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror}; give the file of a load, as docs/what-if.md has it") from None
    recorded, times = recording.end()
    if not streams and recorded is None:
        raise LoadError(f"{path} has no jobs; write lines such as {_EXAMPLE}")
    return Load(streams, seed, times, recorded), notes + recording.notes


_EXAMPLE = '{"task": "send_otp", "rate": "20/s", "takes": "80ms"}'


def stream(said: Mapping[str, Any], where: str) -> Stream:
    """The line of that load. Raises LoadError."""
    for key in said:
        if key not in _KEYS:
            raise LoadError(f"{where}: unknown key {key!r}; {nearest(key, _KEYS)}")
    try:
        task, rate = str(said["task"]), _rate(said["rate"])
        begin, length = _seconds("from", said.get("from", "0s")), said.get("for")
        length = None if length is None else _seconds("for", length)
        takes = said.get("takes", "0s")
        quantiles = takes if isinstance(takes, dict) else {"p50": takes}
        times = {_quantile(name): _seconds("takes", value) for name, value in quantiles.items()}
        fails, keys = _share(str(said.get("fails", 0))), said.get("keys")
    except KeyError as error:
        raise LoadError(f"{where}: {error.args[0]!r} is missing; write a line such as {_EXAMPLE}") from None
    except (ValueError, TypeError) as error:
        raise LoadError(f"{where}: {error}") from None
    if length == 0:
        raise LoadError(f"{where}: for: no job arrives in a time of 0s; use 1s or more")
    if keys is not None and not (type(keys) is int and keys > 0):
        raise LoadError(f"{where}: keys: {keys!r} is not a number of values, 1 or more")
    if not times or sorted(times.values()) != [times[q] for q in sorted(times)]:
        raise LoadError(f"{where}: takes: a higher percentile takes at least as long as a lower one")
    return Stream(task, rate, begin, length, run_times(times, fails), keys)


def _rate(text: str) -> float:
    """Jobs a second. Raises ValueError."""
    try:
        jobs, over = jobs_and_seconds(str(text))
    except ValueError:
        jobs, over = 0, 0
    if jobs <= 0 or over <= 0:
        raise ValueError(f"rate: {text!r} is not a rate above 0; write jobs and a time, such as 20/s or 1000/1h")
    return jobs / over


def _seconds(key: str, text: object) -> float:
    try:
        return units.seconds(str(text))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _share(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= (found := float(text)) <= 1:
            return found
    raise ValueError(f"fails: {text} is not a share from 0 to 1, such as 0.01")


def _quantile(name: str) -> float:
    digits = name.removeprefix("p")
    share = float(digits) / 100 if name.startswith("p") and digits.replace(".", "", 1).isdigit() else 0.0
    if not 0 < share < 1:
        raise ValueError(f"takes: {name!r} is not a percentile; write such as p50 or p99")
    return share
