"""Sample tasks of the tour: plain functions, as a person would write them. Copied into the tour's own directory."""

import os
import time
from pathlib import Path


def parcel(number: int, priority: str) -> int:
    """Quick work, of which there are thousands."""
    time.sleep(0.002)
    with Path("ledger").open("a") as ledger:  # O_APPEND: lines of several children do not mix
        ledger.write(f"{priority} {number}\n")
    return number


def call_carrier(name: str) -> str:
    """Fails twice as a network does, then works."""
    tries = Path(f"{name}.tries")
    with tries.open("a") as file:
        file.write("x")
    if tries.stat().st_size < 3:
        raise ConnectionError(f"{name} does not answer")
    return f"{name} answered"


def count_stars() -> None:
    """Never ends by itself."""
    while True:
        time.sleep(0.01)


def long_haul() -> str:
    """Takes for ever the first time, and says which process it is in."""
    marker = Path("haul.pid")
    if marker.exists():
        return f"arrived, after process {marker.read_text()} was killed under it"
    Path("haul.tmp").write_text(str(os.getpid()))
    Path("haul.tmp").rename(marker)
    time.sleep(600)
    return "arrived"


def take_back(number: int) -> str:
    """What the edited file adds."""
    return f"parcel {number} taken back"
