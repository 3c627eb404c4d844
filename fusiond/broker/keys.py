r"""
Every key: the data model.

    ns:{q}:queue        ZSET    ready jobs: id -> (255 - priority) * 2**43 + seq; priority first, then arrival, or
                                the turn of its tenant, which is never above that
    ns:{q}:seq          number  arrivals so far
    ns:{q}:scheduled    ZSET    delayed jobs and retries: id -> due, ms
    ns:{q}:started      ZSET    running jobs: id -> lease deadline, ms
    ns:{q}:finished     ZSET    ended jobs: id -> the time from which it may be dropped, ms
    ns:{q}:failed       ZSET    the same
    ns:{q}:canceled     ZSET    the same
    ns:{q}:deferred     ZSET    jobs that wait for others
    ns:{q}:job:<id>     STRING  the job, below; its args, if large: ns:{q}:job:<id>/args
    ns:{q}:unique:<task>:<values>
                        STRING  the lock of unique jobs: the id of the job that holds it; see lua/shared/locks.lua
    ns:{q}:claim:<d>    STRING  the last claim of a dispatcher's lane: nonce and ids, so that it can be repeated
    ns:{q}:conf         HASH    suspended_operator, of which "all" was said of all queues, suspended_file,
                                max_length, max_running, rate = "<ms> <burst>",
                                limits = JSON {task: {by, max_running, every, burst}},
                                fair = "<argument>,…", placing, gaps: see lua/shared/turns.lua and reassign_turns.lua,
                                elsewhere = JSON {task with a limit: the queue that it lives in},
                                task:<name> = "priority expires unique", policy:<name> = 1,
                                held_tasks, held:<task>, held_looked: see lua/shared/held_tasks.lua,
                                metrics = 1: claims count, too,
                                events = "<how many are kept> <0|1: with payload>", told = how many so far,
                                broken, skipped = how many bodies were unreadable or kept out by a lock so far
    ns:{q}:rate         STRING  epoch ms: when all that was spent of the rate would be spent at the even rate
    ns:{q}:rate:<key>   STRING  the same of a limit of a task
    ns:{q}:places:<key> HASH    of a limit of a task: running jobs that have a place -> token
    ns:{q}:held         ZSET    jobs that such a limit holds, or that wait for a worker that has their task: id -> the
                                score that they had when they were ready
    ns:{q}:held:<key>   ZSET    those of one key of a limit, or of one task, with a question mark in front
    ns:{q}:again        ZSET    k<key>, x<id> of a held job that expires -> when a claim looks at it again, ms
    ns:{q}:tenants      ZSET    of a queue with `fair_by`: "<priority>" -> the current turn;
                                "<priority> <values>" -> the last turn of that tenant; see lua/shared/turns.lua
    ns:{q}:wake         STRING  there while a dispatcher waits: 1, or "<token> <ms>": under which enqueue may give it a
                                job, and since when;
                                also the channel on which it is woken
    ns:{q}:given:<token>
                        STRING  the job that was given under it: "<ms from when the token was left to then> <id>"
    ns:{q}:inbox        LIST    raw JSON jobs pushed by any language
    ns:{q}:broken       LIST    what could not be read: "<ms> <reason>\n<raw>", newest first
    ns:{q}:events       STREAM  what became of jobs: see lua/shared/events.lua; with q = /daemons what daemons did
    ns:{q}:audit        STREAM  those events that an operator's command told, so that they outlive the events of jobs
    ns:{q}:ticks        HASH    cron entry -> "<newest tick> <newest tick that has a job here>", of what was decided;
                                "<cron entry> success" -> epoch ms when a job of the entry finished last
    ns:{q}:ticks:<entry>
                        STREAM  what became of the ticks of a cron entry: see lua/shared/ticks.lua
    ns:{q}:metrics      HASH    counters of what becomes of jobs: "<name> <task>"; see lua/shared/tally.lua
    ns:{q}:metrics:minutes
                        HASH    the same of the last 120 minutes, of all tasks together: "<name> <minute>"
    ns:{q}:metrics:hour:<epoch hour>
                        HASH    the same of one hour: "<name> <task>"; of the last 30 days
    ns:{q}:effects      HASH    what other queues are to be told, and jobs that move there:
                                target -> highest number of an entry; see
                                lua/shared/follow.lua
    ns:{q}:effects:<target>
                        LIST    the entries for one queue: "<number> <entry>"
    ns:{q}:taken        HASH    other queue -> highest number of its entries that was taken here
    ns:{q}:handed:<outbox>
                        ZSET    rows that an outbox of a database has handed over: see lua/shared/handed.lua
    ns:{q}:parents:<id> HASH    of a job that waits for others: how many, and which; see lua/shared/after.lua
    ns:{q}:children:<id>
                        LIST    of a job: those that wait for it, "<queue>/<id> <its own name>"
    ns:{q}:expiring     ZSET    jobs that wait for others -> when they expire, ms
    ns:{q}:flow:<id>    HASH    a run of a flow; flow_records.py has the fields. How its jobs ended: …/ends
    ns:{q}:flows        ZSET    runs: id -> the time from which it may be dropped, ms
    ns:{q}:advance      ZSET    runs that can go a step further: id -> when somebody is to do so, ms
    ns:queues           SET     names of queues
    ns:rights           STRING  for a moment, while a program tries what its user may do; also a channel
    ns:workers          SET     names of workers; also the channel on which they are asked what they do
    ns:worker:<name>    HASH    what a worker says about itself; with a TTL
    ns:outputs          SET     daemons that keep what jobs print; also the channel on which they are asked for it
    ns:outputs:<daemon> STRING  the name of its host; with a TTL
    ns:outputs:answers:<token>
                        LIST    what they answer to one question; with a TTL
    ns:catalog          HASH    digest -> "<to be forgotten from, ms>\n<JSON that has it>"
    ns:daemons          HASH    daemon -> "<alive until, ms> <generation> <hash> <digest>",
                                daemon/worker -> "<alive until, ms> <queue> … !<task that does not load there> …
                                <task>=<name>,…": the names of what its calls pass by position
    ns:sinks            HASH    sink -> "<token of who delivers> <until, ms>"; "<sink>/<queue>" -> number of the event
                                that was delivered last
    ns:{/pools}:slots:<pool>
                        ZSET    "<token> <job> <n>" of each slot that an attempt holds -> until when, ms
    ns:{/pools}:waiting:<pool>
                        HASH    who waits for slots -> "<since, ms> <last look, ms> <slots>"; see lua/pools.lua
    ns:{/pools}:rate:<pool>
                        STRING  as ns:{q}:rate
    ns:{/pools}:conf    HASH    pool -> its slots or empty, of the file that was published last
    ns:outboxes         HASH    outbox -> "<token of who hands over> <until, ms>";
                                "<outbox> says" -> JSON of its state
    ns:cron             HASH    "<cron entry> <name>" -> what is known of it; the names are in ticks.py
    ns:meta             HASH    layout, generation, generation:<hash>, suspended: so is each queue that is new,
                                suspended:<task>: so is that task in each queue that is new,
                                asked: how often workers were asked what they do

`{q}`, the queue's name in braces, is the hash tag of Redis Cluster: all that one verb touches is in one slot.

A job is one text: the words of its state, then its task, header, args, result and error, each in a line of its own:

    c1795309707123 l4,0 s2234207627673601
    echo

    [["hello"], {}]

A word is a letter and a value; `l` has the lengths of task and header, `R` and `E` those of result and error. Only what
is set has a word, in the order of lua/shared/job.lua, which alone reads and writes it. Large args have a key of their
own, ns:{q}:job:<id>/args; their line is empty, and `l` has their length, too. The fields:

    task, args          what to run; args is raw JSON: `[args, kwargs]`, or the whole object that came through the inbox
    header              raw JSON {key, meta, timeout, log_tag, retry, result_ttl, failure_ttl, description,
                        traceparent}: what the producer gave; in front of it {round}, once it was requeued: 2 from the
                        first time on, one more each time
    created_at queued_at started_at ended_at expires_at      epoch ms
    score               its score when it is ready, kept for a release; written at the claim, or when it is scheduled
    priority            of a finished job, in place of the score
    attempts crashes rescues
    limit               key of the limit that holds it or in which it has a place; `-`: it runs, and counts towards the
                        max_running of its queue alone
    interrupted         how often it had begun and was given back: by a shutdown, or a neighbour in its child that died
    token               of the attempt that holds it; empty: none
    last_token          of the attempt that was settled last, so that a settle can be repeated
    last_outcome        how that went, in a word
    snoozed_since       epoch ms; from then on each attempt said that its time has not come
    unique              "<ended | started | ms>,<since>,<values>", of a unique job; see lua/shared/locks.lua
    follow              what follows its end, a letter for each; see lua/shared/follow.lua
    flow                "<queue> <run> <step> <n> <round> <1: result needed>", of a job that is a step of a flow
    cancel              a cancel was asked; the ms that the canceled job is to be kept
    result error        raw JSON
    history             JSON of what the attempt that failed last has printed, or an empty line; then a line of JSON
                        for each of the last 20 attempts that did not finish, the newest first
    progress            "<share> <epoch ms> <message>", as its last attempt has said
"""

