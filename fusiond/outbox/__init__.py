"""
Jobs that an application enqueues in its own database, in the transaction that needs them.

    from fusiond import outbox
    outbox.enqueue(connection, "send_receipt", order.id)

A program of the daemon reads the rows once they are committed, and enqueues them. For the application: `enqueue`,
`options`, `once`. Importing this loads no library of a database or of Redis.
"""

from fusiond.outbox.application_side import enqueue, once, options

__all__ = ["enqueue", "once", "options"]
