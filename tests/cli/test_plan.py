"""fusiond plan and explain where no daemon runs, and what a plan says of queues and workers of a real broker."""

import argparse
import sys
import time

import pytest

from fusiond.cli.plan import plan_text
from fusiond.cli.plan.circumstances import look
from fusiond.config.accepted.plan import effects
from fusiond.config.load import load
from tests.support.fusiond_command import fusiond_here

BASE = """\
version: 1
queues: {reports: {max_length: 100}}
tasks: {send: {run: shop.send}, report: {run: shop.report, queue: reports}}
cron: {nightly: {task: report, schedule: "0 2 * * *", timezone: Europe/Berlin}}
workers:
  main: {queues: [default], processes: 4, directory: /, environment: {TOKEN: hunter2}}
  batch: {queues: [reports], directory: /}
"""


@pytest.fixture
def files(tmp_path):
    """Write `old.yaml`, and `new.yaml` with texts replaced; run fusiond beside them."""

    def write(*pairs):
        new = BASE
        for old, text in pairs:
            assert old in new
            new = new.replace(old, text)
        (tmp_path / "old.yaml").write_text(BASE)
        (tmp_path / "new.yaml").write_text(new)
        return lambda *words: fusiond_here(*words, cwd=tmp_path, RUNTIME_DIRECTORY=str(tmp_path / "run"))

    return write


def foreseen(desk, *pairs):
    """What a plan says beside this broker."""
    new = BASE
    for old, text in pairs:
        assert old in new
        new = new.replace(old, text)
    change = effects(*(load("f", environ={}, data=text.encode()).config for text in (BASE, new)))
    options = argparse.Namespace(url=desk.settings.url, namespace=None, config=None, dev=False)
    found = look(change, options)
    return found, plan_text(change.plan, found)


NO_BATCH = ("  batch: {queues: [reports], directory: /}\n", "")


def test_against_another_file(files):
    """Two files, no daemon and no broker: counted, grouped, named by key and never by value."""
    run = files(("processes: 4", "processes: 6"), ("TOKEN: hunter2", "TOKEN: hunter3"), NO_BATCH)
    done = run("plan", "new.yaml", "--against", "old.yaml")
    assert done.out.splitlines()[:2] == [
        "new.yaml against old.yaml",
        "1 group replaced (main, because environment.TOKEN changed, along with processes), 1 removed (batch)",
    ]
    assert "nothing will serve queue 'reports'" in done.out
    assert "jobs were not counted: only files were compared" in done.out
    assert "hunter" not in done.out
    assert done.status == 0


def test_holidays_that_this_machine_lacks_are_no_end_of_a_plan(files, monkeypatch):
    """It may be made elsewhere than where the file runs: the ticks are left out, `validate` says what is missing."""
    monkeypatch.setitem(sys.modules, "holidays", None)
    run = files(("Europe/Berlin}", "Europe/Berlin, not_on: [li]}"), ("cron:", "calendars: {li: {country: LI}}\ncron:"))
    done = run("plan", "new.yaml", "--against", "old.yaml", "--json")
    assert (done.status, done.json["cron"][0]["name"]) == (0, "nightly")
    assert done.json["cron"][0]["after"]["ticks"] == []


def test_exit_code_is_for_scripts(files):
    """0 where nothing would change, 4 where something would, 1 where it would be refused, 2 for a file that is not."""
    run = files(("processes: 4", "processes: 6"))
    assert run("plan", "new.yaml", "--against", "old.yaml", "--exit-code").status == 4
    same = run("plan", "old.yaml", "--against", "old.yaml", "--exit-code")
    assert (same.status, same.out) == (0, "old.yaml against old.yaml\nnothing changes\n")
    run = files(("version: 1\n", "version: 1\nbroker: {namespace: x}\n"))
    refused = run("plan", "new.yaml", "--against", "old.yaml", "--exit-code")
    assert (refused.status, "restart it" in refused.out) == (1, True)
    assert run("plan", "no.yaml", "--against", "old.yaml").status == 2
    assert run("plan", "old.yaml", "--against", "/dev/null").status == 1


def test_without_a_daemon_it_says_so(files):
    """Status 3 and the remedy, with and without a file."""
    run = files()
    for words in (("plan", "-c", "old.yaml"), ("plan", "new.yaml", "-c", "old.yaml"), ("plan", "new.yaml")):
        done = run(*words)
        assert (done.status, "no daemon listens" in done.err) == (3, True), done