from __future__ import annotations

import re

#: what a name may be made of, so that braces and blanks never get into a key
_NAME = re.compile(r"[A-Za-z0-9_.:@-]{1,255}")
#: one priority's part of the score; see lua/shared/score.lua
BAND = 2**43
#: the layout that this code reads and writes
LAYOUT = 5
#: ends the key of a job's arguments where these are large, and stand beside its text; see lua/shared/job.lua
LARGE_ARGS = b"/args"


class Keys:
    """The keys of one namespace."""

    __slots__ = (
        "_roots", "catalog", "cron", "daemons", "meta", "namespace", "outboxes", "outputs", "queues", "rights",
        "sinks", "workers",
    )  # fmt: skip

    def __init__(self, namespace: str) -> None:
        self.namespace = _checked(namespace, "namespace")
        self.queues = f"{namespace}:queues"
        self.rights = f"{namespace}:rights"
        self.workers = f"{namespace}:workers"
        self.outboxes = f"{namespace}:outboxes"
        self.outputs = f"{namespace}:outputs"
        self.catalog = f"{namespace}:catalog"
        self.cron = f"{namespace}:cron"
        self.daemons = f"{namespace}:daemons"
        self.meta = f"{namespace}:meta"
        self.sinks = f"{namespace}:sinks"
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
