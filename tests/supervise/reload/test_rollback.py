"""Rollback, history and plan of a real daemon whose programs are stand-ins."""

import json
from concurrent.futures import ThreadPoolExecutor

from fusiond.locate.control import ask
from tests.supervise.file import file
from tests.support.fusiond_command import fusiond_here
from tests.support.running import PATIENCE, until


def rollback(daemon, generation=""):
    return ask(daemon.control, "rollback", str(generation), "a test", timeout=60)


def history(daemon):
    return ask(daemon.control, "history", timeout=PATIENCE)["entries"]


def processes(daemon):
    """What the accepted configuration says of the one group."""
    content = json.loads((daemon.state / "current.json").read_text())
    return content["config"]["workers"]["main"]["processes"]


def saved(daemon, body):
    """Save the file and wait until the watcher's reload of it has ended."""
    before = daemon.status()["reload"]
    daemon.write(body)
    until(lambda: daemon.status()["reload"] != before, daemon.text)
    return daemon.status()["reload"]


def test_each_accepted_generation_is_kept_with_who_asked(daemon):
    """The start, a saved file, fusiond reload; a refused or empty one leaves no entry."""
    daemon.start(file())
    saved(daemon, file("main: {processes: 3}"))
    daemon.reload()
    assert daemon.reload(file("main: {procesess: 3}"))["result"] == "refused"
    saved(daemon, file("main: {processes: 4}"))
    kept = history(daemon)
    assert [(entry["generation"], entry["asked_by"][0]) for entry in kept][:2] == [
        (1, "fusiond run"),
        (2, "the file's change"),
    ]
    assert [entry["generation"] for entry in kept] == [1, 2, 3]
    assert kept[1]["changes"] == "1 group resized (main, 2 → 3 processes)"
    assert kept[0]["accepted_at"] < kept[1]["accepted_at"]


def test_back_to_the_one_before_and_one_further(daemon):
    """A rollback is an accepted generation of its own; the programs are told, and keep their pids."""
    daemon.start(file())
    before = daemon.pid("worker:main@1")
    daemon.reload(file("main: {processes: 3}"))
    daemon.reload(file("main: {processes: 4}"))
    outcome = rollback(daemon)
    assert (outcome["result"], outcome["generation"], outcome["restores"]) == ("applied", 4, 2)
    assert "a rollback to generation 2" in outcome["summary"]
    assert "differs; it is applied when it changes" in outcome["warnings"][0]
    assert processes(daemon) == 3
    assert rollback(daemon)["restores"] == 1
    assert (processes(daemon), daemon.pid("worker:main@1")) == (2, before)
    assert history(daemon)[-1]["restores"] == 1
    assert rollback(daemon)["result"] == "refused"


def test_the_watcher_does_not_undo_it(daemon):
    """The file is touched, and saved in other words: the rollback stands. It says something new: that is taken."""
    daemon.start(file())
    saved(daemon, file("main: {processes: 3}"))
    rollback(daemon)
    status = daemon.status()
    assert (status["restores"], status["file_differs"]) == (1, True)
    outcome = saved(daemon, file("main: {processes: 3}", more="# another word\n"))
    assert (outcome["result"], outcome["asked_by"]) == ("unchanged", ["the file's change"])
    assert "the rollback to generation 1 stays in force" in outcome["warnings"][0]
    assert processes(daemon) == 2
    assert saved(daemon, file("main: {processes: 5}"))["result"] == "applied"
    status = daemon.status()
    assert (status["restores"], status["file_differs"], processes(daemon)) == (0, False, 5)


def test_who_asks_for_the_file_gets_it(daemon):
    """`fusiond reload` undoes a rollback, whatever the file says."""
    daemon.start(file())
    daemon.reload(file("main: {processes: 3}"))
    rollback(daemon)
    assert processes(daemon) == 2
    assert daemon.reload()["result"] == "applied"
    assert (processes(daemon), daemon.status()["file_differs"]) == (3, False)


def test_a_restart_does_not_undo_it(daemon):
    """Killed and started again, it runs what was rolled back to; a file that says something else is taken."""
    daemon.start(file())
    daemon.reload(file("main: {processes: 3}"))
    rollback(daemon)
    daemon.stop()
    daemon.start()
    status = daemon.status()
    assert (status["generation"], status["restores"], status["file_differs"]) == (3, 1, True)
    assert processes(daemon) == 2
    daemon.stop()
    daemon.start(file("main: {processes: 6}"))
    assert (processes(daemon), daemon.status()["generation"]) == (6, 4)
    assert history(daemon)[-1]["changes"] == "1 group resized (main, 2 → 6 processes)"


def test_a_rollback_while_the_file_is_broken(daemon):
    """The file cannot be read at all: the command finds the daemon, and any file that can be used is taken again."""
    daemon.start(file())
    daemon.reload(file("main: {processes: 3}"))
    saved(daemon, file("main: {procesess: 3}"))
    done = fusiond_here("rollback", "-c", daemon.file, cwd=daemon.directory)
    assert (done.status, processes(daemon)) == (0, 2), done
    assert "a rollback to generation 1" in done.out
    assert saved(daemon, file("main: {processes: 3}"))["result"] == "applied"
    assert processes(daemon) == 3


