"""fusiond, with the client that comes with it; its tasks are in the file that `benchmarks/daemon.py` writes."""

import producer

from fusiond import Client

if __name__ == "__main__":
    client = Client(producer.URL)
    producer.serve(
        noop=lambda *args, **kwargs: client.enqueue("noop", *args, **kwargs),
        mark=lambda *args: client.enqueue("mark", *args),
        rest=lambda: client.enqueue("rest"),
        many=lambda count: client.enqueue_many(("noop", producer.ARGS, producer.KWARGS) for _ in range(count)),
    )
