"""What the verbs tell in `{q}:events`, with the transition itself."""

from random import Random

import pytest

from fusiond.broker.call import as_is, scripted
from fusiond.broker.event_reading import LOST, Cursors
from fusiond.broker.event_records import DAEMONS
from fusiond.broker.records import EventsOf, NewJob, Outcome, TaskLimit
from fusiond.job import JobStatus, new_token
from tests.support.event_story import disagreements

HOUR = 3_600_000
ERROR = b'{"code":"EXCEPTION","type":"ValueError","message":"no such row","traceback":""}'
ALL = 100_000
ENDS = ("finished", "failed", "canceled")


class Desk:
    """A queue that keeps events."""

    def __init__(self, run, broker, redis, wanted="1000 0"):
        self.run, self.broker, self.redis, self.wanted = run, broker, redis, wanted
        run(broker.declare(["q"]))
        run(broker.configure("q", tasks={"t": (1, None)}))
        run(broker.keep_events("q", wanted))

    def enqueue(self, *ids, **more):
        return self.run(self.broker.enqueue("q", [NewJob(id_, "t", b"[[],{}]", **more) for id_ in ids]))

    def claim(self, want=1, lease_ms=HOUR):
        token = new_token()
        asked = self.broker.claim("q", want, dispatcher="box.7", nonce=token, lease_ms=lease_ms, max_rescues=2)
        return [(job.id.decode(), token) for job in self.run(asked).jobs]

    def settle(self, attempt, kind, payload=ERROR, ms=HOUR, **more):
        told = {"about": b',"host":"box"', "said": b" w5 g2 d1500"}
        extra = f"{HOUR} {HOUR}" if kind == "snoozed" else 0
        outcome = Outcome(*attempt, kind, ms, extra, payload, **told, **more)
        return self.run(self.broker.settle("q", [outcome], events=EventsOf(self.wanted, "box main")))

    @property
    def events(self):
        return self.run(self.broker.events_behind("q", 0, ALL)).events

    @property
    def documents(self):
        return [event.document() for event in self.events]

    @property
    def names(self):
        return [event.name for event in self.events]

    def statuses(self):
        found = {}
        for status in JobStatus:
            found |= {job.id: status.value for job in self.run(self.broker.jobs("q", status, count=ALL))}
        return found


@pytest.fixture
def desk(run, broker, redis):
    return Desk(run, broker, redis)


def test_a_job_that_runs_has_three_events(desk):
    """The end has what is known of the attempt; all of it in one document."""
    desk.enqueue("a", log_tag="two words", priority=3)
    (attempt,) = desk.claim()
    desk.settle(attempt, "finished", b'"done"')
    enqueued, claimed, finished = desk.documents
    common = {"job_id": "a", "task": "t", "task_type": "two words", "queue": "q"}
    assert enqueued.items() >= {**common, "event": "enqueued", "status": "queued"}.items()
    assert claimed.items() >= {**common, "event": "claimed", "status": "started", "host": "box", "attempt": 1}.items()
    times = {"wait": 0.005, "duration": 1.5, "host": "box", "group": "main", "attempt": 1}
    assert finished.items() >= {**common, "event": "finished", "status": "finished", **times}.items()
    # 5 ms after it was enqueued, as it was told; less may have passed here
    assert finished["began_at"] > enqueued["log_time"]
    assert not {"result", "args", "error", "asked_by"} & {*enqueued, *claimed, *finished}


def test_a_failure_says_why_and_a_retry_when(desk):
    """Code, type and message; not the traceback."""
    desk.enqueue("a")
    (attempt,) = desk.claim()
    desk.settle(attempt, "retry", ms=60_000)
    said = desk.documents[-1]
    assert said["error"] == {"code": "EXCEPTION", "type": "ValueError", "message": "no such row"}
    assert (said["event"], said["status"], said["delay"]) == ("retry", "scheduled", 60)


def test_operators_are_named(desk):
    """Whatever they do, where it changes something; and a daemon's suspend by its file where it does."""
    desk.enqueue("a")
    for _ in range(2):
        desk.run(desk.broker.prioritize("q", ["a"], 9, who="kim@box"))
    desk.run(desk.broker.cancel("q", "a", who="kim@box"))
    desk.run(desk.broker.requeue("q", ["a"], who="kim@box"))
    desk.run(desk.broker.cancel("q", "a", who="kim@box"))
    desk.run(desk.broker.discard("q", ["a"], who="kim@box"))
    for on in (True, True, False, False):
        desk.run(desk.broker.suspend("q", by="operator", on=on, who="kim@box"))
        desk.run(desk.broker.suspend("q", by="file", on=on))
    found = [(said["event"], said.get("asked_by")) for said in desk.documents[1:]]
    jobs = [(name, "kim@box") for name in ("prioritized", "canceled", "requeued", "canceled", "deleted")]
    assert desk.documents[1]["message"] == "priority 9"
    file = [("suspended", "the file"), ("resumed", "kim@box"), ("resumed", "the file")]
    assert found == [*jobs, ("suspended", "kim@box"), *file]


