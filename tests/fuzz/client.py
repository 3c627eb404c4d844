"""
Calls of the Client with whatever Python has: values that are no JSON, options that mean nothing, names of nothing.

Promise: a call raises a FusionError and nothing is stored, or its job arrives at the function with what was given, as
JSON has it, and comes back.
"""

import collections
import datetime as dt
import decimal
import json

from hypothesis import strategies as st

from fusiond.errors import FusionError, JobFailed
from fusiond.json_depth import TOO_DEEP
from tests.fuzz import mutate
from tests.fuzz.ground import Ground
from tests.fuzz.run import Target
from tests.support.running import until

FILE = """
broker: {url: embedded}
queues: {calls: {}, other: {}}
defaults: {tasks: {retry: none, result_ttl: 1m}, workers: {directory: "{app}", processes: 2}}
tasks: {echo: {run: harmless.echo, queue: calls}, told: {run: harmless.told, queue: calls, pass_job: job}}
workers: {forked: {queues: [calls, other], isolation: fork}, reused: {queues: [calls, other], isolation: process}}
"""
QUEUES = ("calls", "other")


class Evil:
    """Has every method that a serializer or a check might call, and each raises."""

    def __getattr__(self, name):
        raise RuntimeError(name)


class Text(str):
    __slots__ = ()


class Number(int):
    pass


def _cycle():
    found = []
    found.append({"in": found})
    return found


