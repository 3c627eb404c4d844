"""Huey, https://huey.readthedocs.io: RedisHuey, which keeps the result None as the others do."""

import bench_tasks
import speed
from huey import RedisHuey

huey = RedisHuey("bench", url=speed.URL, store_none=True)
noop = huey.task()(bench_tasks.noop)

if __name__ == "__main__":
    speed.tell(one=noop)
