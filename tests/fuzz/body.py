"""
Bytes pushed to a queue's inbox, good jobs among them.

Promise: each good job finishes with its own arguments; of whatever else was pushed the bytes are under `broken`, or are
a job's that has finished, failed with a code of its own, waits for its time, or waits for a file that knows its task.
"""

import json

import jsonschema
from hypothesis import strategies as st

from fusiond.json_depth import too_deep
from tests.broker.test_job_schema import VALIDATOR
from tests.broker.test_job_schema import bodies as at_the_limits
from tests.fuzz import mutate
from tests.fuzz.ground import Ground
from tests.fuzz.run import Target
from tests.support.job_text import read_job
from tests.support.queue_state import broken
from tests.support.running import until

FILE = """
broker: {url: embedded}
queues: {bodies: {}}
defaults: {tasks: {retry: none, result_ttl: 1m}, workers: {directory: "{app}", processes: 2}}
tasks:
  echo: {run: harmless.echo, queue: bodies}
  told: {run: harmless.told, queue: bodies, pass_job: job}
  t: {run: harmless.echo, queue: bodies}
workers: {forked: {queues: [bodies], isolation: fork}, reused: {queues: [bodies], isolation: process}}
"""
ROOT = "fusion:{bodies}:"
#: of jobs that task code was never to blame for
CODES = {"BAD_ARGUMENTS", "RESULT_NOT_SERIALIZABLE", "RESULT_TOO_LARGE", "EXPIRED", "TASK_NOT_FOUND"}
LARGEST = 1 << 20
#: each key of the schema, and one that it has not
KEYS = [name for name in (*VALIDATOR.schema["properties"], "bogus") if name != "task"]
OBJECTS = st.fixed_dictionaries({"task": st.sampled_from(["echo", "told"])}, optional=dict.fromkeys(KEYS, mutate.JSON))