def _deep(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found


#: what no caller should give
ODD = [
    object(), Evil(), Evil, b"bytes", bytearray(b"x"), {1, 2}, range(3), (n for n in "ab"), iter([]), lambda: 1, print,
    float("nan"), float("inf"), -float("inf"), 1j, decimal.Decimal("1.1"), dt.datetime(2030, 1, 1),  # noqa: DTZ001
    dt.datetime(2030, 1, 1, tzinfo=dt.UTC), dt.datetime.max,  # noqa: DTZ901
    dt.timedelta(days=-1),
    dt.timedelta.max, _cycle(), _deep(2000), _deep(500), "\ud800", "\x00", "x" * 300, "", " ", "\n", "é", "NaN",
    "x" * (1 << 20), {"a": "\udfff"}, {("a", "b"): 1}, {1: "one", None: 0}, {"x": {}},
    collections.OrderedDict(a=1), Text("text"), Number(7), True, False, None, 0, -1, 255, 256, 1.5, -0.0, 1e300,
    10**400, 10**5000, 2**63, "1e999", "-5m", "5m", "1h", "0", "high", "other", "nowhere", "2030-01-01",
    "2030-01-01T00:00:00+01:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", [], {}, (), ("echo",),
]  # fmt: skip
OPTIONS = ("delay", "at", "priority", "key", "queue", "expires", "meta", "log_tag", "timeout", "id")
ARGUMENTS = st.tuples(st.lists(mutate.JSON, max_size=3), st.dictionaries(mutate.TEXT, mutate.JSON, max_size=3))


class Fuzz(Target):
    def __init__(self, rand):
        super().__init__(rand)
        self.ground = Ground(FILE, "harmless.py")

    def begin(self):
        self.client = self.ground.client()

    def __exit__(self, *_):
        self.client.close()
        super().__exit__()

    def round(self):
        stored = {}
        for args, kwargs in mutate.examples(ARGUMENTS, self.rand, 30):
            self._call(stored, args, kwargs)
        for _ in range(30):
            self._call(stored, [self._odd() for _ in range(self.rand.randrange(3))], {"x": self._odd()})
        self._many(stored)
        self._wait(stored)
        for name, (job, sent) in stored.items():
            self._judge(name, job, sent)
        self._clear()

    def _odd(self):
        return self.rand.choice(ODD)

    def _call(self, stored, args, kwargs):
        """One call, with some options or none."""
        rand = self.rand
        names = rand.sample(OPTIONS, rand.choice((0, 0, 1, 1, 2, 3)))
        options = {name: self._odd() if rand.random() < 0.9 else rand.choice(args or [0]) for name in names}
        task = self._odd() if rand.random() < 0.05 else rand.choice(("echo", "told"))
        if task == "told":
            kwargs.pop("job", None)
        what = f"options {_shown(options)}, {_shown(task)}, {_shown(args)}, {_shown(kwargs)}"
        before = self._ids()
        try:
            job = self.client.options(**options).enqueue(task, *args, **kwargs)
        except FusionError as error:
            self.seen[f"refused: {type(error).__name__}"] += 1
            assert self._ids() == before, f"refused with {error}, and stored: {what}"  # noqa: PT017
        except Exception as error:
            error.add_note(what)
            raise
        else:
            assert self._ids() - before <= {job.name}, f"another job: {what}"
            stored[job.name] = job, (task, _as_json(args), _as_json(kwargs), options)

    def _many(self, stored):
        """As many at once, some of them odd."""
        odd = [self._odd() for _ in range(3)]
        calls = [("echo", [n], {}) for n in range(10)]
        if self.rand.random() < 0.8:
            strange = [
                ("echo", odd),
                ("echo", odd[0]),
                (odd[0],),
                ("echo", [], odd[0]),
                ("echo", [], {}, 1),
                (),
                odd[1],
            ]
            calls.insert(self.rand.randrange(10), self.rand.choice(strange))
        before = self._ids()
        try:
            jobs = self.client.enqueue_many(iter(calls))
        except FusionError as error:
            self.seen[f"many refused: {type(error).__name__}"] += 1
            assert self._ids() == before, f"refused with {error}, and stored: {_shown(calls)}"  # noqa: PT017
        except Exception as error:
            error.add_note(_shown(calls))
            raise
        else:
            for job, call in zip(jobs, calls, strict=True):
                stored[job.name] = job, (call[0], *map(_as_json, (*call[1:], *([], {})[len(call) - 1 :])), {})

    # -- what came of them --------------------------------------------------------------------------------------------

    def _ids(self):
        keys = [key for queue in QUEUES for key in self.ground.redis("KEYS", f"fusion:{{{queue}}}:job:*")]
        # Large arguments are in a key of their own, until the job has ended.
        names = (key.decode().replace("fusion:{", "").replace("}:job:", "/") for key in keys)
        return {name.removesuffix("/args") for name in names}

    def _wait(self, stored):
        """Until all have ended; what waits for its time is canceled."""

        def ended():
            waiting = [job for job, _ in stored.values() if not job.status().ended]
            for job in waiting:
                if job.status() == "scheduled":
                    job.cancel()
            return not waiting

        until(ended, timeout=60)

    def _judge(self, name, job, sent):
        task, args, kwargs, options = sent
        status = job.status()
        if status == "finished":
            returned = job.result()
            assert returned[:2] == [args, kwargs], f"{name}: sent {args!r} {kwargs!r}, came back as {returned!r}"[:2000]
            assert task != "told" or returned[2] == options.get("key"), f"{name}: {options!r} {returned!r}"[:2000]
            assert task != "told" or returned[3] == _as_json(options.get("meta")), f"{name}: {options!r} {returned!r}"[
                :2000
            ]
        elif status == "failed":
            self._judge_failed(name, job, sent)
        self.seen[f"stored: {'waits' if status == 'canceled' else status}"] += 1

    def _judge_failed(self, name, job, sent):
        try:
            job.result()
        except JobFailed as failure:
            deep = TOO_DEEP in str(failure)
            expected = (failure.code == "EXPIRED" and "expires" in sent[3]) or failure.code in (
                "TIMEOUT",
                "RESULT_TOO_LARGE",
            )
            assert deep or expected, f"{name}: {failure.code} {failure}: {sent!r}"[:2000]  # noqa: PT017

    def _clear(self):
        for queue in QUEUES:
            root = f"fusion:{{{queue}}}:"
            keys = self.ground.redis("KEYS", f"{root}job:*")
            self.ground.redis("UNLINK", *keys, *(root + name for name in ("finished", "failed", "canceled")))


def _as_json(value):
    return json.loads(json.dumps(value))


def _shown(value):
    try:
        return repr(value)[:500]
    except Exception as error:
        return f"({type(value).__name__}, {error!r})"