def test_arguments_and_results_only_where_the_file_says_so(run, broker, redis):
    """Of each the first 4 kB."""
    desk = Desk(run, broker, redis, "1000 1")
    desk.enqueue("a")
    (attempt,) = desk.claim()
    desk.settle(attempt, "finished", b'"%b"' % (b"x" * 10_000))
    enqueued, _, finished = desk.documents
    assert enqueued["args"] == "[[],{}]"
    assert finished["result"] == '"' + "x" * 4095


def test_ticks_and_what_was_skipped(desk):
    """A tick that came too late, and one for which there is no room."""
    now = 1000 * int(desk.redis("TIME")[0])
    desk.run(desk.broker.configure("q", tasks={}, max_length=1))
    words = ["nightly", "t", b"[[],{}]", 1, "", 60_000, "", "", ""]
    words += [now - HOUR, 0, now - 2000, 0, now - 1000, 0]
    desk.run(scripted("tick", desk.broker.keys.root("q"), words, as_is))
    said = [(each["event"], each["about"], each.get("message")) for each in desk.documents if "cron" in each["event"]]
    assert said == [
        ("cron.skipped", "nightly", "deadline"),
        ("cron.tick", "nightly", None),
        ("cron.skipped", "nightly", "the queue is full"),
    ]


def test_what_lets_a_waiting_job_go_on_is_told(desk):
    """Its time has come, its limit has a place again, the job that it waited for has ended."""
    desk.run(desk.broker.configure("q", tasks={"t": (1, None)}, limits={"t": TaskLimit((), 1)}))
    desk.enqueue("late", delay_ms=HOUR)
    desk.redis("ZADD", "test:{q}:scheduled", "XX", 1, "late")
    desk.enqueue("parent", "second")
    desk.enqueue("child", after="0 0 q/parent")
    desk.enqueue("later", after="0 0 q/parent", delay_ms=HOUR)
    desk.run(desk.broker.deliver("q"))
    attempts = desk.claim(4)
    assert len(attempts) == 1
    parent = next(attempt for attempt in attempts if attempt[0] == "parent")
    desk.settle(parent, "finished", b"1")
    desk.run(desk.broker.deliver("q"))
    said = {(each["event"], each["job_id"], each["status"]): each.get("message") for each in desk.documents}
    assert said["queued", "late", "queued"] == "it is due"
    assert said["queued", "second", "queued"] == "its limit lets it go on"
    assert (
        said["queued", "child", "queued"] == said["scheduled", "later", "scheduled"] == "what it waited for has ended"
    )
    assert disagreements(desk.events, desk.statuses()) == []


def test_a_lost_lease_says_since_when_it_was_held(desk):
    """Nobody knows when the attempt began, nor whether it did."""
    desk.enqueue("a")
    desk.claim()
    desk.redis("ZADD", "test:{q}:started", "XX", 1, "a")
    desk.run(desk.broker.rescue("q"))
    claimed, rescued = desk.documents[1:]
    assert (rescued["event"], rescued["claimed_at"]) == ("rescued", claimed["log_time"])
    assert not {"began_at", "duration", "claimed_at"} & {*desk.documents[1]}
    assert "began_at" not in rescued
    desk.claim()
    desk.redis("ZADD", "test:{q}:started", "XX", 1, "a")
    desk.run(desk.broker.claim("q", 0, dispatcher="d", nonce="n", lease_ms=HOUR, max_rescues=1))
    failed = desk.documents[-1]
    assert (failed["event"], failed["error"]["code"], "claimed_at" in failed) == ("failed", "LEASE_LOST", True)


def test_what_an_operator_does_to_bodies_and_locks_is_told(desk):
    """With who asked, and what it was about; nothing where nothing was done."""
    for body in ("[1]", "[2]"):
        desk.redis("LPUSH", "test:{q}:inbox", body)
    desk.claim()
    second, first = desk.run(desk.broker.broken("q"))
    for _ in range(2):
        desk.run(desk.broker.drop_broken("q", first.entry, who="kim@box"))
        desk.run(desk.broker.requeue_broken("q", [second.entry], who="kim@box"))
    desk.enqueue("a", unique="ended,skip,0,1")
    for _ in range(2):
        desk.run(desk.broker.unlock("q", "a", ["t:1"], who="kim@box"))
    said = [each for each in desk.documents if "asked_by" in each]
    assert [(each["event"], each["asked_by"]) for each in said] == [
        (event, "kim@box") for event in ("broken.dropped", "broken.requeued", "unlocked")
    ]
    assert said[0]["message"] == said[1]["message"] == "inbox: not a JSON object"
    assert (said[2]["job_id"], said[2]["about"]) == ("a", "t:1")


