r"""
Every key: the data model.

    ns:{q}:queue        ZSET    ready jobs: id -> (255 - priority) * 2**43 + seq; priority first, then arrival
    ns:{q}:seq          number  arrivals so far
    ns:{q}:scheduled    ZSET    delayed jobs and retries: id -> due, ms
    ns:{q}:started      ZSET    running jobs: id -> lease deadline, ms
    ns:{q}:finished     ZSET    ended jobs: id -> the time from which it may be dropped, ms
    ns:{q}:failed       ZSET    the same
    ns:{q}:canceled     ZSET    the same
    ns:{q}:deferred     ZSET    jobs that wait for others
    ns:{q}:job:<id>     HASH    the job, below
    ns:{q}:claim:<d>    STRING  a dispatcher's last claim: nonce and ids, so that it can be repeated
    ns:{q}:conf         HASH    suspended_operator, suspended_file, max_length, task:<name> = "priority expires",
                                broken = how many bodies were unreadable so far
    ns:{q}:wake         STRING  there while a dispatcher waits; also the channel on which it is woken
    ns:{q}:inbox        LIST    raw JSON jobs pushed by any language
    ns:{q}:broken       LIST    what could not be read: "<ms> <reason>\n<raw>", newest first
    ns:{q}:ticks        HASH    cron entry -> "<newest tick> <newest tick that has a job here>", of what was decided
    ns:{q}:leaving      HASH    deferred jobs that are moved to another queue: id -> "<nonce> <kind> <place> <queue>"
    ns:{q}:arriving     HASH    the same of those that come from another queue
    ns:queues           SET     names of queues
    ns:workers          SET     names of workers; also the channel on which they are asked what they do
    ns:worker:<name>    HASH    what a worker says about itself; with a TTL
    ns:catalog          HASH    digest -> "<to be forgotten from, ms>\n<JSON that has it>"
    ns:daemons          HASH    daemon -> "<alive until, ms> <generation> <hash> <digest>",
                                daemon/worker -> "<alive until, ms> <queue> <queue> …"
    ns:cron             HASH    "<cron entry> <name>" -> what is known of it; the names are in ticks.py
    ns:meta             HASH    layout, generation, generation:<hash>, suspended: so is each queue that is new,
                                asked: how often workers were asked what they do

`{q}`, the queue's name in braces, is the hash tag of Redis Cluster: all that one verb touches is in one slot.

A job's hash holds only what is set:

    task, args          what to run; args is raw JSON: `[args, kwargs]`, or the whole object that came through the inbox
    header              raw JSON {key, meta, timeout, log_tag}, of what the producer gave
    created_at queued_at started_at ended_at expires_at      epoch ms
    score               its place in the row, kept for a release; written at the claim, or when it is scheduled
    attempts crashes rescues
    interrupted         how often it had begun and was given back: by a shutdown, or a neighbour in its child that died
    token               of the attempt that holds it; empty: none
    last_token          of the attempt that was settled last, so that a settle can be repeated
    last_outcome        how that went, in a word
    unknown_since       epoch ms; from then on no host that had it knew its task, or could load it
    cancel              a cancel was asked; the ms that the canceled job is to be kept
    result error        raw JSON
"""

from __future__ import annotations

import re

#: what a name may be made of, so that braces and blanks never get into a key
_NAME = re.compile(r"[A-Za-z0-9_.:@-]{1,255}")
#: one priority's part of the score; see lua/shared/score.lua
BAND = 2**43
#: the layout that this code reads and writes
LAYOUT = 1


class Keys:
    """The keys of one namespace."""

    __slots__ = ("_roots", "catalog", "cron", "daemons", "meta", "namespace", "queues", "workers")

    def __init__(self, namespace: str) -> None:
        self.namespace = _checked(namespace, "namespace")
        self.queues = f"{namespace}:queues"
        self.workers = f"{namespace}:workers"
        self.catalog = f"{namespace}:catalog"
        self.cron = f"{namespace}:cron"
        self.daemons = f"{namespace}:daemons"
        self.meta = f"{namespace}:meta"
        self._roots: dict[str, bytes] = {}

    def root(self, queue: str) -> bytes:
        """`ns:{q}`, with which each key of the queue begins; what the scripts are given."""
        root = self._roots.get(queue)
        if root is None:
            root = self._roots[queue] = f"{self.namespace}:{{{_checked(queue, 'queue')}}}".encode()
        return root

    def of(self, queue: str, *parts: str) -> str:
        """The queue's key with these parts, such as `of("sms", "job", id)`."""
        return ":".join((self.root(queue).decode(), *parts))

    def wake(self, queue: str) -> str:
        """The flag of a waiting dispatcher, and the channel on which it is woken."""
        return self.of(queue, "wake")

    def worker(self, name: str) -> str:
        """What the worker says about itself."""
        return f"{self.namespace}:worker:{name}"


class VerbGroup:
    """Some of the verbs of one namespace: each makes a Call, or a Plan of several, and does no I/O."""

    def __init__(self, namespace: str = "fusion") -> None:
        self.keys = Keys(namespace)


def is_name(name: str) -> bool:
    """Whether a queue or namespace can have this name."""
    return _NAME.fullmatch(name) is not None


def _checked(name: str, what: str) -> str:
    if not is_name(name):
        raise ValueError(f"{what} {name!r}: use 1 to 255 letters, digits and _.:@-")
    return name
