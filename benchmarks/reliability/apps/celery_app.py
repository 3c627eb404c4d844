"""
Celery, https://docs.celeryq.dev/en/stable/userguide/configuration.html: Redis as broker and as result backend.

To be safest it acknowledges late, does not take a lost worker for an end, and prefetches nothing; its Redis transport
gives back what a dead worker held after the visibility timeout.
"""

import os

import work
from celery import Celery

_url = os.environ["RELIABILITY_URL"].replace("unix://", "redis+socket://")
app = Celery("reliability", broker=_url, backend=_url)
app.conf.broker_connection_retry_on_startup = True
if os.environ.get("RELIABILITY_SAFE"):
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        broker_transport_options={"visibility_timeout": int(os.environ["RELIABILITY_VISIBILITY"])},
    )
run = app.task(work.run, name="run")


def enqueue(number, sleep):
    run.delay(number, sleep)
