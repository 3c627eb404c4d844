"""
Keep one daemon for a test process, and leave nothing behind: `python -m fusiond.testing.keeper DIRECTORY COMMAND…`.

1. start   the command, its output to `log` in the directory
2. wait    until standard input ends, as it does when the test process closes it or is killed
3. end     the daemon, and remove the directory

Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

#: seconds that the daemon may take to end, beside the work that it waits for
PATIENCE = 30.0


def main(directory: str, *command: str) -> None:
    """Keep it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with (Path(directory) / "log").open("ab") as log:
        daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        while os.read(0, 1):
            pass
    finally:
        daemon.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.wait(PATIENCE)
        daemon.kill()
        daemon.wait()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
