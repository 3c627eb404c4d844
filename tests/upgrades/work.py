"""The application: each task leaves a line when it begins and when it ends."""

import json
import os
import time


def note(what, job, queue="default"):
    """What a job does, in the file that all hosts share."""
    line = json.dumps([what, queue, job["id"], job["attempt"], os.environ["UPGRADE_VERSION"], time.time()])
    file = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def run(*_args, job, **_kwargs):
    """Takes a moment."""
    note("begin", job)
    time.sleep(0.02)
    note("end", job)


def narrow(*_args, job):
    """The same, of the queue with a limit."""
    note("begin", job, "narrow")
    time.sleep(0.02)
    note("end", job, "narrow")


def flawed(*_args, job, **_kwargs):
    """Fails in its first attempt."""
    note("begin", job)
    if job["attempt"] == 1:
        raise ConnectionError("the first attempt fails")
    note("end", job)