def test_cron_entries_are_suspended_by_somebody(run, broker):
    """Told where it changes something; a run outside the schedule is told, too."""
    run(broker.keep_events(DAEMONS, "1000 0"))
    for on in (True, True, False):
        run(broker.suspend_cron("nightly", on=on, who="kim@box"))
    run(broker.note_cron_run("nightly", "q/a", "kim@box"))
    found = [event.document() for event in run(broker.events_behind(DAEMONS, 0, ALL)).events]
    assert [each["event"] for each in found] == ["cron.suspended", "cron.resumed", "cron.run"]
    assert {(each["about"], each["asked_by"]) for each in found} == {("nightly", "kim@box")}


def test_a_repair_is_told(desk):
    """With the status that the job has by it, and who asked for it."""
    desk.enqueue("a")
    desk.redis("ZREM", "test:{q}:queue", "a")
    desk.run(desk.broker.inspect("q", "keys", [b"a"], repair=False))
    desk.run(desk.broker.inspect("q", "keys", [b"a"], repair=True, who="kim@box"))
    said = desk.documents[-1]
    assert (said["event"], said["job_id"], said["status"], said["asked_by"]) == ("repaired", "a", "queued", "kim@box")
    assert len(desk.events) == 2


def test_the_stream_is_bounded_and_a_gap_is_counted(desk):
    """By events, not by entries: whole nodes of the stream go at once."""
    for first in range(0, 4000, 400):
        desk.enqueue(*(f"j{number}" for number in range(first, first + 400)))
    events = desk.events
    assert 1000 <= len(events) < 2500
    assert events[-1].number == 4000
    cursors = Cursors({"q": 100})
    lost, *rest = cursors.take(pages(desk, cursors))
    assert (lost.name, rest[0].number) == (LOST, events[0].number)
    assert lost.words["m"].startswith(f"{events[0].number - 101} events ")
    while more := cursors.take(pages(desk, cursors)):
        rest += more
    assert [event.number for event in rest] == [event.number for event in events]


def pages(desk, cursors):
    return {stream: desk.run(call) for stream, call in cursors.ask(desk.broker, ["q"]).items()}


def test_daemons_have_a_stream_of_their_own(run, broker):
    """In the same form, if somebody wants it; what several daemons tell is there once."""
    said = ("reload.refused", "kim", [("m", "line 3: no")], ("name", "7"))
    run(broker.record_event(DAEMONS, *said))
    run(broker.keep_events(DAEMONS, "1000 0"))
    run(broker.record_event(DAEMONS, *said))
    run(broker.record_event(DAEMONS, *said))
    (event,) = run(broker.events_behind(DAEMONS, 0, ALL)).events
    said = event.document()
    assert (said["event"], said["asked_by"], said["message"]) == ("reload.refused", "kim", "line 3: no")
    assert not {"queue", "status", "job_id"} & said.keys()


class Walk:
    """Steps over the verbs, in any order."""

    def __init__(self, desk, seed):
        self.desk, self.rand, self.jobs, self.attempts = desk, Random(seed), [], []

    def enqueue(self):
        self.jobs.append(f"j{len(self.jobs)}")
        more = [{}, {"delay_ms": 1}, {"expires_ms": 2}, {"unique": "ended,replace,0,1"}]
        self.desk.enqueue(self.jobs[-1], **self.rand.choice(more))

    def claim(self):
        self.attempts += self.desk.claim(self.rand.randint(1, 3))

    def settle(self):
        if self.attempts:
            kind = self.rand.choice([*ENDS, "retry", "snoozed", "released", "unknown"])
            attempt = self.attempts.pop(self.rand.randrange(len(self.attempts)))
            ms = HOUR if kind in ENDS else self.rand.choice([0, 1])
            self.desk.settle(attempt, kind, b"" if kind == "released" else ERROR, ms)

    def lose(self):
        if self.attempts:
            self.desk.redis("ZADD", "test:{q}:started", "XX", 1, self.attempts.pop()[0])

    def cancel(self):
        if self.jobs:
            self.desk.run(self.desk.broker.cancel("q", self.rand.choice(self.jobs)))

    def requeue(self):
        if self.jobs:
            self.desk.run(self.desk.broker.requeue("q", [self.rand.choice(self.jobs)]))

    def go(self, steps):
        ways = [self.enqueue, self.enqueue, self.claim, self.settle, self.settle, self.lose, self.cancel, self.requeue]
        for _ in range(steps):
            self.rand.choice(ways)()


@pytest.mark.parametrize("seed", range(6))
def test_every_transition_has_its_event_once(desk, seed):
    """A random walk: what the events say of each job is what the sets of Redis say."""
    limits = {"t": TaskLimit((), 3)} if seed % 2 else {}
    desk.run(desk.broker.configure("q", tasks={"t": (1, None)}, limits=limits))
    Walk(desk, seed).go(120)
    assert disagreements(desk.events, desk.statuses()) == []
    numbers = [event.number for event in desk.events]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len({event.id for event in desk.events}) == len(numbers)
