"""Huey, https://huey.readthedocs.io: RedisHuey, which keeps the result None as the others do."""

import bench_tasks
import producer
from huey import RedisHuey

huey = RedisHuey("bench", url=producer.URL, store_none=True)
noop = huey.task()(bench_tasks.noop)
mark = huey.task()(bench_tasks.mark)
rest = huey.task()(bench_tasks.rest)

if __name__ == "__main__":
    producer.serve(noop, mark, rest)
