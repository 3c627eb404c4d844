"""Celery, https://docs.celeryq.dev: Redis as broker and as result backend."""

import bench_tasks
import speed
from celery import Celery

_url = speed.URL.replace("unix://", "redis+socket://")
app = Celery("bench", broker=_url, backend=_url)
app.conf.broker_connection_retry_on_startup = True
noop = app.task(bench_tasks.noop, name="noop")

if __name__ == "__main__":
    speed.tell(one=noop.delay)
