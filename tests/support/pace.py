"""
How slow the processor is just now, so that a limit in seconds means the same on each machine, beside other work too.

1. work    a known piece of work is done, and its processor time taken
2. divide  by what it takes on the machine for which the limits were written, which has nothing else to do
"""

import time

#: processor seconds of `_work` on that machine: one of two virtual CPUs of 2026, Python 3.11
_AT_REST = 0.05


def pace():
    """How many times as long as at rest the processor needs; at least 1."""
    return max(1.0, min(_timed() for _ in range(3)) / _AT_REST)


def _timed():
    began = time.process_time()
    found = {str(number): [number] for number in range(150_000)}
    assert sum(len(each) for each in found.values()) == len(found)
    return time.process_time() - began
