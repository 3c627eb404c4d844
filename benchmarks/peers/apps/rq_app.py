"""RQ, https://python-rq.org/docs: a queue, and bulk enqueueing by `enqueue_many`."""

import speed
from bench_tasks import noop
from redis import Redis
from rq import Queue

queue = Queue(connection=Redis.from_url(speed.URL))


def many(count):
    queue.enqueue_many([Queue.prepare_data(noop) for _ in range(count)])


if __name__ == "__main__":
    speed.tell(one=lambda: queue.enqueue(noop), many=many)
