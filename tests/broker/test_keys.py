"""The keys, and that no verb leaves its queue's slot."""

import inspect
import json

import pytest

from fusiond.broker.call import as_is, nothing, plain, scripted
from fusiond.broker.flow_records import RunWrite, StepOf
from fusiond.broker.hosts.host_records import NO_CATALOGUE
from fusiond.broker.keys import Keys
from fusiond.broker.maintenance.fsck import Fsck
from fusiond.broker.records import HeldTask, NewJob, Outcome, TaskLimit
from fusiond.broker.redis.connection import connect
from fusiond.broker.ticks import DecidedTicks
from fusiond.broker.verbs import Verbs
from fusiond.callbacks import follow_text
from fusiond.config import model
from fusiond.errors import BrokerError
from fusiond.job import JobStatus


def test_keys_of_a_queue_begin_with_its_root():
    """The queue's name is the hash tag of Redis Cluster."""
    keys = Keys("ns")
    assert keys.root("sms") == b"ns:{sms}"
    assert keys.of("sms", "job", "x") == "ns:{sms}:job:x"


@pytest.mark.parametrize("name", ["", "a{b", "a}b", "a b", "a\n", "ä", "x" * 256])
def test_a_name_that_would_break_a_key_is_refused(name):
    """No name can lead into another queue's slot."""
    with pytest.raises(ValueError, match="letters, digits"):
        Keys("ns").root(name)
    with pytest.raises(ValueError, match="namespace"):
        Keys(name)


def test_no_verb_touches_a_key_outside_its_queue(run, redis_server, tmp_path):
    """Redis itself refuses every other key and channel to this user, inside scripts too."""
    commands = ("+@read", "+@write", "+@scripting", "+@pubsub", "+@connection", "+info", "+time")
    keys = ("resetkeys", "resetchannels", "~test:{q}*", "&test:{q}*")
    run(plain(as_is, "ACL", "SETUSER", "one", "on", ">secret", *keys, *commands))
    settings = model.Broker(url=f"unix://one:secret@{redis_server.path}", namespace="test")
    b = Verbs("test")
    job = NewJob("a", "t", b"[]")
    with connect(settings, tmp_path) as connection:
        with pytest.raises(BrokerError, match=r"(?i)no permissions"):
            connection.run(b.enqueue("other", [job]))
        run(plain(as_is, "LPUSH", "test:{q}:inbox", b'{"task":"t"}', b"garbage"))
        run(plain(as_is, "SET", "test:{q}:job:orphan", b"x"))
        done = set()
        for verb, call in verbs(b, job):
            connection.run(call)
            done.add(verb)
    of_a_queue = {
        name
        for name, verb in inspect.getmembers(Verbs, inspect.isfunction)
        if "queue" in inspect.signature(verb).parameters and not name.startswith("_")
    }
    assert done == of_a_queue | {"fsck", "keep_events", "move", "tick"}


