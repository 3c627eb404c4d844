"""
A producer: enqueues until its input ends, and prints a line of JSON for each job and run that was acknowledged.

Run as a script, with the version that is its interpreter's.
"""

import json
import select
import sys

from fusiond import Client
from fusiond.errors import FusionError

#: jobs that wait in a queue
MOST = 20


def enqueue(jobs, n, name):
    """One job; what is not acknowledged is enqueued again, under the same id."""
    if n % 10 == 0:
        return ["flow", jobs.run_flow("pair").name]
    if n % 10 == 1:
        return ["alone", jobs.enqueue("alone", str(n), key=n // 50).name]
    task = ("plain", "flawed", "narrow")[n % 3]
    return [task, jobs.options(id=f"{name}-{n}").enqueue(task, "x" * (3000 if n % 7 == 0 else 3)).name]


def main():
    """Until the end of the input."""
    url, name = sys.argv[1:]
    n, jobs = 0, Client(url)
    while not select.select([sys.stdin], [], [], 0.08)[0]:
        try:
            if any(counts.waiting > MOST for counts in jobs.counts().values()):
                continue  # a slow machine: what waits is to be worked off
            said = enqueue(jobs, n, name)
        except FusionError:
            continue  # no daemon has published yet, or the server is away
        print(json.dumps(said), flush=True)
        n += 1


if __name__ == "__main__":
    main()
