"""Reload by a real daemon whose programs are stand-ins: what runs, what is told, what is refused."""

import json
import resource
import signal
import socket
import time
from pathlib import Path

import pytest

from fusiond.errors import ControlError
from fusiond.locate.control import ask
from fusiond.supervise.reload.transaction import REREAD
from tests.failpoints import HOOK, LOG, VARIABLE
from tests.supervise.file import file, supervisorctl
from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, Running, alive, until


def test_only_runs_the_parts_that_are_named(daemon):
    """`--only` leaves everything else out; producers learn of its tasks by a program that only publishes."""
    daemon.start(file("main: {}, other: {}"), "--only", "other")
    assert daemon.names() == {"publisher", "worker:other@1"}


def test_a_group_runs_on_its_hosts_alone(daemon):
    """On another host it is left out, and the status says so; once its hosts match, a reload starts it."""
    here = socket.gethostname()
    daemon.start(file("main: {}, batch: {hosts: [no-such-host-*]}"))
    assert daemon.names() == {"scheduler", "worker:main@1"}
    assert daemon.status()["of_other_hosts"] == ["batch"]
    before = daemon.pid("worker:main@1")
    outcome = daemon.reload(file(f"main: {{}}, batch: {{hosts: [{here.upper()[:-1]}?]}}"))
    assert outcome["result"] == "applied"
    until(lambda: daemon.names() == {"scheduler", "worker:main@1", "worker:batch@2"}, daemon.names)
    assert daemon.reload(file("main: {}, batch: {hosts: [no-such-host-*]}"))["result"] == "applied"
    until(lambda: daemon.names() == {"scheduler", "worker:main@1"}, daemon.names)
    assert daemon.pid("worker:main@1") == before


def test_a_changed_in_place_key_is_told_and_keeps_the_pid(daemon):
    """More processes: the running dispatcher is told, acknowledges, and stays."""
    daemon.start(file())
    before = daemon.pid("worker:main@1")
    outcome = daemon.reload(file("main: {processes: 5}"))
    assert (outcome["result"], outcome["generation"], outcome["warnings"]) == ("applied", 2, [])
    assert daemon.pid("worker:main@1") == before
    current = str(daemon.state / "current.json")
    assert {"do": "apply", "snapshot": current, "generation": 2, "pid": before} in daemon.heard("worker:main@1")
    assert {p["generation"] for p in daemon.status()["programs"]} == {2}


def test_added_and_removed_groups_come_and_go_and_others_stay(daemon):
    """A group that the file gains is started, one that it loses ends, the rest keep their pids."""
    daemon.start(file("main: {}, old: {}"))
    before = daemon.pid("worker:main@1")
    assert daemon.reload(file("main: {}, new: {}"))["result"] == "applied"
    until(lambda: daemon.names() == {"scheduler", "worker:main@1", "worker:new@2"}, daemon.names)
    assert daemon.pid("worker:main@1") == before


def test_a_replaced_group_is_started_before_the_old_one_drains(daemon):
    """The new one is ready, held, before the old one drains; then it is let go, leaving the old one's slots."""
    daemon.start(file("main: {processes: 3, environment: {BUSY: '2'}}"))
    assert daemon.reload(file("main: {processes: 3, environment: {BUSY: '1'}}"))["result"] == "applied"
    start, *_ = daemon.heard("worker:main@2")
    assert "--held" in start["argv"]
    until(lambda: daemon.programs()["worker:main@1"]["busy"] == 2)
    until(lambda: [one["slots"] for one in daemon.heard("worker:main@2") if one["do"] == "leave"][-1:] == [2])
    assert [one["do"] for one in daemon.heard("worker:main@2")][:3] == ["start", "leave", "go"]
    assert [one["do"] for one in daemon.heard("worker:main@1")] == ["start", "drain"]
    (daemon.state / "done-main").touch()
    until(lambda: daemon.names() == {"scheduler", "worker:main@2"}, daemon.names)
    until(lambda: daemon.heard("worker:main@2")[-1]["slots"] == 0)


