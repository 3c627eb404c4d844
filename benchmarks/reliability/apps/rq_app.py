"""RQ, https://python-rq.org/docs/exceptions/#retrying-failed-jobs: `Retry` where it is to be safest."""

import os

import work
from redis import Redis
from rq import Queue, Retry

queue = Queue(connection=Redis.from_url(os.environ["RELIABILITY_URL"]))
SAFE = {"retry": Retry(max=3), "job_timeout": 60} if os.environ.get("RELIABILITY_SAFE") else {}


def enqueue(number, sleep):
    queue.enqueue(work.run, number, sleep, **SAFE)
