"""What tests ask of a queue beyond the verbs: all that is wrong in it, and the bodies that could not be read."""

from typing import NamedTuple

from fusiond.broker.call import plain
from fusiond.broker.maintenance.fsck import Fsck


class Broken(NamedTuple):
    """A body that could not be read."""

    reason: str
    raw: bytes


def findings(verbs, queue, *, repair=False):
    """A plan: each Finding of one queue."""
    found = []
    yield from Fsck(verbs, found.append, repair=repair).queue(queue)
    return found


def broken(verbs, queue):
    """A call: the bodies that could not be read, newest first."""
    return plain(lambda entries: [_broken(entry) for entry in entries], "LRANGE", verbs.keys.of(queue, "broken"), 0, -1)


def _broken(entry):
    head, _, raw = entry.partition(b"\n")
    return Broken(head.decode().partition(" ")[2], raw)
