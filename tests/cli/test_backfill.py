"""`fusiond cron backfill`: ticks of a time that has passed, each once, however often the command is interrupted."""

import json
import signal
import subprocess
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from fusiond.broker.ticks import DecidedTicks
from fusiond.flows.run_control import deliver_effects
from fusiond.job import JobStatus
from tests.support.fusiond_desk import opened
from tests.support.running import until

FILE = """
version: 1
defaults: {workers: {directory: .}}
queues: {reports: {}}
tasks:
  report: {run: shop.report, queue: reports}
  send: {run: shop.send}
flows: {etl: {queue: reports, steps: {one: {task: report, inputs: {day: input.day}}}}}
cron:
  nightly:
    task: report
    schedule: "30 2 * * *"
    timezone: Europe/Berlin
    args: [1]
    kwargs: {to: disk}
    inputs: {day: tick.date, at: tick.time}
    aliases: [night]
  flowing: {flow: etl, schedule: "@daily", inputs: {day: tick.date}}
  blind: {task: send, schedule: "@daily"}
workers: {main: {queues: [reports, default]}}
"""
#: the night in which clocks go back is the second of these
OCTOBER = ("--since", "2026-10-24", "--until", "2026-10-28")
DAYS = ["2026-10-24", "2026-10-25", "2026-10-26", "2026-10-27"]


@pytest.fixture
def desk(broker_settings, tmp_path):
    (tmp_path / "fusion.yaml").write_text(FILE)
    with opened(broker_settings, tmp_path) as desk:
        yield desk


def tick(day):
    """Epoch ms of the tick of `nightly`."""
    return int(datetime.fromisoformat(f"{day}T02:30").replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp() * 1000)


class Command:
    """One that runs until the jobs have ended that it waits for."""

    def __init__(self, desk, *words):
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fusiond.cli", "cron", "backfill", *words, "--json"],
            cwd=desk.cwd, env={"FUSION_URL": desk.settings.url, "PATH": "/bin"}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def interrupt(self, how=signal.SIGINT):
        self.process.send_signal(how)
        return self.ended()

    def ended(self):
        """Exit status, and how each tick came out."""
        out, _ = self.process.communicate(timeout=60)
        ticks = json.loads(out)["ticks"] if out else []
        return self.process.returncode, [(each["local"][:10], each["outcome"]) for each in ticks]


def begun(desk, count, queue="reports"):
    """The jobs that wait, once there are so many."""
    jobs = until(lambda: len(found := desk.run(desk.verbs.jobs(queue, JobStatus.QUEUED))) >= count and found)
    assert len(jobs) == count
    return jobs


def test_each_job_gets_its_tick_and_so_many_run_at_once(desk):
    """In the entry's zone; the end does not count; the next begins when one has ended."""
    command = Command(desk, "nightly", *OCTOBER, "--max-running", "2", "--priority", "high")
    jobs = begun(desk, 2)
    at = ["2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00"]
    assert [job.id for job in jobs] == [f"cron:backfill:nightly:{tick(day)}" for day in DAYS[:2]]
    given = [{"to": "disk", "day": day, "at": moment} for day, moment in zip(DAYS, at, strict=False)]
    assert [json.loads(job.args) for job in jobs] == [[[1], kwargs] for kwargs in given]
    assert {job.priority for job in jobs} == {2}
    assert desk.settle("finished", "reports") == jobs[0].name
    assert begun(desk, 2)[0].id == jobs[1].id
    for kind in ("failed", "finished", "finished"):
        until(lambda: desk.run(desk.verbs.jobs("reports", JobStatus.QUEUED)))
        desk.settle(kind, "reports")
    assert command.ended() == (1, [*zip(DAYS, ("finished", "failed", "finished", "finished"), strict=True)])


def test_a_repeat_continues_what_was_interrupted_and_starts_nothing_twice(desk):
    """Ctrl-C, and a kill: what has begun goes on, and the same command waits for it and does the rest."""
    first = Command(desk, "nightly", *OCTOBER)
    [job] = begun(desk, 1)
    assert first.interrupt() == (130, [(day, None) for day in DAYS])
    second = Command(desk, "nightly", *OCTOBER)
    desk.settle("finished", "reports")
    assert begun(desk, 1)[0].id == f"cron:backfill:nightly:{tick(DAYS[1])}"
    assert second.interrupt(signal.SIGKILL)[0] == -signal.SIGKILL
    third = Command(desk, "nightly", *OCTOBER)
    for _ in range(3):
        begun(desk, 1)
        desk.settle("finished", "reports")
    status, ticks = third.ended()  # it may have seen the first of them end before it began
    assert (status, ticks[-2:]) == (0, [(day, "finished") for day in DAYS[2:]])
    for only in ("missed", "failed", "all"):
        assert Command(desk, "nightly", *OCTOBER, "--only", only).ended() == (0, [])
    history = desk.fusiond("cron", "history", "night", "--json").json
    assert [(each["tick"], each["outcome"]) for each in history] == [(tick(day), "finished") for day in reversed(DAYS)]
    assert history[-1]["job"] == job.name


