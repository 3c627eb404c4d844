"""
Run a target for some time and say what came of it.

1. warm     rounds for a fifth of the time; from then on growth counts
2. go on    rounds until the time is over; after each one, every process must still be the one that it was
3. compare  memory, descriptors and keys with those after the warm-up

The same seed makes the same input, though not the same timing.
"""

import random
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.fuzz.meter import MOST_MEGABYTES, Meter

WARM = 0.2


class Target:
    """
    What a target is: its daemon is `ground`; `round` raises AssertionError where a promise is broken.

    `seen` counts what was sent and what came of it.
    """

    ground = None
    #: that a process may have more at the end
    megabytes = MOST_MEGABYTES

    def __init__(self, rand):
        self.rand, self.seen = rand, Counter()

    def __enter__(self):
        try:
            self.ground.start_up()
            self.begin()
        except BaseException:
            self.ground.close()
            raise
        return self

    def __exit__(self, *_):
        self.ground.close()

    def begin(self):
        """Once the daemon is up."""

    def round(self):
        raise NotImplementedError


def fuzz(kind, seconds, seed, say=print):
    """Returns what was broken, one sentence each."""
    log = Path(tempfile.gettempdir()) / f"fusiond-fuzz-{kind.__module__.rpartition('.')[2]}-{seed}.log"
    began = time.monotonic()
    with kind(random.Random(seed)) as target:
        meter = Meter(target.ground.lasting(), target.ground.keys, target.megabytes)
        rounds, broken = 0, []
        try:
            while time.monotonic() < began + seconds or not meter.based:
                target.round()
                meter.check_alive()
                rounds += 1
                if not meter.based and time.monotonic() > began + seconds * WARM:
                    meter.base()
            lines, broken = meter.growth()
        except Exception:
            lines, broken = [], [traceback.format_exc()]
        if broken:
            log.write_text(target.ground.text())
            broken.append(f"seed {seed}, round {rounds}; the daemon's log is {log}")
    say(f"{rounds} rounds in {time.monotonic() - began:.0f} s, seed {seed}")
    for line in [*(f"{count:,} {_short(what)}" for what, count in sorted(target.seen.items())), *lines]:
        say(f"  {line}")
    for line in broken:
        say(f"✗ {line}")
    return broken


def _short(what):
    """What a hostile child has made up may be as long as it likes, and more than text."""
    return what if len(what) <= 60 and what.isprintable() else ascii(what[:60])
