"""
The broker: one method per verb, none does I/O.

    jobs.py       enqueue, claim, renew, settle
"""

from __future__ import annotations

from fusiond.broker.jobs import JobVerbs
from fusiond.broker.keys import Keys


class Broker(JobVerbs):
    """The verbs in one namespace."""

    __slots__ = ("keys",)

    def __init__(self, namespace: str = "fusion") -> None:
        self.keys = Keys(namespace)