def test_there_and_back_while_draining_keeps_workers(daemon):
    """A group changed and changed back during its drain is served all along, and ends with one process."""
    a, b = file("main: {environment: {BUSY: '1'}}"), file("main: {environment: {BUSY: '2'}}")
    daemon.start(a)
    for body in (b, a, b, a):
        assert daemon.reload(body)["result"] == "applied"
        serving = [p for p in daemon.programs().values() if p["part"] == "worker:main" and p["wanted"]]
        assert [p["ready"] for p in serving] == [True]
    assert {name for name in daemon.names() if "main" in name} == {f"worker:main@{n}" for n in range(1, 6)}
    until(lambda: daemon.heard("worker:main@5")[-1] | {"pid": 0} == {"do": "leave", "slots": 6, "pid": 0})
    (daemon.state / "done-main").touch()
    until(lambda: daemon.names() == {"scheduler", "worker:main@5"}, daemon.names)


@pytest.mark.parametrize(
    ("act", "reason"),
    [("fail", "shop.missing: no module named 'shop'"), ("crash", "ended with status 3")],
)
def test_a_candidate_that_does_not_become_ready_is_refused(daemon, act, reason):
    """A failure on trial costs only the new processes: the old generation runs on, untouched and told nothing."""
    daemon.start(file("main: {}, other: {}"))
    before = {name: program["pid"] for name, program in daemon.programs().items()}
    outcome = daemon.reload(file(f"main: {{environment: {{ACT: {act}}}}}, other: {{processes: 4}}"))
    assert (outcome["result"], outcome["generation"]) == ("refused", 1)
    assert reason in outcome["reason"]
    until(lambda: {name: program["pid"] for name, program in daemon.programs().items()} == before)
    assert [one["do"] for one in daemon.heard("worker:other@1")] == ["start"]
    until(lambda: daemon.names() == {"scheduler", "worker:main@1", "worker:other@1"}, daemon.names)
    assert json.loads((daemon.state / "current.json").read_text())["generation"] == 1
    assert not list(daemon.state.glob("candidate*"))


def test_a_commit_that_fails_leaves_nothing_on_trial(daemon):
    """The disk is full: what was started for the candidate goes, what ran stays, and the next reload is like any."""
    log = daemon.directory / "fired"
    log.touch()
    failing = {**HOOK, VARIABLE: "promote.before:raise", LOG: str(log)}
    daemon.start(file("main: {environment: {A: '1'}}"), environment=failing)
    outcome = daemon.reload(file("main: {environment: {A: '2'}}"))
    assert (outcome["result"], outcome["generation"]) == ("refused", 1)
    until(lambda: daemon.names() == {"scheduler", "worker:main@1"}, daemon.text)
    log.unlink()
    assert daemon.reload()["result"] == "applied"
    until(lambda: daemon.names() == {"scheduler", "worker:main@2"}, daemon.text)


def test_an_invalid_file_is_refused_with_its_problems(daemon):
    """What is wrong, where; and the running configuration stays."""
    daemon.start(file())
    outcome = daemon.reload(file("main: {procesess: 2}"))
    assert outcome["result"] == "refused"
    assert "did you mean" in outcome["reason"]
    assert [problem["line"] for problem in outcome["problems"]] == [7]
    assert daemon.status()["generation"] == 1


def test_a_deleted_file_is_refused_and_its_return_is_taken_in(daemon):
    """No file is no reason to stop; when it is back, with a change, the watcher sees it."""
    daemon.start(file())
    daemon.file.unlink()
    assert daemon.reload()["result"] == "refused"
    daemon.write(file("main: {processes: 3}"))
    until(lambda: daemon.status()["generation"] == 2, daemon.text)


