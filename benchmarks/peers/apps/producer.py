"""
What the producers in Python share. A producer is told on its standard input what to enqueue, a line each, and answers
each line with the seconds that it took:

    one N     noop, one call for each
    many N    noop, in calls of 5,000, where there is a call for many
    mark N    mark, one after the other with a pause of 20 to 40 ms, each with the time at which it was sent
    rest N    rest
"""

import os
import random
import sys
import time

URL = os.environ["BENCH_URL"]
MARKS = os.environ["BENCH_MARKS"]
#: a phone number and a code: what a small job has to say
ARGS, KWARGS = ("+4915112345678",), {"code": "1234"}
CALL = 5000


def serve(noop, mark, rest, many=None):
    """`noop`, `mark` and `rest` enqueue one job with the arguments that they are given, `many` so many noops."""

    def spaced():
        time.sleep(random.uniform(0.02, 0.04))
        mark(time.monotonic(), MARKS)

    calls = {"one": lambda: noop(*ARGS, **KWARGS), "mark": spaced, "rest": rest}
    for line in sys.stdin:
        what, count = line.split()
        began = time.monotonic()
        if what == "many":
            for start in range(0, int(count), CALL):
                many(min(CALL, int(count) - start))
        else:
            for _ in range(int(count)):
                calls[what]()
        print(time.monotonic() - began, flush=True)
