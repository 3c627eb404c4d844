"""What the peers' programs share: `PROGRAM COUNT` enqueues so many jobs and says how many a second one by one."""

import os
import sys
import time

URL = os.environ["BENCH_URL"]


def tell(one, many=None):
    """Enqueue; what is left after 2,000 single calls goes in bulk where the peer has a way to."""
    count = int(sys.argv[1])
    single = min(count, 2000) if many else count
    began = time.monotonic()
    for _ in range(single):
        one()
    print(single / (time.monotonic() - began))
    if many:
        many(count - single)
