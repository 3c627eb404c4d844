"""The scheduler as a real process, on a real Redis."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob, Outcome, Renewal
from fusiond.broker.redis.connection import connect_async
from fusiond.config.accepted import snapshot
from fusiond.config.model import Config, CronEntry, Logging, Queue, Task, WorkerGroup
from fusiond.config.model.cron_entries import Calendar
from fusiond.config.model.flow_steps import Flow, FlowStep
from fusiond.config.model.tasks import Unique
from fusiond.errors import BrokerUnavailable
from fusiond.flows.run_control import RunControl, RunRef, deliver_effects
from fusiond.flows.shapes import FlowShape, Shape, StepShape
from fusiond.job import JobStatus, new_token
from fusiond.program import LINK
from fusiond.schedule import drift
from fusiond.schedule.sweeping import Sweeper
from fusiond.schedule.ticking import Ticker
from tests.chaos.package import Edit, copy
from tests.support import running
from tests.support.warm import is_enough, warm

#: ms between the ticks of an entry that a test waits for
TICK = 250
DAY = 86_400_000


class Program:
    """One scheduler, with the supervisor's end of its link."""

    def __init__(self, path, directory, number, *options, own=None) -> None:
        """`own`: more variables."""
        #: of the daemon that it belongs to
        self.state = path.parent
        self.log_path = directory / f"scheduler-{number}.log"
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(running.PATIENCE)
        words = ["--snapshot", str(path), "--runtime", "/", *options]
        with theirs, self.log_path.open("wb") as log:
            self.process = self._begin(words, theirs.fileno(), log, own)

    @staticmethod
    def _begin(words, link, log, own):
        env = {**os.environ, **(own or {})}
        if is_enough(own):
            entry, words = "fusiond.schedule.__main__:entry_point", ["fusiond.schedule", *words]
            return warm().start(entry, words, environment=env | {LINK: "100"}, directory="/", out=log, kept=[link])
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "fusiond.schedule", *words],
            stdout=log, stderr=log, pass_fds=[link], env=env | {LINK: str(link)},
        )  # fmt: skip

    def hear(self) -> dict:
        return json.loads(self.link.recv(65536))

    def say(self, **message) -> None:
        self.link.send(json.dumps(message).encode())

    def log(self) -> list[dict]:
        """What it logged, one dict a line; a line that is still being written is left out."""
        return [
            json.loads(line) for line in self.log_path.read_text().splitlines(keepends=True) if line.endswith("}\n")
        ]

    def enqueued(self) -> list[str]:
        return [line["job"] for line in self.log() if line["message"] == "enqueued"]

    def end(self) -> None:
        self.link.close()
        try:
            self.process.wait(running.PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()


class Bench:
    """Schedulers on one Redis, and a look at what they do."""

    def __init__(self, settings, directory, run, broker) -> None:
        self.settings, self.directory, self.run, self.broker = settings, directory, run, broker
        self.programs: list[Program] = []
        self.generation = 0

    def config(self, *entries: CronEntry, task: Task | None = None, **more) -> Config:
        task = task or Task("t", "fusiond.tasks.echo")
        return Config(
            broker=self.settings,
            tasks={task.name: task},
            cron={entry.name: entry for entry in entries},
            logging=Logging(level="debug", format="json"),
            **more,
        )

    def write(self, config: Config, state: Path | None = None):
        self.generation += 1
        state = state or self.directory
        path = state / f"snapshot-{self.generation}.json"
        snapshot.write(path, config, generation=self.generation, source=f"/etc/{state.name}.yaml")
        return path

    def launch(self, config: Config, *options: str, host: str = "", own: dict | None = None) -> Program:
        """`host`: schedulers of one host are one daemon's; `own`: more variables."""
        state = self.directory / host
        state.mkdir(exist_ok=True)
        program = Program(self.write(config, state), self.directory, len(self.programs), *options, own=own)
        self.programs.append(program)
        return program

    def serve(self, host: str, config: Config) -> Program:
        """A daemon of its own that is ready."""
        program = self.launch(config, host=host)
        assert program.hear() == {"is": "ready"}
        return program

    def start(self, *entries: CronEntry, own: dict | None = None, **more) -> Program:
        program = self.launch(self.config(*entries, **more), own=own)
        assert program.hear() == {"is": "ready"}
        return program

    def apply(self, program: Program, config: Config, *, leaves_jobs: bool = False) -> None:
        program.say(do="apply", snapshot=str(self.write(config, program.state)), generation=self.generation)
        answer = program.hear()
        assert bool(answer.pop("left", None)) is leaves_jobs
        assert answer == {"is": "applied", "generation": self.generation}

    def ids(self, status: JobStatus = JobStatus.QUEUED, queue: str = "default") -> list[str]:
        return [job.id for job in self.run(self.broker.jobs(queue, status, count=10_000))]

    def ticks(self, entry: str, *queues: str) -> list[int]:
        """The ticks that have a job in any of the queues."""
        ids = [job for queue in queues or ("default",) for job in self.ids(queue=queue)]
        return sorted(int(job.rpartition(":")[2]) for job in ids if job.startswith(f"cron:{entry}:"))

    def state(self, entry: str):
        return self.run(self.broker.cron_state(entry))

    def carried_out(self, entry: str) -> int | None:
        """The entry's last tick; None while what was decided is not confirmed."""
        state = self.state(entry)
        return None if state.decided else state.last

    def past(self, entry: CronEntry, *, last: int, first_seen: int = 1) -> None:
        """As if daemons had decided on the entry's ticks up to `last`, and then none had run."""
        values = {"last": last, "first_seen": first_seen, "timetable": drift.timetable(entry)}
        self.run(self.broker.cron_write(self.state(entry.name), **values))

    def now(self) -> int:
        seconds, micros = self.run(plain(as_is, "TIME"))
        return int(seconds) * 1000 + int(micros) // 1000


@pytest.fixture
def bench(broker_settings, tmp_path, run, broker):
    bench = Bench(broker_settings, tmp_path, run, broker)
    yield bench
    for program in bench.programs:
        program.end()


def until(condition, what: str = ""):
    """As everywhere, and a Redis that is on its way back is waited for."""

    def holds():
        with suppress(BrokerUnavailable):
            return condition()

    return running.until(holds, what)


def each(seconds: float, name: str = "e", **more) -> CronEntry:
    return CronEntry(name, "t", every=seconds, **{"overlap": "allow", **more})


# --- publishing


def test_ready_means_that_producers_can_see_the_tasks(bench):
    """When it says ready, the catalogue and the queues' settings are in Redis."""
    queues = {"default": Queue("default"), "sms": Queue("sms", max_length=7, suspended=True)}
    task = Task("send", "shop.send", queue="sms", priority=2, expires=300.0, description="A message.")
    program = bench.start(task=task, queues=queues)
    said = until(lambda: [line["message"] for line in program.log() if line["message"].startswith("published")])
    assert said == ["published; tasks: 1, cron entries that tick: 0"]
    catalogue = bench.run(bench.broker.catalogue())
    assert catalogue.tasks == {
        "send": {"queue": "sms", "priority": 2, "expires": 300.0, "run": "shop.send", "description": "A message."}
    }
    assert catalogue.priorities == {"high": 2, "moderate": 1, "low": 0}
    assert catalogue.queues == {"default", "sms"}
    counts = bench.run(bench.broker.counts("sms"))
    assert (counts.max_length, counts.suspended_by_file) == (7, True)
    assert set(bench.run(bench.broker.queues())) == {"default", "sms"}


def test_a_publisher_publishes_and_does_not_tick(bench):
    """What a daemon runs whose scheduler is on another host."""
    program = bench.launch(bench.config(each(TICK / 1000)), "--publish-only")
    assert program.hear() == {"is": "ready"}
    assert set(bench.run(bench.broker.catalogue()).tasks) == {"t"}
    assert bench.run(bench.broker.queues()) == ["default"]
    bench.apply(program, bench.config(task=Task("new", "a.b")))
    assert set(bench.run(bench.broker.catalogue()).tasks) == {"new"}
    other = bench.start(each(TICK / 1000))
    until(lambda: len(other.enqueued()) >= 2)
    assert program.enqueued() == []


def test_apply_is_answered_when_producers_can_see_it(bench):
    """A reload's new task is there at once; a queue that it suspends is suspended."""
    program = bench.start()
    config = bench.config(task=Task("new", "a.b"), queues={"default": Queue("default", suspended=True)})
    bench.apply(program, config)
    assert set(bench.run(bench.broker.catalogue()).tasks) == {"new"}
    assert bench.run(bench.broker.counts("default")).suspended_by_file


# --- ticking


def test_the_answer_to_apply_names_the_jobs_of_what_is_gone_and_the_queues_that_nothing_serves(bench, broker):
    """For the reload's line: the supervisor does not know Redis."""
    groups = {"main": WorkerGroup("main", queues=("default",))}
    program = bench.start(task=Task("thumbnail", "fusiond.tasks.echo"), workers=groups)
    bench.run(broker.enqueue("default", [NewJob("a", "thumbnail", b"[[],{}]")]))
    moved = bench.config(task=Task("t", "fusiond.tasks.echo", queue="pics"), workers=groups)
    program.say(do="apply", snapshot=str(bench.write(moved)), generation=bench.generation)
    answer = program.hear()
    unserved, waiting = answer["left"]
    assert answer["is"] == "applied"
    assert unserved.startswith("no worker group serves queue 'pics': its jobs wait for ever")
    assert waiting.startswith("1 job waits for task 'thumbnail'")


def test_a_job_holds_what_the_entry_says(bench):
    """Arguments, priority and expiry of a tick's job are those of the file; it comes with its tick, not before."""
    task = Task("t", "a.b", priority=2, expires=60.0)
    bench.start(each(TICK / 1000, args=(1, "é"), kwargs={"k": [None, 2.5]}), task=task)

    def late():
        """How many ms after its tick each job came."""
        return [job.created_at - int(job.id.removeprefix("cron:e:")) for job in jobs()]

    def jobs():
        return bench.run(bench.broker.jobs("default", JobStatus.QUEUED))

    # One timer to the tick, not a poll: it need not be in time each time, on a busy machine.
    until(lambda: len(jobs()) >= 3 and min(late()) < 300)
    assert min(late()) >= 0
    for job in jobs():
        assert json.loads(job.args) == [[1, "é"], {"k": [None, 2.5]}]
        assert (job.task, job.priority) == ("t", 2)
        assert job.expires_at == job.created_at + 60_000


def test_a_job_knows_its_tick_also_among_several_that_were_missed(bench):
    """Each has the day of its own tick in the entry's zone, which its lock of `unique` counts, too."""
    text, newest = minutes_ago(bench, 10)
    inputs = {"day": "tick.date", "at": "tick.time"}
    entry = CronEntry("e", "t", schedule=text, missed="all", overlap="allow", kwargs={"k": 1}, inputs=inputs)
    bench.past(entry, last=newest - 3 * DAY)
    bench.start(entry, task=Task("t", "a.b", unique=Unique(by=("kwargs.day",), until="ended")))
    until(lambda: bench.carried_out("e") == newest)
    jobs = bench.run(bench.broker.jobs("default", JobStatus.QUEUED))
    assert len(jobs) == 3
    for job in jobs:
        at = datetime.fromtimestamp(int(job.id.removeprefix("cron:e:")) / 1000, UTC)
        assert json.loads(job.args) == [[], {"k": 1, "day": at.date().isoformat(), "at": at.isoformat()}]


def minutes_ago(bench, minutes: int) -> tuple[str, int]:
    """A daily schedule whose last tick was so long ago, and that tick."""
    then = datetime.fromtimestamp(bench.now() / 1000, UTC) - timedelta(minutes=minutes)
    return f"{then.minute} {then.hour} * * *", int(then.replace(second=0, microsecond=0).timestamp() * 1000)


def test_missed_ticks_are_treated_as_the_entry_says(bench):
    """After three days away: skip enqueues nothing, last the newest, all each; a deadline bounds how late."""
    text, newest = minutes_ago(bench, 10)
    daily = {"schedule": text, "overlap": "allow"}
    entries = [
        CronEntry("skip", "t", missed="skip", **daily),
        CronEntry("last", "t", missed="last", **daily),
        CronEntry("all", "t", missed="all", **daily),
        CronEntry("late", "t", missed="last", starting_deadline=300.0, **daily),
        CronEntry("soon", "t", missed="all", starting_deadline=86_400.0 + 3600, **daily),
        CronEntry("mark", "t", missed="all", every=TICK / 1000, starting_deadline=0.0),
    ]
    for entry in entries:
        bench.past(entry, last=newest - 3 * DAY)
    program = bench.start(*entries)
    names = ["skip", "last", "all", "late", "soon"]
    until(lambda: all(bench.carried_out(name) == newest for name in names))
    assert {name: [(tick - newest) // DAY for tick in bench.ticks(name)] for name in names} == {
        "skip": [],
        "last": [0],
        "all": [-2, -1, 0],
        "late": [],
        "soon": [-1, 0],
    }
    until(lambda: given_up(program) >= {"skip", "last", "late", "soon"})
    assert "all" not in given_up(program)


def given_up(program: Program) -> set[str]:
    return {line["cron"] for line in program.log() if line["message"].startswith("missed")}


def test_overlap_skip_waits_for_the_last_job_to_end(bench):
    """While a tick's job has not ended there is no other; when it has, the next tick runs."""
    program = bench.start(each(TICK / 1000, overlap="skip"))
    first = until(lambda: bench.ticks("e"))
    until(lambda: [line for line in program.log() if line["message"].startswith("passed over")])
    assert bench.ticks("e") == first
    claim = bench.run(bench.broker.claim("default", 1, dispatcher="d", nonce="n", lease_ms=60_000, max_rescues=3))
    decided = bench.state("e").last
    until(lambda: bench.state("e").last > decided)
    assert bench.ticks("e") == [], "a job that runs has not ended either"
    assert bench.run(bench.broker.settle("default", [Outcome(claim.jobs[0].id, "n", "finished", 60_000)])) == [1]
    assert until(lambda: bench.ticks("e")) > first


def test_overlap_replace_cancels_the_last_job_and_waits_for_its_end(bench):
    """A job that waits ends at once. One that runs is asked to; no other is there before it has ended."""
    program = bench.start(each(TICK / 1000, overlap="replace"))
    first = until(lambda: bench.ticks("e"))
    second = until(lambda: bench.ticks("e") != first and bench.ticks("e"))
    assert len(second) == 1
    assert f"cron:e:{first[0]}" in bench.ids(JobStatus.CANCELED)

    def replaced():
        return [line for line in program.log() if line["message"].startswith("replaces the job")]

    until(replaced)
    # If another tick replaces it just now, the claim gives that one.

    def runs_until_canceled(nonce):
        asked = bench.broker.claim("default", 1, dispatcher="d", nonce=nonce, lease_ms=60_000, max_rescues=3)
        id_ = until(lambda: bench.run(asked).jobs)[0].id.decode()
        until(lambda: bench.run(bench.broker.renew("default", [Renewal(id_, nonce)], 60_000)) == [2], "none is asked")
        return id_

    running = runs_until_canceled("n")
    asked = bench.now()
    until(lambda: bench.now() > asked + 1500)
    assert bench.ticks("e") == [], "it has not ended"
    assert bench.run(bench.broker.settle("default", [Outcome(running, "n", "canceled", 60_000)])) == [1]
    (third,) = until(lambda: bench.ticks("e"))
    assert f"cron:e:{third}" != running
    said = len(replaced())
    runs_until_canceled("m")
    until(lambda: len(replaced()) > said, "the log tells of each job that is replaced")


def test_overlap_wait_keeps_one_tick_until_the_last_job_has_ended(bench):
    """Two schedulers, each killed while it waits: the tick has its job once; what came meanwhile is passed over."""
    config = bench.config(each(TICK / 1000, overlap="wait", missed="all"))
    programs = [bench.serve(host, config) for host in ("one", "two")]

    def claim():
        """A job and its token; a nonce that was claimed with before is answered as a repeat for a minute."""
        token = new_token()
        asked = bench.broker.claim("default", 1, dispatcher=token, nonce=token, lease_ms=60_000, max_rescues=3)
        return until(lambda: bench.run(asked).jobs)[0], token

    def end(job, token):
        [reply] = bench.run(bench.broker.settle("default", [Outcome(job.id.decode(), token, "finished", 60_000)]))
        assert reply == 1

    def outcomes():
        return {note.tick: note.outcome for note in bench.run(bench.broker.tick_notes("default", "e", 0, 1000))}

    job, token = claim()
    first = int(job.id.rpartition(b":")[2])
    waiting = until(lambda: bench.state("e").waiting)
    assert waiting == first + TICK
    for program in programs:
        program.process.kill()
        program.process.wait()
    programs = [bench.serve(host, config) for host in ("one", "two")]
    until(lambda: outcomes().get(waiting + 2 * TICK) == "overlap")
    assert bench.state("e").waiting == waiting
    assert bench.ticks("e") == []
    end(job, token)
    job, token = claim()
    assert job.id == f"cron:e:{waiting}".encode()
    following = until(lambda: bench.state("e").waiting)
    assert following > waiting + 2 * TICK
    # Each is noted right after it was decided, and the other scheduler may have gone on by then.
    until(lambda: {outcomes().get(tick) for tick in range(waiting + TICK, following, TICK)} == {"overlap"})
    bench.run(bench.broker.suspend_cron("e", on=True))
    until(lambda: bench.state("e").waiting is None)
    until(lambda: outcomes().get(following) == "missed")
    end(job, token)
    passed = bench.now()
    until(lambda: (bench.state("e").last or 0) > passed + TICK)
    assert bench.ticks("e") == []


def test_the_days_of_calendars_are_compared_from_the_new_year_on(bench, monkeypatch):
    """By a scheduler that has run over its beginning, too: one that has just been started computes later days."""
    calendars = (Calendar("c", weekends=True),)
    entry, task = CronEntry("e", "t", schedule="@daily", calendars=calendars), Task("t", "fusiond.tasks.echo")

    async def story():
        async with connect_async(bench.settings, bench.directory) as connection:
            ticker = Ticker(bench.broker, connection, "d")
            ticker.set_config(bench.config(entry, task=task))
            for year in (2040, 2041):
                monkeypatch.setattr(time, "gmtime", lambda *_, year=year: time.struct_time((year, *[1] * 8)))
                await ticker.run_once()
                await ticker.run_once()
                yield bench.state("e").definition, drift.digest(entry, task)

    async def told():
        return [each async for each in story()]

    (first, of_first), (second, of_second) = asyncio.run(told())
    assert (first, second) == (of_first, of_second)
    assert first != second


def test_a_tick_that_has_waited_for_too_long_is_missed(bench):
    """`starting_deadline` counts from the tick; the next one waits in its place."""
    bench.start(each(TICK / 1000, overlap="wait", starting_deadline=0.4))
    until(lambda: bench.ticks("e"))
    waiting = until(lambda: bench.state("e").waiting)
    until(lambda: (bench.state("e").waiting or 0) > waiting)
    notes = bench.run(bench.broker.tick_notes("default", "e", 0, 1000))
    assert {note.tick: note.outcome for note in notes}[waiting] == "missed"


@pytest.mark.parametrize(("overlap", "ends"), [("skip", "finished"), ("replace", "canceled")])
def test_a_run_of_a_flow_overlaps_as_a_job_does(bench, overlap, ends):
    """`skip` passes its tick over, `replace` cancels the run and waits for its end; a lost one stops no other entry."""
    steps = {"one": FlowStep(task="t")}
    flows = {"f": Flow("f", steps), "lost": Flow("lost", steps, queue="lost")}
    entries = [CronEntry(name, flow=name, every=TICK / 1000, overlap=overlap) for name in flows]

    def runs(queue="default"):
        return set(bench.run(bench.broker.runs(queue, 99)))

    def claim():
        token = new_token()
        asked = bench.broker.claim("default", 9, dispatcher="d", nonce=token, lease_ms=60_000, max_rescues=3)
        return [(job.id.decode(), token) for job in bench.run(asked).jobs if job.id.startswith(b"cron:f:")]

    async def story():
        async with connect_async(bench.settings, bench.directory) as connection:
            ticker = Ticker(bench.broker, connection, "d")
            ticker.set_config(bench.config(*entries, flows=flows))

            async def goes(condition):
                while not (found := condition()):
                    await ticker.run_once()
                    await asyncio.sleep(0.02)
                return found

            for lost in await goes(lambda: runs("lost")):
                bench.run(plain(as_is, "HSET", f"test:{{lost}}:flow:{lost}", "shape", "none"))
            [(job, token)] = await goes(claim)
            before = runs()
            if overlap == "skip":
                await goes(lambda: bench.state("f").decision == "overlap")
            else:
                await goes(lambda: bench.run(bench.broker.renew("default", [Renewal(job, token)], 60_000)) == [2])
            assert runs() == before
            bench.run(bench.broker.settle("default", [Outcome(job, token, ends, 60_000, 0, b'{"code":"X"}')]))
            bench.run(deliver_effects(bench.broker, "default"))
            await goes(lambda: runs() > before)
            return json.loads(bench.run(bench.broker.run_record("default", job.rpartition(".")[0])).state)["status"]

    assert asyncio.run(story()) == ends


def test_an_entry_of_which_nothing_finishes_is_overdue_until_something_does(bench):
    """It is logged once, and once more when a job has finished."""
    program = bench.start(each(TICK / 1000, alert_if_no_success=1.5))

    def said(message):
        return [line for line in program.log() if line["message"].startswith(message)]

    def finish_one():
        token = new_token()
        claim = bench.broker.claim("default", 1, dispatcher="d", nonce=token, lease_ms=60_000, max_rescues=3)
        outcomes = [Outcome(job.id, token, "finished", 60_000) for job in bench.run(claim).jobs]
        bench.run(bench.broker.settle("default", outcomes))

    (warning,) = until(lambda: said("overdue: "))
    assert (warning["cron"], warning["level"].lower()) == ("e", "warning")
    assert warning["message"] == "overdue: no job of this entry has finished for 1s500ms"
    # Again and again: a scheduler that looks 1.5 s later finds the entry overdue still, and it may be so once more.
    until(lambda: finish_one() or said("overdue no more"))
    first, second, *_ = (line["message"].partition(":")[0] for line in said("overdue"))
    assert (first, second) == ("overdue", "overdue no more")


def test_suspended_ticks_pass_and_are_not_made_up_for(bench):
    """Suspended by the file or an operator: ticks pass. Resumed, it goes on with the next, even under missed: all."""
    entries = [each(TICK / 1000, "file", missed="all", suspended=True), each(TICK / 1000, "operator", missed="all")]
    bench.run(bench.broker.suspend_cron("operator", on=True))
    program = bench.start(*entries)
    begun = bench.now()
    until(lambda: all((bench.state(entry.name).last or 0) > begun + TICK for entry in entries))
    assert bench.ids() == []
    passed = {entry.name: bench.state(entry.name).last for entry in entries}
    bench.run(bench.broker.suspend_cron("operator", on=False))
    bench.apply(program, bench.config(replace(entries[0], suspended=False), entries[1]))
    for name, last in passed.items():
        assert until(lambda name=name: bench.ticks(name))[0] > last


def test_a_timetable_that_a_reload_changes_or_adds_begins_at_the_reload(bench):
    """A nightly job moved to a time that has passed today does not run at once, nor does one that is added again."""
    text, newest = minutes_ago(bench, 10)
    # 30 February: on no day has this one missed a tick
    before = CronEntry("moved", "t", schedule="0 0 30 2 *", missed="last")
    bench.past(before, last=newest - DAY)
    program = bench.start(before)
    entries = [CronEntry(name, "t", schedule=text, missed="last") for name in ("moved", "added")]
    bench.apply(program, bench.config(*entries, each(TICK / 1000, "mark")))
    until(lambda: len(bench.ticks("mark")) >= 2)
    assert bench.ticks("moved") == bench.ticks("added") == []
    assert all(bench.state(entry.name).first_seen > newest for entry in entries)


def test_an_entry_that_is_unchanged_goes_on_through_a_reload(bench):
    """A reload does not cost an entry that it does not concern a tick."""
    entry = each(TICK / 1000, missed="all")
    program = bench.start(entry)
    until(lambda: bench.ticks("e"))
    for number in range(20):
        bench.apply(program, bench.config(entry, each(3600.0 + number, "other")))
    ticks = until(lambda: len(found := bench.ticks("e")) >= 4 and found)
    assert ticks == list(range(ticks[0], ticks[-1] + 1, TICK))


# --- one entry, wherever its jobs go, and whoever has it


def in_queue(bench, queue: str, *entries: CronEntry) -> Config:
    return bench.config(*entries, task=Task("t", "fusiond.tasks.echo", queue=queue), queues=QUEUES)


QUEUES = {name: Queue(name) for name in ("default", "slow", "fast")}


def test_a_renamed_entry_repeats_and_misses_no_tick(bench):
    """Its alias gives it the last tick and the history; while another daemon ticks under the old name, it waits."""
    entry = each(TICK / 1000, missed="all")
    program = bench.serve("one", bench.config(entry))
    other = bench.serve("two", bench.config(entry))
    until(lambda: len(bench.ticks("e")) >= 2)
    first_seen = bench.state("e").first_seen
    heir = replace(entry, name="heir", aliases=("e",))
    bench.apply(program, bench.config(heir))
    before = len(bench.ticks("e"))
    until(lambda: len(bench.ticks("e")) > before)
    assert bench.ticks("heir") == []
    bench.apply(other, bench.config(heir))
    until(lambda: len(bench.ticks("heir")) >= 2)
    assert (bench.state("heir").first_seen, bench.state("e").first_seen) == (first_seen, None)
    ticks = sorted([*bench.ticks("e"), *bench.ticks("heir")])
    assert ticks == list(range(ticks[0], ticks[-1] + 1, TICK))


def test_two_files_that_differ_tick_by_the_newest_generation(bench):
    """In mid-roll-out one file has the task in another queue: each tick has one job, in the queue of the newer file."""
    entry = each(TICK / 1000, missed="all")
    old = bench.serve("old", in_queue(bench, "slow", entry))
    until(lambda: bench.ticks("e", "slow"))
    bench.serve("new", in_queue(bench, "fast", entry))
    until(lambda: len(bench.ticks("e", "fast")) >= 3)
    ticks = bench.ticks("e", "slow", "fast")
    assert ticks == list(range(ticks[0], ticks[-1] + 1, TICK))
    assert max(bench.ticks("e", "slow")) < min(bench.ticks("e", "fast"))
    [said] = until(lambda: [line for line in old.log() if "differs between living files" in line["message"]])
    assert "queue fast" in said["message"]


@pytest.mark.parametrize("missed", ["skip", "last", "all"])
def test_an_entry_that_a_second_host_adds_passes_over_nothing(bench, missed):
    """The first host has ticked it for long, and is stopped: the second one decides on what the first one has not."""
    text, newest = minutes_ago(bench, 10)
    entry = CronEntry("e", "t", schedule=text, missed=missed, starting_deadline=3600.0)
    first = bench.serve("first", bench.config(entry))
    second = bench.serve("second", bench.config(each(3600.0, "other")))
    until(lambda: bench.state("e").first_seen)
    first.process.send_signal(signal.SIGSTOP)
    # As if it had been stopped ten minutes ago. A schedule of seconds would have more ticks on a slow machine.
    bench.past(entry, last=newest - DAY)
    bench.apply(second, bench.config(entry, each(3600.0, "other")))
    first.process.send_signal(signal.SIGCONT)
    until(lambda: bench.carried_out("e") == newest)
    assert bench.ticks("e") == [newest]
    assert bench.state("e").first_seen == 1


def test_an_entry_that_is_removed_and_added_starts_over(bench):
    """Removed by a reload, and added later: the ticks in between are not made up for."""
    entry, other = each(TICK / 1000, missed="all"), each(3600.0, "other")
    program = bench.serve("one", bench.config(entry, other))
    until(lambda: bench.ticks("e"))
    bench.apply(program, bench.config(other), leaves_jobs=True)
    until(lambda: bench.state("e").first_seen is None)
    removed = bench.now()
    until(lambda: bench.now() > removed + 2 * TICK)
    added = bench.now()
    bench.apply(program, bench.config(entry, other))
    until(lambda: max(bench.ticks("e")) > added)
    assert not [tick for tick in bench.ticks("e") if removed < tick <= added]


# --- what can go wrong


def test_one_broken_entry_does_not_stop_the_others(bench):
    """A state in Redis that no verb has written, or a zone that this host does not know: said, and the others tick."""
    bench.run(plain(as_is, "HSET", bench.broker.keys.cron, "broken last", "x"))
    zone = CronEntry("zone", "t", schedule="* * * * *", timezone="Mars/Olympus")
    began = time.monotonic()
    program = bench.start(each(TICK / 1000, "broken"), zone, each(TICK / 1000))

    def said(*words):
        errors = [line["message"] for line in program.log() if line["level"] == "error"]
        return [text for text in errors if all(word in text for word in words)]

    until(lambda: len(bench.ticks("e")) >= 2)
    until(lambda: said("'broken'") and said("'zone'", "Mars"))
    assert len(said("'broken'")) <= 1 + (time.monotonic() - began) / 5, "said once in five seconds"


def test_a_clock_of_redis_that_was_set_back_is_told(bench):
    """An entry whose last tick lies ahead cannot tick: that is said once, not silent."""
    bench.past(each(TICK / 1000), last=bench.now() + DAY)
    program = bench.start(each(TICK / 1000), each(TICK / 1000, "mark"))
    until(lambda: len(bench.ticks("mark")) >= 3)
    assert bench.ticks("e") == []
    errors = [line["message"] for line in program.log() if line["level"] == "error"]
    assert len(errors) == 1
    assert "'e' does not tick for 86" in errors[0]


# --- Redis away, and the end


def test_redis_away_at_the_start_is_waited_for(bench, redis_server):
    """No Redis yet: one sentence, and ready as soon as it is there."""
    redis_server.kill()
    program = bench.launch(bench.config(each(TICK / 1000)))
    until(lambda: "Retrying until Redis answers" in program.log_path.read_text())
    redis_server.start()
    assert program.hear() == {"is": "ready"}
    until(lambda: bench.ticks("e"))
    errors = [line["message"] for line in program.log() if line["level"] == "error"]
    assert len(errors) == 1
    assert redis_server.url.removeprefix("unix://") in errors[0]


def test_redis_that_comes_back_empty_is_told_everything_again(bench, redis_server):
    """Redis killed and started with nothing: catalogue, settings and ticks are there again, with no restart."""
    program = bench.start(each(TICK / 1000), each(3600.0, "hourly"))
    until(lambda: bench.ticks("e"))
    redis_server.kill()
    until(lambda: "Retrying until Redis answers" in program.log_path.read_text())
    redis_server.start()
    until(lambda: bench.ticks("e"))
    until(lambda: bench.state("hourly").first_seen)
    until(lambda: set(bench.run(bench.broker.catalogue()).tasks) == {"t"})
    assert program.process.poll() is None
    until(lambda: any(line["message"].startswith("Redis is back") for line in program.log()))


def test_apply_while_redis_is_away_is_answered_and_published_later(bench, redis_server):
    """A reload does not wait for Redis; what it changed is told when Redis is back."""
    program = bench.start(each(TICK / 1000))
    redis_server.kill()
    bench.apply(program, bench.config(task=Task("new", "a.b")))
    redis_server.start()
    until(lambda: set(bench.run(bench.broker.catalogue()).tasks) == {"new"})


@pytest.mark.proof
def test_a_redis_that_is_full_gets_the_limits_of_a_queue_later(bench):
    """At maxmemory they are refused and said; when there is room they hold, without another reload."""

    def config(limit):
        return bench.config(queues={"default": Queue("default", max_length=limit, max_running=limit)})

    def limits():
        counts = bench.run(bench.broker.counts("default"))
        return counts.max_length, counts.max_running

    program = bench.serve("", config(5))
    until(lambda: limits() == (5, 5))
    bench.run(plain(as_is, "CONFIG", "SET", "maxmemory", 1))
    bench.apply(program, config(7))
    until(lambda: any("settings did not reach Redis" in line["message"] for line in program.log()))
    assert limits() == (5, 5)
    bench.run(plain(as_is, "CONFIG", "SET", "maxmemory", 0))
    until(lambda: limits() == (7, 7))


def test_a_redis_that_is_unfit_ends_it_with_the_reason(bench):
    """A Redis that evicts keys: told to the supervisor, exit status 78, one sentence, no traceback."""
    bench.run(plain(as_is, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru"))
    program = bench.launch(bench.config())
    said = program.hear()
    assert said["is"] == "failed"
    assert "noeviction" in said["reason"]
    assert program.process.wait(running.PATIENCE) == 78
    assert "Traceback" not in program.log_path.read_text()


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "link"])
def test_it_ends_at_once(bench, how):
    """A signal, or the death of the supervisor: it is gone, with status 0."""
    program = bench.start(each(3600.0))
    if how == "link":
        program.link.close()
    else:
        program.process.send_signal(getattr(signal, how))
    assert program.process.wait(running.PATIENCE) == 0


@pytest.mark.proof
def test_it_ends_at_once_while_redis_does_not_answer(bench, redis_server, tmp_path):
    """A Redis that hangs does not keep it, here for an hour: SIGTERM ends it in mid-reply."""
    patient = Edit("broker/redis/connection.py", "\nTIMEOUT = 5.0", "\nTIMEOUT = 3600.0")
    program = bench.start(each(TICK / 1000), own={"PYTHONPATH": str(copy(tmp_path / "code", [patient]))})
    os.kill(redis_server.process.pid, signal.SIGSTOP)
    stopped = time.time()
    try:
        until(lambda: time.time() > int(stopped) + 1.3, what="the next tick's request is on its way")
        program.process.terminate()
        assert program.process.wait(running.PATIENCE) == 0
    finally:
        os.kill(redis_server.process.pid, signal.SIGCONT)


# --- parts


def test_a_sweep_goes_through_all_queues_in_steps(bench, broker):
    """
    Ended jobs are dropped when their time is over, in queues where nothing else happens; lost ones are found, and end
    their flow's run if nothing is left of them.
    """
    for queue in ("a", "b"):
        bench.run(broker.declare([queue]))
        bench.run(broker.enqueue(queue, [NewJob("old", "t", b"[[],{}]"), NewJob("lost", "t", b"[[],{}]")]))
        bench.run(broker.claim(queue, 1, dispatcher="d", nonce="n", lease_ms=60_000, max_rescues=3))
        bench.run(broker.settle(queue, [Outcome("old", "n", "finished", 1)]))
        # its time, and the minute for which an id is remembered, are over
        bench.run(plain(as_is, "ZADD", broker.keys.of(queue, "finished"), 1, "old"))
        bench.run(plain(as_is, "ZREM", broker.keys.of(queue, "queue"), "lost"))
    flow = Shape("f", {"f": FlowShape({"s": StepShape(task="t", queue="b")}, "a")})
    run = bench.run(RunControl(broker).start(RunRef("a", "run"), flow, {}))
    bench.run(plain(as_is, "DEL", broker.keys.of("b", "job", "run.s")))

    async def sweep() -> None:
        async with connect_async(bench.settings, bench.directory) as connection:
            sweeper = Sweeper(broker, connection, bench.config(), random.Random(1))
            assert 0 <= sweeper.until_next() <= 60
            sweeper._next = 0.0
            await sweeper.run_once()
            while sweeper.until_next() == 0:
                await sweeper.run_once()
            assert 40 < sweeper.until_next() <= 75

    asyncio.run(sweep())
    for queue in ("a", "b"):
        assert bench.run(broker.job(queue, "old")) is None
        assert [job.id for job in bench.run(broker.jobs(queue, JobStatus.QUEUED))] == ["lost"]
    assert bench.run(RunControl(broker).view(run)).status == "failed"


def test_sweep_takes_back_leases_where_no_dispatcher_does(bench, caplog):
    """Not those that it sees for the first time: whoever holds them may only just have woken up. Each has its line."""
    broker = bench.broker
    bench.run(broker.declare(["left"]))
    bench.run(broker.enqueue("left", [NewJob("lost", "t", b"[[],{}]"), NewJob("once", "t", b"[[],{}]")]))
    bench.run(broker.claim("left", 2, dispatcher="d", nonce="n", lease_ms=60_000, max_rescues=3))
    bench.run(broker.renew("left", [("once", "n", "permit")], 60_000))

    async def sweep(sweeper: Sweeper) -> list[str]:
        sweeper._next = 0.0
        await sweeper.run_once()
        while sweeper.until_next() == 0:
            await sweeper.run_once()
        return [bench.run(broker.job("left", id_)).status.value for id_ in ("lost", "once")]

    async def sweeps() -> None:
        async with connect_async(bench.settings, bench.directory) as connection:
            sweeper = Sweeper(broker, connection, bench.config(), random.Random(1))
            assert [await sweep(sweeper), await sweep(sweeper)] == [["started", "started"]] * 2
            bench.run(plain(as_is, "ZADD", broker.keys.of("left", "started"), 1, "lost", 1, "once"))
            assert await sweep(sweeper) == ["started", "started"]
            assert await sweep(sweeper) == ["queued", "failed"]

    asyncio.run(sweeps())
    told = {(record.job, record.outcome, record.levelname) for record in caplog.records if hasattr(record, "outcome")}
    assert told == {("lost", "rescued", "WARNING"), ("once", "failed", "ERROR")}
