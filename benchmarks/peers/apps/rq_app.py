"""RQ, https://python-rq.org/docs: a queue, and bulk enqueueing by `enqueue_many`."""

import bench_tasks
import producer
from redis import Redis
from rq import Queue

queue = Queue(connection=Redis.from_url(producer.URL))


def many(count):
    data = [Queue.prepare_data(bench_tasks.noop, args=producer.ARGS, kwargs=producer.KWARGS) for _ in range(count)]
    queue.enqueue_many(data)


if __name__ == "__main__":
    producer.serve(
        noop=lambda *args, **kwargs: queue.enqueue(bench_tasks.noop, *args, **kwargs),
        mark=lambda *args: queue.enqueue(bench_tasks.mark, *args),
        rest=lambda: queue.enqueue(bench_tasks.rest),
        many=many,
    )
