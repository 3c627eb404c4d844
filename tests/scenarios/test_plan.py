"""Look first, change, go back: with real workers and a real broker."""

import time

from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, until


def run(daemon, *words):
    return fusiond(*words, cwd=daemon.directory)


def test_a_bad_change_is_undone_while_jobs_run(daemon):
    """Back by one command: new jobs run as before, no job is lost, the one that runs ends in peace."""
    daemon.start(daemon.body("main: {processes: 2, environment: {COLOUR: red}}"))
    held = daemon.hold("a")
    daemon.enqueue_notes(60, seconds=0.02)
    assert daemon.reload(daemon.body("main: {processes: 2, environment: {COLOUR: blue}}"))["result"] == "applied"
    assert daemon.client().enqueue("colour").result(timeout=PATIENCE) == "blue"
    done = run(daemon, "rollback")
    assert done.status == 0, done
    assert "a rollback to generation 1" in done.out
    assert daemon.client().enqueue("colour").result(timeout=PATIENCE) == "red"
    daemon.let_go("a")
    assert held.result(timeout=PATIENCE) == "red"
    daemon.assert_each_ran_once()
    shown = run(daemon, "history").out
    assert "back to 1: 1 group replaced (main, because environment.COLOUR changed)" in shown
    assert run(daemon, "plan", "--exit-code").status == 4


def colour_from_a_file(daemon):
    """A body whose group gets COLOUR from an environment file, and that file."""
    secret = daemon.directory / "secret.env"
    secret.write_text("COLOUR=red\n")
    daemon.start(daemon.body(f"main: {{processes: 1, environment_file: [{secret}]}}"))
    return secret


def colour(daemon):
    return daemon.client().enqueue("colour").result(timeout=PATIENCE)


def test_a_rotated_environment_file_counts_at_a_plan_and_at_a_reload(daemon):
    """`plan` names the group and the key, `reload` replaces the group; nobody watches the file."""
    secret = colour_from_a_file(daemon)
    assert colour(daemon) == "red"
    assert run(daemon, "plan", "--exit-code").status == 0
    secret.write_text("# rotated, nothing changed\nCOLOUR='red'\n")
    assert run(daemon, "plan", "--exit-code").status == 0
    secret.write_text("COLOUR=blue\n")
    done = run(daemon, "plan", "--exit-code")
    assert done.status == 4
    assert done.out.splitlines()[1] == "1 group replaced (main, because environment_file changed)"
    assert "blue" not in done.out
    # What a saved file changes in place leaves the group, and what it has loaded, alone.
    daemon.write(daemon.body(f"main: {{processes: 2, environment_file: [{secret}]}}"))
    until(lambda: daemon.status()["generation"] == 2, daemon.text)
    assert colour(daemon) == "red"
    assert run(daemon, "plan", "--exit-code").status == 4
    outcome = daemon.reload()
    assert outcome["result"] == "applied"
    assert outcome["plan"]["groups"][0]["because"] == ["environment_file"]
    assert colour(daemon) == "blue"
    assert run(daemon, "plan", "--exit-code").status == 0
    assert daemon.reload()["result"] == "unchanged"


def test_a_task_that_does_not_load_is_told_by_a_plan_with_imports(daemon):
    """Without it a misspelt path looks like a change as any other; with it the plan says what the reload would."""
    daemon.start(daemon.body("main: {processes: 1}"))
    assert run(daemon, "plan", "--imports", "--exit-code").status == 0
    other = daemon.directory / "other.yaml"
    other.write_text(daemon.head() + daemon.body("main: {processes: 1}", tasks="  new: {run: stories.colours}\n"))
    assert run(daemon, "plan", other, "--exit-code").status == 4
    done = run(daemon, "plan", other, "--imports", "--exit-code")
    assert done.status == 1
    assert "a reload would be refused" in done.out
    assert "did you mean 'stories.colour'" in done.out
    assert run(daemon, "plan", other, "--imports", "--json").json["refused"]


def test_a_plan_after_the_watcher_says_what_was_taken(daemon):
    """The file was saved and taken before anyone could ask: what changed, when, and by whom."""
    daemon.start(daemon.body("main: {processes: 1}"))
    assert "was accepted" not in run(daemon, "plan").out
    daemon.write(daemon.body("main: {processes: 2}"))
    until(lambda: daemon.status()["generation"] == 2, daemon.text)
    # Its outcome is there a moment after its generation.
    said = until(lambda: [line for line in run(daemon, "plan").out.splitlines() if "was accepted" in line])[0]
    assert said.startswith("generation 2 was accepted ")
    assert said.endswith("(the file's change): 1 group resized (main, 1 → 2 processes)")
    assert run(daemon, "plan", "--json").json["taken"]["generation"] == 2


def test_a_plan_after_a_refusal_says_so(daemon):
    """The watcher has tried the file, whose code does not load; the plan, which loads none, would not show it."""
    daemon.start(daemon.body("main: {processes: 1}"))
    daemon.write(daemon.body("main: {processes: 1}", tasks="  new: {run: stories.colours}\n"))
    until(lambda: (daemon.status()["reload"] or {}).get("result") == "refused", daemon.text)
    said = [line for line in run(daemon, "plan").out.splitlines() if line.startswith("the last reload was refused ")]
    assert [line.partition(" (")[2] for line in said] == ["the file's change); fusiond status shows why"]
    assert run(daemon, "plan", "--json").json["last_reload"]["result"] == "refused"


def test_without_watch_a_saved_file_waits_for_a_reload(daemon):
    """`watch: false`: `plan` shows the change for as long as nobody asks for it."""
    daemon.start(daemon.body("main: {processes: 1}", more="watch: false\n"))
    daemon.write(daemon.body("main: {processes: 2}", more="watch: false\n"))
    watched = daemon.body("main: {processes: 2}")
    # A watcher takes a file within 0.1 s and its reload; nothing tells that none comes.
    time.sleep(1.0)
    assert daemon.status()["generation"] == 1
    assert run(daemon, "plan", "--exit-code").status == 4
    assert daemon.reload()["generation"] == 2
    assert daemon.reload(watched)["generation"] == 3
    daemon.write(daemon.body("main: {processes: 1}"))
    until(lambda: daemon.status()["generation"] == 4, daemon.text)