def test_the_broker_cannot_change_while_running(daemon):
    """Refused, with the remedy and with the place of the key in the file; of one that is gone, that of its section."""
    daemon.start(file())
    outcome = daemon.reload(file().replace("localhost:1", "localhost:2"))
    assert outcome["result"] == "refused"
    assert "restart" in outcome["reason"]
    lines = daemon.file.read_text().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if "localhost:2" in line)
    column = lines[number - 1].index('"redis:') + 1
    assert f"{daemon.file}:{number}:{column}: broker.url cannot change" in outcome["reason"]
    [problem] = outcome["problems"]
    assert (problem["code"], problem["line"], problem["column"]) == ("needs-restart", number, column)
    outcome = daemon.reload(file().replace('broker: {url: "redis://localhost:1/"}', "broker: {namespace: fusion}"))
    assert f"{daemon.file}:{number}:1: broker.url cannot change" in outcome["reason"]


def test_of_a_refused_file_the_errors_alone_are_told(daemon):
    """By the log, `status` and the command; programs and the dashboard get its warnings, too."""
    daemon.start(file())
    (daemon.directory / "open").mkdir()
    (daemon.directory / "open").chmod(0o777)
    text = file(f"main: {{directory: {daemon.directory}/open}}", more="cron: {c: {task: gone, every: 5s}}\n")
    outcome = daemon.reload(text)
    assert {"unknown-task", "unsafe-directory"} <= {problem["code"] for problem in outcome["problems"]}
    until(lambda: "[unknown-task]" in daemon.text(), daemon.text)
    for told in (daemon.text(), outcome["summary"], daemon.status()["reload"]["reason"]):
        assert ("[unknown-task]" in told, "[unsafe-directory]" in told) == (True, False)


