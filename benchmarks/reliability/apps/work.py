"""The job, the same for all: a line at its begin, a line at its end."""

import os
import time


def run(number, sleep):
    """Sleep for so many seconds."""
    _note(f"{number} began\n")
    time.sleep(sleep)
    _note(f"{number} ended\n")


def _note(line):
    # One write with O_APPEND: lines of several processes do not mix.
    file = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
