"""Jobs come to a dispatcher: its lanes to Redis, the order of the queues, leases, jobs that a wake-up brings."""