class Fuzz(Target):
    def __init__(self, rand):
        super().__init__(rand)
        self.ground = Ground(FILE, "harmless.py")
        self.number = 0

    def begin(self):
        self._limits = [json.dumps(body).encode() for body in at_the_limits()]

    def round(self):
        good = dict(self._good() for _ in range(20))
        bad = [self._bad() for _ in range(60)] + self._generated(20)
        pushed = [*good.values(), *bad]
        self.rand.shuffle(pushed)
        for body in pushed:
            self.ground.redis("LPUSH", f"{ROOT}inbox", body)
        self._wake()
        until(self._at_rest, self._unrest, timeout=60)
        jobs, broken = self._jobs(), self._broken()
        for id_, body in good.items():
            self._judge_good(body, jobs.pop(id_, None))
        for body in bad:
            self._judge(body, [job for job in jobs.values() if job["args"] == body], broken.get(body))
        self._clear()

    # -- bodies -------------------------------------------------------------------------------------------------------

    def _good(self):
        self.number += 1
        id_ = f"good-{self.number}"
        args = [self.number, "ü" * self.rand.choice((0, 1, 100, 100_000 if self.rand.random() < 0.1 else 1))]
        return id_, json.dumps({"task": "echo", "id": id_, "args": args}).encode()

    def _bad(self):
        rand, chance = self.rand, self.rand.random()
        if chance < 0.15:
            return rand.choice(self._limits)
        if chance < 0.3:
            return self._deep()
        if chance < 0.35:
            size = LARGEST + rand.choice((-40, -30, -20, 0, 1, LARGEST))
            return b'{"task":"echo","args":["' + rand.choice((b"x", b"\xff", b"\\n")) * size + b'"]}'
        if chance < 0.4:
            return rand.randbytes(rand.choice((0, 1, 10, 1000)))
        body = rand.choice([*self._limits[:20], *(self._good()[1] for _ in range(5))])
        return mutate.mutated(rand, body)

    def _deep(self):
        """As deep as the two parsers can read, about, and deeper."""
        rand = self.rand
        deep = mutate.nested(rand.choice((100, *range(490, 510), *range(900, 1010, 5), 100_000)), rand.choice("[{"))
        where = rand.choice((b"args", b"kwargs", b"meta", b"bogus", b"task"))
        return b'{"task":"told","' + where + b'":' + (b"[" + deep + b"]" if where == b"args" else deep) + b"}"

    def _generated(self, count):
        made = mutate.examples(OBJECTS, self.rand, count)
        return [
            json.dumps(each, ensure_ascii=self.rand.random() < 0.5).encode("utf-8", "surrogatepass") for each in made
        ]

    # -- what came of them --------------------------------------------------------------------------------------------

    def _wake(self):
        if self.ground.redis("DEL", f"{ROOT}wake"):
            self.ground.redis("PUBLISH", f"{ROOT}wake", "ready")

    def _at_rest(self):
        # Held are the jobs of tasks that the file does not have.
        for waiting in ("scheduled", "held"):
            for id_ in self.ground.redis("ZRANGE", f"{ROOT}{waiting}", 0, -1):
                self.ground.run(self.ground.broker.cancel("bodies", id_.decode()))
        # In one script: a job that moves between two questions would be seen nowhere.
        counts = self.ground.run(self.ground.broker.counts("bodies"))
        return not any((counts.inbox, counts.queued, counts.started, counts.scheduled, counts.held))

    def _unrest(self):
        return f"does not come to rest: {self.ground.run(self.ground.broker.counts('bodies'))}"

    def _jobs(self):
        """Id → its fields, with its status."""
        found = {}
        for status in ("finished", "failed", "canceled"):
            for id_ in self.ground.redis("ZRANGE", ROOT + status, 0, -1):
                fields = read_job(self.ground.run, f"{ROOT}job:".encode() + id_)
                found[id_.decode()] = {**fields, "status": status}
        return found

    def _broken(self):
        """Bytes → why."""
        entries = self.ground.run(broken(self.ground.broker, "bodies"))
        return {entry.raw: entry.reason for entry in entries}

    def _judge_good(self, body, job):
        assert job, f"a good job is gone: {body[:200]!r}"
        assert job["status"] == "finished", f"a good job has not finished: {body[:200]!r} {job}"
        assert json.loads(job["result"])[0] == json.loads(body)["args"], f"another job's result: {body[:200]!r}"
        self.seen["good: finished"] += 1

    def _judge(self, body, jobs, reason):
        what = f"{len(body)} bytes, {body[:300]!r}"
        assert jobs or reason is not None, f"neither a job nor broken: {what}"
        for job in jobs:
            self._judge_job(what, job)
        if reason is not None:
            # The schema cannot count bytes, nor know what else was pushed or what a file has.
            beyond = any(words in reason for words in ("taken by another", " bytes", "no daemon of the queue"))
            assert beyond or not _is_valid(body), f"the schema allows what is {reason}: {what}"
            self.seen["bad: broken"] += 1

    def _judge_job(self, what, job):
        status = job["status"]
        if status == "failed":
            error = json.loads(job["error"])
            assert error["code"] in CODES, f"failed with {error}: {what}"
            status = f"failed with {error['code']}"
        self.seen[f"bad: {'waits' if status == 'canceled' else status}"] += 1

    def _clear(self):
        keys = self.ground.redis("KEYS", f"{ROOT}job:*")
        keys += [ROOT + name for name in ("finished", "failed", "canceled", "broken")]
        self.ground.redis("UNLINK", *keys)


def _is_valid(body):
    """Whether the body is what the schema allows, for certain."""

    def once(pairs):
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    def never(constant):
        raise ValueError(constant)

    if len(body) > LARGEST or too_deep(body):
        return False
    try:
        value = json.loads(body.decode(), parse_constant=never, object_pairs_hook=once)
        # Half a surrogate pair is not a character: Redis' JSON refuses it wherever it stands.
        json.dumps(value, ensure_ascii=False).encode()
        return VALIDATOR.is_valid(value)
    except (ValueError, AssertionError, RecursionError, TypeError, LookupError, jsonschema.SchemaError, AttributeError):
        return False