def test_numbers_only_grow(daemon):
    """The current snapshot is lost, the history is not: no number is given twice."""
    daemon.start(file())
    daemon.reload(file("main: {processes: 3}"))
    daemon.stop()
    (daemon.state / "current.json").unlink()
    daemon.start()
    assert daemon.status()["generation"] == 3
    assert [entry["generation"] for entry in history(daemon)] == [1, 2, 3]


def test_a_damaged_snapshot_is_named_and_rewritten(daemon):
    """It does not become the last good one, and --last-good does not promise that another start helps."""
    daemon.start(file())
    daemon.reload(file("main: {processes: 3}"))
    daemon.stop()
    current, last_good = (daemon.state / name for name in ("current.json", "last-good.json"))
    current.write_text('{"generation": 2, "ha')
    daemon.start(None, "--last-good", wait=False)
    assert daemon.process.wait(PATIENCE) != 0
    assert "current.json cannot be used (Unterminated string" in daemon.text()
    assert "start without --last-good" in daemon.text()
    before = last_good.read_text()
    daemon.start()
    assert "current.json is damaged (Unterminated string" in daemon.text()
    assert (daemon.status()["generation"], processes(daemon), last_good.read_text()) == (3, 3, before)


def test_a_history_that_cannot_be_written_stops_no_reload(daemon):
    """It is said as a warning; the file was taken."""
    daemon.start(file())
    (daemon.state / "history" / "1.jsonl").unlink()
    (daemon.state / "history").rmdir()
    (daemon.state / "history").write_text("in the way")
    outcome = daemon.reload(file("main: {processes: 3}"))
    assert (outcome["result"], outcome["generation"]) == ("applied", 2)
    assert "the history could not be written" in outcome["warnings"][0]


def test_the_daemon_plans_its_own_file_with_its_own_environment(daemon):
    """A variable that only the daemon has; nothing is changed by the question, and no value is in the answer."""
    body = file("main: {processes: 2, environment: {A: '${ONLY_HERE}'}}")
    daemon.start(body, environment={"ONLY_HERE": "hunter2"})
    # A change that does not start stays a change.
    assert saved(daemon, body.replace("A:", "ACT: fail, B:"))["result"] == "refused"
    done = fusiond_here("plan", "-c", daemon.file, "--exit-code", cwd=daemon.directory)
    assert done.status == 4, done
    assert "1 group replaced (main, because environment.A, environment.ACT, environment.B changed)" in done.out
    # The file cannot be used here; where the broker is the snapshot says.
    assert "jobs were not counted: " in done.out
    assert "redis://localhost:1/ cannot be reached: Connection refused" in done.out
    assert "hunter2" not in json.dumps(ask(daemon.control, "plan", timeout=60))
    assert daemon.status()["generation"] == 1
    assert not list(daemon.state.glob("candidate-*"))


def test_a_plan_waits_for_the_reload_that_runs(daemon):
    """It says what the next reload would do, and not what the running one does."""
    daemon.start(file())
    daemon.write(file("main: {environment: {ACT: late}}"))
    until(lambda: "worker:main@2" in daemon.names(), daemon.text)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, daemon.control, "plan", timeout=60)
        daemon.status()  # it is served after the request for the plan
        assert not asking.done()
        (daemon.state / "go-main").touch()
        answer = asking.result()
    assert (answer["generation"], answer["effects"]["plan"]["groups"][0]["action"]) == (2, "kept")
    assert answer["taken"]["generation"] == 2


def test_a_plan_of_a_file_with_a_mistake(daemon):
    """Its problems with their places, as the reload would refuse it; status 1."""
    daemon.start(file())
    saved(daemon, file("main: {procesess: 3}"))
    done = fusiond_here("plan", "-c", daemon.file, cwd=daemon.directory)
    assert done.status == 1
    assert "a reload would be refused" in done.out
    assert "did you mean 'processes'?" in done.out
    document = fusiond_here("plan", "-c", daemon.file, "--json", cwd=daemon.directory)
    assert document.json["problems"][0]["code"] == "unknown-key"


def test_status_names_a_rollback(daemon):
    """Until the file is taken again."""
    daemon.start(file())
    daemon.reload(file("main: {processes: 3}"))
    rollback(daemon)
    assert "rollback  to generation 1; the file counts again" in fusiond_here("status", cwd=daemon.directory).out
    daemon.reload()
    assert "rollback " not in fusiond_here("status", cwd=daemon.directory).out


def test_history_is_read_from_disk_while_the_daemon_is_away(daemon):
    """Newest first, as a table; as JSON oldest first."""
    daemon.start(file())
    daemon.reload(file("main: {processes: 3}"))
    shown = fusiond_here("history", "--wide", cwd=daemon.directory).out
    daemon.stop()
    away = fusiond_here("history", "--wide", cwd=daemon.directory)
    assert [line.split()[0] for line in away.out.splitlines()] == ["GENERATION", "2", "1"]
    assert [line.split()[0] for line in shown.splitlines()] == ["GENERATION", "2", "1"]
    entries = fusiond_here("history", "--json", cwd=daemon.directory).json
    assert [entry["generation"] for entry in entries] == [1, 2]
    assert len(entries[0]["hash"]) == 64
    done = fusiond_here("rollback", cwd=daemon.directory)
    assert (done.status, "no daemon listens" in done.err) == (3, True)