def verbs(b, job):
    """Each verb of a queue, in an order in which each has something to do."""
    claim = {"dispatcher": "d", "nonce": "n", "lease_ms": 1, "max_rescues": 0}
    yield "audit_before", b.audit_before("q", b"", 10)
    yield "keep_events", b.keep_events("q", "1000 1")
    yield "configure", b.configure("q", max_length=9, tasks={"t": (1, None)})
    limits = {"limited": TaskLimit(("args.0",), 1, (1000.0, 1))}
    yield "declare_policies", b.declare_policies("q", ["none"])
    yield "declare_failure_ttls", b.declare_failure_ttls("q", {"t": 1})
    yield "configure", b.configure("q", tasks={"limited": (1, None)}, max_running=9, rate=(1.0, 9), limits=limits)
    yield "enqueue", b.enqueue("q", [NewJob(name, "limited", b"[[1],{}]", expires_ms=10**6) for name in "xyz"])
    called_back = follow_text({"on_success": {"queue": "q", "task": "t", "priority": 1}})
    yield "enqueue", b.enqueue("q", [NewJob("followed", "limited", b"[[1],{}]", follow=called_back)])
    yield "claim", b.claim("q", 9, **claim | {"nonce": "limited"})
    yield "settle", b.settle("q", [Outcome("followed", "limited", "finished")])
    yield "settle", b.settle("q", [Outcome("x", "limited", "finished")])
    for name in "yz":
        yield "cancel", b.cancel("q", name)
    yield "configure", b.configure("q", max_length=9, tasks={"limited": (1, None)})
    yield "enqueue", b.enqueue("q", [job, NewJob("b", "t", b"[]", delay_ms=1), NewJob("c", "t", b"[]", expires_ms=0)])
    yield "enqueue", b.enqueue("q", [NewJob("u", "t", b"[]", unique="ended,skip,0,")])
    yield "enqueue_handed", b.enqueue_handed("q", "shop", [NewJob("row", "t", b"[]")], 2**42)
    yield "confirm_handed", b.confirm_handed("q", "shop", ["row"])
    yield "pending_handed", b.pending_handed("q", "shop", 0)
    yield "end_handed", b.end_handed("q", "shop", ["row"])
    yield "claim", b.claim("q", 9, **claim)
    yield "claim", b.claim("q", 9, **claim)
    yield "renew", b.renew("q", [("a", "n")], 1)
    yield "report", b.report("q", [("a", "n", 0.5, "half")])
    yield "cancel", b.cancel("q", "a")
    yield "settle", b.settle("q", [Outcome("a", "n", "retry")])
    yield "claim", b.claim("q", 9, **claim | {"nonce": "m"})
    yield "settle", b.settle("q", [Outcome("b", "m", "released"), Outcome("b", "n", "finished")])
    yield "cancel", b.cancel("q", "b")
    yield "deliver", b.deliver("q")
    for name, parent in (("child", "q/a"), ("grandchild", "q/child")):
        yield "enqueue", b.enqueue("q", [NewJob(name, "t", b"[]", after=f"0 1 {parent}", expires_ms=10**6)])
        yield "deliver", b.deliver("q")
    yield "parents", b.parents("q", "child")
    yield "cancel", b.cancel("q", "child")
    yield "deliver", b.deliver("q")
    yield "failures", b.failures("q")
    yield "samples", b.samples("q", JobStatus.FAILED, 1)[0]
    yield "requeue", b.requeue("q", ["a", "b", "c"])
    yield "prioritize", b.prioritize("q", ["a", "child"], 7)
    yield "cancel", b.cancel("q", "b")
    yield "discard", b.discard("q", ["b", "none"])
    yield "discard", b.discard("q", ["a"], finished=True)
    yield "requeue_broken", b.requeue_broken("q", [b"1 not JSON\n{"])
    yield "drop_broken", b.drop_broken("q", b"1 not JSON\n{")
    yield "broken", b.broken("q")
    yield "claim", b.claim("q", 9, **claim | {"nonce": "o", "reservation": "p"})
    yield "enqueue", b.enqueue("q", [NewJob("d", "t", b"[]")])
    yield "claim", b.claim("q", 9, **claim | {"nonce": "r", "reservation": "s"})
    yield "given", b.given("q", ["p", "s"], take_back=True)
    yield "suspend", b.suspend("q", by="operator", on=True)
    yield "suspend", b.suspend("q", by="operator", on=False)
    yield "suspend_tasks", b.suspend_tasks("q", ["t"], by="operator", on=True)
    yield "suspend_tasks", b.suspend_tasks("q", ["t"], by="operator", on=False)
    yield "tick", b.tick(DecidedTicks("e", "q", "t", b"[]", 1, None, None, (1, 2**42), (0, 0)))
    yield "note_tick", b.note_tick("q", "e", 2**42, "overlap")
    yield "tick_notes", b.tick_notes("q", "e", 0, 9)
    yield "cron_success", b.cron_success("q", "e")
    run = json.dumps({"state": '{"status":"running"}', "shape": "{}"})
    yield "tick", b.tick(DecidedTicks("f", "q", "t", b"[]", 1, None, None, (1,), (0,), run=run, inputs=("{}",)))
    begins = [("q", NewJob("step", "t", b"[]", flow="q cron:f:1 s 0 1 1"))]
    fields = {"t s": 1}
    yield "write_run", b.write_run("q", "cron:f:1", 1, RunWrite(fields, again_ms=0, jobs=begins, runs={"r": fields}))
    yield "write_run", b.write_run("q", "cron:f:1", 2, RunWrite(fields, kept_ms=1, end=("f", b"")))
    yield "delivery", b.delivery("q")
    yield "runs_to_advance", b.runs_to_advance("q", 9)
    yield "run_record", b.run_record("q", "cron:f:1")
    yield "run_status", b.run_status("q", "cron:f:1")
    yield "step_ends", b.step_ends("q", "cron:f:1", ["s.0"])
    yield "step_items", b.step_items("q", "cron:f:1", "s", 0, 1)
    yield "runs", b.runs("q", 9)
    yield "end_step", b.end_step("q", StepOf("cron:f:1", "s", 0, 1), "x", "it is gone")
    yield (
        "enqueue",
        b.enqueue("q", [NewJob("strange", "strange", b"[]", expires_ms=10**6), NewJob("other", "strange", b"[]")]),
    )
    yield "claim", b.claim("q", 1, **claim | {"nonce": "strange", "lease_ms": 10**6})
    yield "settle", b.settle("q", [Outcome("strange", "strange", "unknown", payload=b"{}")])
    yield "claim", b.claim("q", 1, **claim | {"nonce": "stranger"}, has="")
    yield "has_held_tasks", b.has_held_tasks("q")
    yield "look_at_held_tasks", b.look_at_held_tasks("q", NO_CATALOGUE, 1)
    for what in ("fail", "go"):
        yield "end_held", b.end_held("q", HeldTask("strange", 2, 1, what, ""), 0, 10**6)
    yield "status", b.status("q", "a")
    yield "rescue", b.rescue("q")
    yield "sweep", b.sweep("q")
    yield "move", scripted("move", b.keys.root("q"), ("q", 9, 0, 0), as_is)
    yield "job", b.job("q", "a")
    for status in JobStatus:
        yield "jobs", b.jobs("q", status)
        yield "place", b.place("q", "a")
        yield "newest", b.newest("q", status)
        yield "ids", b.ids("q", status)
        yield "newest", b.newest("q", status, task="t", text="x")
    yield "outcome", b.outcome("q", "a")
    yield "counts", b.counts("q")
    yield "waiting_for", b.waiting_for("q", "queued", (b"-inf", b""), ["tt"])
    yield "scan", b.scan("q", 0, 100)
    yield "locks", b.locks("q")
    yield "lock_holder", b.lock_holder("q", "t:")
    yield "inspect_locks", b.inspect_locks("q", [b"t:"], repair=True)
    yield "unlock", b.unlock("q", "u", ["t:"])
    yield "inspect", b.inspect("q", "members", [b"a", b"none"], repair=False)
    yield "inspect", b.inspect("q", "keys", [b"a", b"none"], repair=True)
    yield "purge", b.purge("q")
    yield "fsck", Fsck(b, nothing, repair=True).queue("q")