def test_only_the_ticks_that_were_missed_or_failed_or_all(desk):
    """By their history; a job of a backfill that has failed is the one that runs again."""
    decided = DecidedTicks(
        "nightly", "reports", "report", b"[[],{}]", 1, None, None, (tick(DAYS[0]), tick(DAYS[1])), (0, 0)
    )
    desk.run(desk.verbs.tick(decided))
    desk.settle("finished", "reports")
    desk.fail("reports")
    desk.run(desk.verbs.note_tick("reports", "nightly", tick(DAYS[2]), "overlap"))

    def left(only):
        found = desk.fusiond("cron", "backfill", "nightly", *OCTOBER, "--only", only, "--dry-run", "--json").json
        assert found["known"] == 4
        return [each["local"][:10] for each in found["ticks"]]

    assert (left("missed"), left("failed"), left("all")) == (DAYS[2:], [DAYS[1]], DAYS)
    again = Command(desk, "nightly", *OCTOBER, "--only", "failed")
    begun(desk, 1)
    desk.fail("reports")
    assert again.ended() == (1, [(DAYS[1], "failed")])
    assert (left("missed"), left("failed")) == (DAYS[2:], [DAYS[1]])
    again = Command(desk, "nightly", *OCTOBER, "--only", "failed")
    begun(desk, 1)
    desk.settle("finished", "reports")
    assert again.ended() == (0, [(DAYS[1], "finished")])
    assert left("failed") == []
    assert desk.run(desk.verbs.cron_success("reports", "nightly")) < desk.run(
        desk.verbs.cron_success("reports", "backfill:nightly")
    )


def test_ticks_that_the_scheduler_has_yet_to_decide_on_are_left_to_it(desk):
    """It may still enqueue them; so may a scheduler that finds them decided."""
    verbs, run = desk.verbs, desk.run

    def known():
        return desk.fusiond("cron", "backfill", "nightly", *OCTOBER, "--dry-run", "--json").json["known"]

    state = run(verbs.cron_state("nightly"))
    run(verbs.cron_write(state, first_seen=1, last=tick(DAYS[2])))
    assert known() == 3
    decided = DecidedTicks("nightly", "reports", "report", b"[[],{}]", 1, None, None, (tick(DAYS[1]),), (0,))
    run(verbs.cron_write(run(verbs.cron_state("nightly")), decided=decided.to_text()))
    assert known() == 1


def test_a_flow_is_run_for_each_tick(desk):
    """A run is found again as a job is."""
    command = Command(desk, "flowing", *OCTOBER, "--max-running", "9")
    jobs = begun(desk, 4)
    assert [json.loads(job.args) for job in jobs] == [[[], {"day": day}] for day in DAYS]
    assert command.interrupt()[0] == 130
    for _ in jobs:
        desk.settle("finished", "reports")
    command = Command(desk, "flowing", *OCTOBER, "--max-running", "9")
    desk.run(deliver_effects(desk.verbs, "reports", advance=True))
    assert command.ended()[0] == 0
    history = desk.fusiond("cron", "history", "flowing", "--json").json
    assert [(each["outcome"], each["is_run"]) for each in history] == [("finished", True)] * 4
    assert desk.fusiond("cron", "backfill", "flowing", *OCTOBER, "--priority", "high").status == 2


def test_what_makes_no_sense_is_refused(desk):
    """A job that cannot see its tick, unless that is wanted; too many ticks; a word that is no time."""

    def said(*words, status=1):
        done = desk.fusiond("cron", "backfill", *words, "--dry-run")
        assert (done.status, done.out) == (status, "")
        return done.err

    assert "add inputs: {day: tick.date} to the entry, or use --force" in said("blind", *OCTOBER)
    assert desk.fusiond("cron", "backfill", "blind", *OCTOBER, "--force", "--dry-run").out.endswith(
        "4 of 4 ticks to run\n"
    )
    assert "more than 10,000 ticks" in said("nightly", "--since", "1990-01-01")
    assert "--since 'monday' is not a day or a time" in said("nightly", "--since", "monday", status=2)
    assert "no time lies between" in said("nightly", "--since", "2026-10-28", "--until", "2026-10-24", status=2)
