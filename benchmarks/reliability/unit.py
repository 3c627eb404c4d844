"""
A service manager in small: `python unit.py PID_FILE COMMAND …`, as systemd with `Restart=always`, `RestartSec=100ms`.

1. start   the command, and write its pid
2. wait    until it ends, however it ends
3. clear   what it left: SIGTERM, and SIGKILL after STOP seconds, as `KillMode=control-group` does
4. again   until this program gets SIGTERM itself
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

from benchmarks.processes import tree

#: s that what is left may take to end; systemd's own default is 90
STOP = 5.0
#: s between an end and the next start
PAUSE = 0.1
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Keep the command running."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    file, command = Path(sys.argv[1]), sys.argv[2:]
    try:
        while True:
            _run(file, command)
            _clear()
            time.sleep(PAUSE)
    finally:
        _clear()


def _run(file: Path, command: list[str]) -> None:
    pid = os.posix_spawn(command[0], command, os.environ)
    file.write_text(str(pid))
    # Orphans of the command are this program's children too.
    while os.wait()[0] != pid:
        pass


def _clear() -> None:
    _signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP
    while _reap() and time.monotonic() < deadline:
        time.sleep(0.02)
    while _reap():
        _signal(signal.SIGKILL)
        time.sleep(0.02)


def _signal(number: int) -> None:
    for pid in tree(os.getpid())[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _reap() -> bool:
    """Collect what has ended; whether there are children still."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


if __name__ == "__main__":
    main()
