"""The program of an outbox: `python -m fusiond.outbox --snapshot PATH --runtime PATH --outbox NAME`."""

from __future__ import annotations

import sys

from fusiond.carrier import Carrier, run_carrier
from fusiond.errors import FusionError
from fusiond.installed import not_installed


def _relay() -> type[Carrier]:
    """Raises FusionError where a package is missing."""
    if missing := not_installed("outbox"):
        remedy = "pip install 'fusiond[outbox]', or remove `outboxes`"
        raise FusionError(f"outboxes: {missing[0]} is not installed; {remedy}")
    from fusiond.outbox.relay import Relay

    return Relay


def entry_point() -> int:
    """The program; returns the exit status."""
    return run_carrier("outbox", _relay)


if __name__ == "__main__":
    sys.exit(entry_point())
