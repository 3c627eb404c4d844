"""Dramatiq, https://dramatiq.io/guide.html: Redis as broker and as result backend."""

import bench_tasks
import dramatiq
import producer
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

broker = RedisBroker(url=producer.URL)
broker.add_middleware(Results(backend=RedisBackend(url=producer.URL)))
dramatiq.set_broker(broker)
noop = dramatiq.actor(store_results=True, actor_name="noop")(bench_tasks.noop)
mark = dramatiq.actor(store_results=True, actor_name="mark")(bench_tasks.mark)
rest = dramatiq.actor(store_results=True, actor_name="rest")(bench_tasks.rest)

if __name__ == "__main__":
    producer.serve(noop.send, mark.send, rest.send)
