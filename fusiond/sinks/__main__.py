"""The program of a sink: `python -m fusiond.sinks --snapshot PATH --runtime PATH --sink NAME`."""

from __future__ import annotations

import sys

from fusiond.carrier import run_carrier
from fusiond.sinks.delivery import Delivery


def entry_point() -> int:
    """The program; returns the exit status."""
    return run_carrier("sink", lambda: Delivery)


if __name__ == "__main__":
    sys.exit(entry_point())