def test_json(files):
    """The same as one document; the ticks in the entry's own time."""
    run = files(('"0 2 * * *"', '"30 3 * * *"'), NO_BATCH)
    document = run("plan", "new.yaml", "--against", "old.yaml", "--json").json
    assert (document["changes"], document["refused"]) == (True, False)
    assert [group["action"] for group in document["plan"]["groups"]] == ["removed", "kept"]
    (entry,) = document["cron"]
    # 02:00 does not exist in a night of March.
    assert {"02:00:00"} <= {tick[11:19] for tick in entry["before"]["ticks"]} <= {"02:00:00", "03:00:00"}
    assert {tick[11:19] for tick in entry["after"]["ticks"]} == {"03:30:00"}
    assert [(warning["kind"], warning["name"], warning["waiting"]) for warning in document["warnings"]] == [
        ("unserved", "reports", None)
    ]


def test_jobs_that_nothing_would_serve_are_counted(desk):
    """Those that wait, those that are still to come; without any the queue is named all the same."""
    _, text = foreseen(desk, NO_BATCH)
    assert "warning: nothing will serve queue 'reports'\n" in text + "\n"
    for _ in range(2):
        desk.enqueued("report")
    desk.enqueued("report", "--in", "1h")
    found, text = foreseen(desk, NO_BATCH)
    assert "warning: 3 jobs wait in queue 'reports', which nothing will serve" in text
    assert found.warnings[0]["waiting"] == 3


def test_a_max_running_below_what_runs(desk):
    """Said with both figures."""
    for _ in range(2):
        desk.enqueued("report")
        desk.claim("reports")
    _, text = foreseen(desk, ("max_length: 100", "max_length: 100, max_running: 1"))
    assert "2 jobs run in queue 'reports', and its max_running will be 1" in text
    _, text = foreseen(desk, ("max_length: 100", "max_length: 100, max_running: 2"))
    assert "warning" not in text


def test_processes_below_what_runs(desk):
    """The busiest host counts, since each has its own; another group's jobs do not."""
    born = int(time.time() * 1000)
    for name, group, running in (("a.1", "main", 3), ("b.1", "main", 1), ("c.1", "other", 9)):
        desk.run(desk.verbs.announce(name, {"group": group, "running": running, "born": born}))
    _, text = foreseen(desk, ("processes: 4", "processes: 2"))
    assert "3 jobs run in group 'main', and its processes will be 2" in text
    _, text = foreseen(desk, ("processes: 4", "processes: 3"))
    assert "warning" not in text


def test_a_broker_that_is_away_is_said(tmp_path):
    """The plan is shown without figures, and says that they are missing, and why."""
    change = effects(*(load("f", environ={}, data=text.encode()).config for text in (BASE, BASE.replace(*NO_BATCH))))
    options = argparse.Namespace(url=f"unix://{tmp_path}/nothing.sock", namespace=None, config=None, dev=False)
    found = look(change, options)
    text = plan_text(change.plan, found)
    assert "nothing will serve queue 'reports'; whether jobs wait in it is not known" in text
    assert "note: jobs were not counted: " in text
    assert str(tmp_path) in found.away


def test_explain_prints_each_value_with_its_line(files):
    """As a table, and as JSON with plain numbers."""
    run = files()
    rows = [line.split() for line in run("explain", "group", "main", "-c", "old.yaml").out.splitlines()]
    assert ["processes", "4", "old.yaml:6", "workers.main.processes"] in rows
    assert ["environment.TOKEN", "***", "old.yaml:6", "workers.main.environment.TOKEN"] in rows
    values = {value["key"]: value for value in run("explain", "task", "send", "-c", "old.yaml", "--json").json}
    assert (values["timeout.soft"]["value"], values["timeout.soft"]["file"]) == (180.0, None)
    assert (values["run"]["file"], values["run"]["line"], values["run"]["column"]) == ("old.yaml", 3, 21)


def test_explain_knows_what_was_meant(files):
    """A wrong name, a wrong kind, a file with mistakes: one sentence each."""
    run = files(("queue: reports", "queue: reprots"))
    done = run("explain", "cron", "nightlie", "-c", "old.yaml")
    assert (done.status, done.err) == (1, "fusiond: no cron entry 'nightlie'; did you mean 'nightly'?\n")
    assert run("explain", "tasks", "send", "-c", "old.yaml").status == 2
    done = run("explain", "task", "send", "-c", "new.yaml")
    assert (done.status, "did you mean 'reports'?" in done.err) == (1, True)
