"""Dramatiq, https://dramatiq.io/guide.html: Redis as broker and as result backend."""

import bench_tasks
import dramatiq
import speed
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

broker = RedisBroker(url=speed.URL)
broker.add_middleware(Results(backend=RedisBackend(url=speed.URL)))
dramatiq.set_broker(broker)
noop = dramatiq.actor(store_results=True, actor_name="noop")(bench_tasks.noop)

if __name__ == "__main__":
    speed.tell(one=noop.send)