def test_a_half_written_file_is_read_again(daemon):
    """A file caught in the middle of being written is not reported as an error."""
    daemon.start(file())
    took, refused = REREAD, 0
    # Again where this process stood still for longer than the daemon waits.
    while took >= REREAD:
        before = daemon.status()
        refused = before["reloads"].get("refused", 0)
        whole = daemon.head() + file(f"main: {{processes: {7 + before['generation']}}}")
        began = time.monotonic()
        with daemon.file.open("w") as out:
            out.write(whole[: len(whole) // 2])
            out.flush()
            daemon.signal(signal.SIGHUP)
            time.sleep(0.15)  # the pause is the subject
            out.write(whole[len(whole) // 2 :])
        took = time.monotonic() - began
        until(lambda: daemon.status()["generation"] > before["generation"], daemon.text)  # noqa: B023
    assert daemon.status()["reloads"].get("refused", 0) == refused


def test_a_new_include_that_is_refused_is_watched_until_it_is_mended(daemon):
    """The mistake is in the drop-in: saving that one is enough."""
    drop = daemon.directory / "d"
    drop.mkdir()
    daemon.start(file())
    (drop / "a.yaml").write_text("workers: {a: {procesess: 1}}\n")
    assert daemon.reload(file(more=f"include: ['{drop}/a.yaml']\n"))["result"] == "refused"
    (drop / "a.yaml").write_text("workers: {a: {processes: 1}}\n")
    until(lambda: "worker:a@2" in daemon.names(), daemon.text)


def test_a_storm_of_signals_is_one_or_two_reloads(daemon):
    """Requests that overlap coalesce."""
    daemon.start(file())
    daemon.write(file("main: {processes: 9}"))
    for _ in range(100):
        daemon.signal(signal.SIGHUP)
    until(lambda: daemon.status()["generation"] == 2, daemon.text)
    assert daemon.reload()["generation"] == 2
    # The signals that came before the helper began to read, and those after; the reload above.
    assert sum(daemon.status()["reloads"].values()) <= 3


@pytest.mark.proof
def test_a_program_that_acknowledges_nothing_is_a_warning(daemon):
    """The file was taken; the outcome names who did not answer."""
    daemon.start(file("main: {environment: {ACT: deaf}}"))
    outcome = daemon.reload(file("main: {processes: 4, environment: {ACT: deaf}}"))
    assert outcome["result"] == "applied"
    assert "worker:main@1" in outcome["warnings"][0]


def test_what_an_operator_stopped_stays_stopped(daemon):
    """A replaced group that was stopped by hand is not started by the reload."""
    daemon.start(file())
    stopped = supervisorctl(daemon, "stop", "worker:main@1")
    assert "stopped" in stopped
    assert daemon.reload(file("main: {environment: {A: b}}"))["result"] == "applied"
    until(lambda: daemon.names() == {"scheduler", "worker:main@2"}, daemon.names)
    assert daemon.programs()["worker:main@2"]["state"] == "STOPPED"
    assert "started" in supervisorctl(daemon, "start", "worker:main@2")
    assert [one["do"] for one in daemon.heard("worker:main@2")] == ["start"]
    assert "--held" not in daemon.heard("worker:main@2")[0]["argv"]


def test_what_an_operator_stops_during_a_trial_stays_stopped(daemon):
    """Its successor may have been ready before; it is not let go."""
    daemon.start(file())
    daemon.write(file("main: {environment: {A: b}}, late: {environment: {ACT: late}}"))
    until(lambda: daemon.programs().get("worker:main@2", {}).get("ready"), daemon.text)
    assert "stopped" in supervisorctl(daemon, "stop", "worker:main@1")
    (daemon.state / "go-late").touch()
    until(lambda: daemon.names() == {"scheduler", "worker:main@2", "worker:late@2"}, daemon.names)
    until(lambda: daemon.programs()["worker:main@2"]["state"] == "STOPPED", daemon.text)
    assert "go" not in [one["do"] for one in daemon.heard("worker:main@2")]
    assert "started" in supervisorctl(daemon, "start", "worker:main@2")


def test_a_trial_waits_for_the_end_of_the_one_before(daemon):
    """What was refused is still being killed, under the number that the next one has: it is not forgotten."""
    daemon.start(file())
    daemon.write(file("main: {environment: {ACT: stuck}}, other: {environment: {ACT: never}}"))
    until(lambda: daemon.heard("worker:main@2") and daemon.heard("worker:other@2"), daemon.text)
    stuck = daemon.pid("worker:main@2")
    daemon.kill(daemon.pid("worker:other@2"))
    until(lambda: daemon.status()["reloads"] == {"refused": 1}, daemon.text)
    outcome = daemon.reload(file("main: {environment: {A: b}}"))
    assert (outcome["result"], alive(stuck)) == ("applied", False)
    assert daemon.pid("worker:main@2") != stuck


def test_what_was_never_ready_does_not_outlive_its_replacement(daemon):
    """A group that hangs in an import has no job to wait for: it is killed, not drained."""
    daemon.start(file("main: {environment: {ACT: stuck}}"), wait=False)
    until(lambda: daemon.heard("worker:main@1"), daemon.text)
    assert daemon.reload(file())["result"] == "applied"
    until(lambda: daemon.names() == {"scheduler", "worker:main@2"}, daemon.names, timeout=25)


def test_a_reload_gives_what_had_given_up_another_try(daemon):
    """A group whose code was mended, the file unchanged, is started again by a reload."""
    daemon.start(file("main: {environment: {ACT: fail}}"))
    assert daemon.programs()["worker:main@1"]["state"] == "FATAL"
    assert daemon.reload()["result"] == "unchanged"
    until(lambda: len(daemon.heard("worker:main@1")) == 2)


def test_who_waits_is_told_when_the_daemon_ends(daemon):
    """A reload that is under way when the daemon is stopped is refused, and its processes end."""
    daemon.start(file())
    daemon.write(file("main: {environment: {ACT: never}}"))
    until(lambda: "worker:main@2" in daemon.names())
    assert daemon.stop() == 0
    assert "the daemon is ending" in daemon.text()


@pytest.mark.parametrize("verb", ["reload", "plan", "rollback"])
def test_who_asks_while_the_daemon_ends_is_told_at_once(daemon, verb):
    """Its running jobs may take an hour."""
    daemon.start(file("main: {environment: {BUSY: '1', ACT: stubborn}, drain_timeout: 1h}"))
    daemon.signal(signal.SIGTERM)
    until(lambda: daemon.status()["ending"], daemon.text)
    with pytest.raises(ControlError, match="it is ending"):
        ask(daemon.control, verb, timeout=20)
    daemon.kill(daemon.process.pid)


def test_a_plan_for_which_there_are_too_few_descriptors_is_refused(daemon):
    """It says so, and the daemon goes on."""
    daemon.start(file())
    # One is for the connection of who asks.
    pid = daemon.process.pid
    taken = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (taken + 1, limits[1]))
    assert "Too many open files" in ask(daemon.control, "plan", timeout=20)["reason"]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    assert ask(daemon.control, "plan", timeout=20)["reason"] == ""


def test_last_good_starts_in_spite_of_a_broken_file(daemon):
    """`--last-good` takes what was accepted last; without it a broken file is refused with 78."""
    daemon.start(file("main: {processes: 6}"))
    daemon.stop()
    daemon.file.write_text("nonsense: [\n")
    daemon.start(wait=False)
    assert daemon.process.wait(PATIENCE) == 78
    assert "error" in daemon.text()
    environment = {"STATE_DIRECTORY": str(daemon.state)}
    daemon.start(None, "--last-good", environment=environment)
    assert daemon.status()["generation"] == 1


@pytest.mark.parametrize(
    ("text", "remedy"),
    [("nonsense: [\n", "set STATE_DIRECTORY to the same directory"), ("", "nothing was accepted before")],
    ids=["the file cannot be parsed, and names the directory", "the file says what was accepted last"],
)
def test_last_good_says_what_to_do_where_there_is_none(daemon, text, remedy):
    """`text`: what the file says now, if it is not what it said before."""
    daemon.start(file())
    daemon.stop()
    if text:
        daemon.file.write_text(text)
    daemon.start(None, "--last-good", wait=False)
    assert daemon.process.wait(PATIENCE) == 78
    assert remedy in daemon.text()


def test_last_good_says_what_is_wrong_with_the_file(daemon):
    """So does `status`, as of a refused reload; and a start that is refused names the option."""
    daemon.start(file())
    daemon.stop()
    daemon.write(file("main: {procesess: 6}"))
    daemon.start(wait=False)
    assert daemon.process.wait(PATIENCE) == 78
    assert f"generation 1 instead of the file: fusiond run --last-good -c {daemon.file}" in daemon.text()
    daemon.log.write_text("")
    daemon.start(None, "--last-good")
    assert f"generation 1 runs instead of {daemon.file}" in daemon.text()
    assert "procesess" in daemon.text()
    shown = daemon.status()["reload"]
    assert (shown["result"], shown["asked_by"]) == ("refused", ["fusiond run --last-good"])
    assert "procesess" in shown["reason"]


def test_last_good_says_that_a_file_without_problems_is_left_out(daemon):
    """It is applied by the next reload."""
    daemon.start(file("main: {processes: 6}"))
    daemon.stop()
    daemon.write(file("main: {processes: 7}"))
    daemon.start(None, "--last-good")
    own = {"RUNTIME_DIRECTORY": str(daemon.runtime), "STATE_DIRECTORY": str(daemon.state)}
    shown = fusiond("status", "-c", str(daemon.file), cwd=daemon.directory, **own).out
    assert f"{daemon.file} was left out at the start" in shown
    daemon.reload()
    assert "was left out" not in fusiond("status", "-c", str(daemon.file), cwd=daemon.directory, **own).out


def test_a_second_daemon_is_refused(daemon):
    """One state directory, one runtime directory, one daemon; the second says whose it is."""
    daemon.start(file())
    second = Running(daemon.command)
    second.file.write_text(daemon.file.read_text())
    second.start(wait=False)
    assert second.process.wait(PATIENCE) == 1
    assert f"in use by another daemon (pid {daemon.process.pid}, which runs {daemon.file})" in second.text()
    second.file.write_text(daemon.file.read_text().replace(str(daemon.state), str(second.state)))
    second.start(wait=False)
    assert second.process.wait(PATIENCE) == 1
    assert f"another daemon listens on {daemon.control}" in second.text()
    second.close()
