"""Who died and who grew: the processes of a daemon, seen after a warm-up and at the end."""

import re
import time
from pathlib import Path

from tests.support.running import born

#: what a process may have more at the end than after the warm-up: MB resident, descriptors; keys in Redis
MOST_MEGABYTES, MOST_DESCRIPTORS, MOST_KEYS = 24.0, 3, 10
#: s; for what is being closed to be closed
SETTLE = 10.0


class Meter:
    """
    Over processes that must outlive the run.

    Args:
        processes: name → pid.
        keys: how many there are in Redis.
        megabytes: that a process may have more.
    """

    def __init__(self, processes, keys, megabytes=MOST_MEGABYTES):
        self._processes = {name: (pid, born(pid)) for name, pid in processes.items()}
        self._keys, self._megabytes = keys, megabytes
        self._base = None

    def check_alive(self):
        """Each is the process that it was."""
        gone = [name for name, (pid, began) in self._processes.items() if born(pid) != began]
        assert not gone, f"died: {', '.join(gone)}"

    @property
    def based(self):
        return self._base is not None

    def base(self):
        """From now on growth counts."""
        self._base = self._look()

    def growth(self):
        """A line for each process, and what has grown too much."""
        deadline = time.monotonic() + SETTLE
        while (complaints := self._complaints(now := self._look())) and time.monotonic() < deadline:
            time.sleep(0.2)
        return [self._line(name, now) for name in now], complaints

    def _look(self):
        found = {name: _process(pid) for name, (pid, _) in self._processes.items()}
        return found | {"keys": (0.0, self._keys())}

    def _complaints(self, now):
        return [self._line(name, now) for name, after in now.items() if self._grown(name, self._base[name], after)]

    def _grown(self, name, before, after):
        if name == "keys":
            return after[1] > before[1] + MOST_KEYS
        # Redis keeps what was once allocated to it; what it holds are its keys.
        memory = not name.startswith("redis") and after[0] > before[0] + self._megabytes
        return memory or after[1] > before[1] + MOST_DESCRIPTORS

    def _line(self, name, now):
        before, after = self._base[name], now[name]
        memory = "" if name == "keys" else f"{before[0]:.1f} → {after[0]:.1f} MB, descriptors "
        return f"{name}: {memory}{before[1]} → {after[1]}"


def _process(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024, len([*Path(f"/proc/{pid}/fd").iterdir()])
