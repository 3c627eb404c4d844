"""
Celery, https://docs.celeryq.dev: Redis as broker and as result backend.

The multiplier is what "Optimizing, Prefetch Limits" advises for many short tasks.
"""

import bench_tasks
import producer
from celery import Celery

_url = producer.URL.replace("unix://", "redis+socket://")
app = Celery("bench", broker=_url, backend=_url)
app.conf.broker_connection_retry_on_startup = True
app.conf.worker_prefetch_multiplier = 64
noop = app.task(bench_tasks.noop, name="noop")
mark = app.task(bench_tasks.mark, name="mark")
rest = app.task(bench_tasks.rest, name="rest")

if __name__ == "__main__":
    producer.serve(noop.delay, mark.delay, rest.delay)
