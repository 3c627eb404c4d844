"""Tasks with a command, in real groups of each kind: what the program gets, and what becomes of the job by its end."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from fusiond.config.model import RetryPolicy
from fusiond.config.model.commands import ExitStatus, Parameter
from fusiond.config.model.tasks import Timeout
from tests.support.running import alive, until
from tests.support.worker_program import pythons

EACH = pytest.mark.parametrize(
    "group",
    [{"isolation": "fork"}, {"isolation": "process"}, {"executor": "thread", "concurrency": 2}],
    ids=lambda group: group.get("executor") or group["isolation"],
)
ANY = Parameter(pattern="(?s).*")
AT_ONCE = RetryPolicy(max_attempts=3, delay=0.0, jitter_share=0.0, retry_on=("TimeoutError",))


def sh(script, *, parameters=(), **keys):
    """`tasks` of a config with one task, `work`, that runs this script; `$1` and so on are the parameters."""
    words = ("sh", "-c", script, "sh", *(f"$({name})" for name in parameters))
    own = {"run": "", "command": words, "parameters": dict.fromkeys(parameters, ANY), **keys}
    return {"tasks": {"work": own}}


#: s; soft timeouts, of which the next one is tried where a busy machine had not begun the program within the first
PATIENT = (0.7, 5.0, 30.0)


def enqueue_for(place, soft, hard, **kwargs):
    """A job of `work` with these timeouts; its id."""
    header = {"timeout": json.dumps({"soft": soft, "hard": hard}).encode()}
    return place.enqueue("work", header=header, **kwargs)


@EACH
def test_a_program_gets_its_arguments_and_knows_its_job(place, group):
    """No shell reads the words; the environment has the job, and standard input is empty."""
    code = "import json, os, sys; print(json.dumps([sys.argv[1:], sys.stdin.read(), dict(os.environ)]))"
    words = (sys.executable, "-c", code, "$(day).sql", "$$(date)", "* ; $HOME", "")
    rules = {"day": Parameter(pattern=r"\d{4}"), "n": Parameter(enum=("1",))}
    own = {"run": "", "command": (*words, "$(n)"), "parameters": rules, "result": "stdout_json", "directory": "/"}
    place.start(**group, tasks={"work": own})
    id_ = place.enqueue("work", day="2026", n=1)
    argv, stdin, environment = place.result(id_)
    assert (argv, stdin) == (["2026.sql", "$(date)", "* ; $HOME", "", "1"], "")
    told = {name: environment[f"FUSION_{name}"] for name in ("TASK", "JOB_ID", "ATTEMPT")}
    assert told == {"TASK": "work", "JOB_ID": id_, "ATTEMPT": "1"}
    assert int(environment["FUSION_DEADLINE"]) > 1_700_000_000


@EACH
def test_what_it_prints_is_in_the_log_and_says_how_far_it_is(place, group):
    """Line by line, as it comes; a line about progress is no output. The result is the end of standard output."""
    gate = place.path()
    os.mkfifo(gate)
    script = 'echo "::progress 0.25 one of four"; echo out; echo err >&2; echo "::progress x"; cat "$1"; printf end'
    program = place.start(**group, **sh(script, parameters=["gate"], result="stdout"))
    id_ = place.enqueue("work", gate=gate)
    until(lambda: all(f'"message": "{word}"' in program.text() for word in ("out", "err")), program.text)
    progress = until(lambda: place.job(id_).progress, program.text)
    assert (progress.share, progress.message) == (0.25, "one of four")
    Path(gate).write_text("more\n")
    assert place.result(id_) == "out\n::progress x\nmore\nend"
    assert "one of four" not in program.text()


@EACH
def test_exit_statuses(place, group):
    """The file says which are a success, "try again" and "not yet"; each other one is a failure with the last line."""
    statuses = ExitStatus(success=(0, 3), retry=(75,), snooze=(99,))
    script = 'echo "$FUSION_ATTEMPT" >> "$2"; echo first >&2; echo disk full >&2; exit "$1"'
    keys = {"parameters": ["n", "path"], "exit_status": statuses, "retry": "p"}
    place.start(**group, **sh(script, **keys), policies={"p": AT_ONCE})
    ended = {n: place.until(place.enqueue("work", n=n, path=place.path())) for n in (0, 3, 4, 75)}
    assert {n: (record.status, record.attempts) for n, record in ended.items()} == {
        0: ("finished", 1), 3: ("finished", 1), 4: ("failed", 1), 75: ("failed", 3),
    }  # fmt: skip
    error = json.loads(ended[4].error)
    assert (error["type"], error["message"]) == ("ProgramFailed", "sh exited with status 4: disk full")
    path = place.path()
    snoozed = place.enqueue("work", n=99, path=path)
    assert place.until_lines(path, 3)[:3] == ["1", "1", "1"], "no attempt is counted"
    place.cancel(snoozed)


def test_a_policy_without_names_retries_each_failure(place):
    """`standard` names exceptions, none of which a program raises; a policy without `retry_on` retries all."""
    each = RetryPolicy(max_attempts=2, delay=0.0, jitter_share=0.0)
    tasks = {**sh("exit 4", retry="p")["tasks"], "other": sh("exit 4", retry="standard")["tasks"]["work"]}
    place.start(tasks=tasks, policies={"p": each})
    assert place.until(place.enqueue("work")).attempts == 2
    assert place.until(place.enqueue("other")).attempts == 1


@EACH
def test_a_soft_timeout_asks_the_program_and_its_processes_to_end(place, group):
    """The whole group gets SIGTERM, and may use the time until the hard timeout; the job fails with TIMEOUT."""
    below = 'trap "echo term >> $1; exit" TERM; echo up >> $1; while :; do sleep 0.05; done'
    script = f"trap : TERM; sh -c '{below}' sh \"$1\" & wait; wait"
    place.start(**group, **sh(script, parameters=["path"], retry="single"))
    for soft in PATIENT:
        path = place.path()
        assert place.error(enqueue_for(place, soft, 60.0, path=path))["code"] == "TIMEOUT"
        if place.lines(path):
            break
    assert place.lines(path) == ["up", "term"]


@EACH
@pytest.mark.parametrize("how", ["hard timeout", "cancel", "kill of its child"])
def test_nothing_of_a_program_outlives_its_job(place, group, how):
    """It ignores SIGTERM, and has processes of its own, one of them in another session if its child ends with it."""
    away = "" if "executor" in group else "setsid sleep 1000 &"
    script = f'trap "" TERM; {away} sleep 1000 & echo "$$ $! $PPID" >> "$1"; sleep 1000'
    place.start(**group, **sh(script, parameters=["path"], timeout=Timeout(60.0, 70.0), retry="none"))
    for soft in PATIENT if how == "hard timeout" else (60.0,):
        path = place.path()
        id_ = enqueue_for(place, soft, soft + 0.3, path=path)
        if until(lambda: place.lines(path) or place.job(id_).status.ended, place.logs) is not True:  # noqa: B023
            break
    program, _, child = map(int, place.lines(path)[0].split())
    if how == "cancel":
        place.cancel(id_)
    elif how != "hard timeout":
        os.kill(child, signal.SIGKILL)
    record = place.until(id_)
    assert record.status == ("canceled" if how == "cancel" else "failed")
    until(lambda: not alive(program), place.logs)
    until(lambda: not any(b"sleep\0" in command(pid) for pid in place.processes()), place.logs)


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_program_that_a_signal_kills_is_a_crash(place):
    """As a function whose process dies: it is tried again as often as `max_crashes` says."""
    policy = RetryPolicy(max_attempts=1, delay=0.0, jitter_share=0.0, max_crashes=1)
    place.start(
        isolation="fork", **sh('echo x >> "$1"; kill -SEGV $$', parameters=["path"], retry="p"), policies={"p": policy}
    )
    path = place.path()
    error = place.error(place.enqueue("work", path=path))
    assert (error["code"], len(place.lines(path))) == ("WORKER_CRASHED", 2)
    assert "SIGSEGV" in error["message"]


@EACH
def test_a_program_that_leaves_its_output_open_does_not_hold_the_job(place, group):
    """A process in the background has the pipes; the job ends with the program, and that process too."""
    place.start(**group, **sh("sleep 1000 & echo $!; exec 2>&-", result="stdout"))
    left = int(place.result(place.enqueue("work")))
    until(lambda: not alive(left), place.logs)


def test_a_program_that_is_not_there_holds_its_jobs(place):
    """Another host may have it; the log says what to do."""
    script = place.app / "script"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    lost = place.app / "lost"
    lost.write_text("#!/no/shell\r\necho hello\n")
    lost.chmod(0o755)
    dull = place.app / "dull"
    dull.touch(0o644)
    tasks = {
        "missing": {"run": "", "command": ("no-such-program",)},
        "dull": {"run": "", "command": (str(dull),)},
        "headless": {"run": "", "command": (str(script),)},
        "lost": {"run": "", "command": (str(lost),)},
        "nowhere": {"run": "", "command": ("true",), "directory": "/no/such"},
    }
    program = place.start(tasks=tasks)
    for task in tasks:
        place.until(place.enqueue(task), "held")
    for words in ("install it", "chmod +x", "#!/bin/sh", "names '/no/shell", "the directory /no/such"):
        until(lambda words=words: words in program.text(), program.text)
    # found as the task is loaded: a group that found it at the start of a job would load the task again and again
    assert "can run again" not in program.text()


REFUSED = {
    "the parameter 'day' is missing": {},
    "no parameter 'other'": {"day": "2026", "other": 1},
    "does not match": {"day": "2026\n"},
    "neither text nor a number": {"day": [2026]},
    "begins with '-'": {"day": "-026"},
    "has a NUL": {"day": "20\x0026"},
    "more than 4096 bytes": {"day": "é" * 2049},
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_call_can_only_fill_placeholders(place, why):
    """Each value must match as a whole, in ASCII; a refused one is not in the message."""
    rules = {"day": Parameter(pattern=r"-?\d{3,4}")}
    place.start(tasks={"work": {"run": "", "command": ("echo", "$(day)"), "parameters": rules}})
    error = place.error(place.enqueue("work", **REFUSED[why]))
    assert error["code"] == "BAD_ARGUMENTS"
    assert why in error["message"]
    digits = place.error(place.enqueue("work", day="٢٠٢٦"))
    assert digits["code"] == "BAD_ARGUMENTS", "other digits are none"
    assert "by position" in place.error(place.enqueue("work", "2026"))["message"]


def test_standard_input_has_the_arguments_of_the_call(place):
    """All of them, a megabyte too, which nobody need read."""
    tasks = {
        "work": {"run": "", "command": ("cat",), "stdin": "arguments", "result": "stdout_json"},
        "deaf": {"run": "", "command": ("true",), "stdin": "arguments"},
    }
    place.start(tasks=tasks)
    assert place.result(place.enqueue("work", 1, "é", x=[None])) == {"args": [1, "é"], "kwargs": {"x": [None]}}
    assert place.result(place.enqueue("deaf", "x" * 1_000_000)) is None


def test_output_that_is_no_result(place):
    """JSON that is cut, or more than a result may have, fails the job."""
    script = 'if [ "$1" = long ]; then head -c 2000000 /dev/zero | tr "\\0" 1; else echo "{"; fi'
    place.start(**sh(script, parameters=["what"], result="stdout_json"))
    assert place.error(place.enqueue("work", what="short"))["code"] == "RESULT_NOT_SERIALIZABLE"
    assert place.error(place.enqueue("work", what="long"))["code"] == "RESULT_TOO_LARGE"


@pytest.mark.proof
@EACH
@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13", "3.14", "3.15"])
def test_commands_under_other_interpreters(place, version, group):
    """The group's interpreter runs the program."""
    python = pythons().get(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    place.start(python=python, **group, **sh('echo "$1"', parameters=["word"], result="stdout"))
    assert place.result(place.enqueue("work", word="hello")) == "hello\n"


def test_the_death_of_another_child_spares_a_program_and_its_processes(place):
    """One of them has lost its parent, and so belongs to the fork server; it is in the group of the program."""
    script = '(sleep 1000 & echo $! >> "$1"); echo $$ >> "$1"; cat "$2"'
    place.start(isolation="process", processes=2, **sh(script, parameters=["path", "gate"], retry="none"))
    path, gate = place.path(), place.path()
    os.mkfifo(gate)
    id_ = place.enqueue("work", path=path, gate=gate)
    helper, program = map(int, place.until_lines(path, 2))
    child = parent_of(program)
    other = next(pid for pid in place.processes() if parent_of(pid) == parent_of(child) and pid not in (child, helper))
    os.kill(other, signal.SIGKILL)
    until(lambda: not alive(other), place.logs)
    # the fork server has said that the child is dead, and so has looked for what it left
    until(lambda: len([pid for pid in place.processes() if parent_of(pid) == parent_of(child)]) >= 3, place.logs)
    assert alive(helper)
    Path(gate).write_text("go\n")
    assert place.until(id_).status == "finished"


def parent_of(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@EACH
def test_no_stop_during_the_start_leaves_a_program_behind(place, group):
    """A soft timeout of a few ms is over at any moment of the start, and so is a cancel."""
    place.start(**group, **sh("exec sleep 1000", timeout=Timeout(0.004, 20.0), retry="none"))
    for id_ in [place.enqueue("work") for _ in range(40)]:
        assert place.error(id_)["code"] == "TIMEOUT"
    until(lambda: not any(b"sleep\0" in command(pid) for pid in place.processes()), place.logs)


def test_programs_that_leave_nothing_take_turns_in_a_child_and_functions_do_not(place):
    """With `isolation: fork`: a function has a child that has run no other function."""
    tasks = {**sh("echo $PPID", result="stdout")["tasks"], "pid": {"run": "os.getpid"}}
    # One child that runs a job, and one that stands ready.
    place.start(processes=1, isolation="fork", tasks=tasks)
    first = {int(place.result(place.enqueue("work"))) for _ in range(8)}
    assert len(first) <= 2
    functions = [place.result(place.enqueue("pid")) for _ in range(4)]
    assert len({*functions}) == 4
    assert {*functions} & first, "the child of a program may run a function next"
    assert int(place.result(place.enqueue("work"))) not in functions


@pytest.mark.parametrize(
    "script", ["setsid sleep 1000 & echo $!", "dd if=/dev/zero of=/dev/null bs=64M count=1; echo 0"]
)
def test_a_program_that_leaves_something_has_had_its_child_for_itself(place, script):
    """Its processes are killed when the job ends; its memory would be taken for that of the next job."""
    place.start(processes=1, isolation="fork", **sh(script + "; echo $PPID", result="stdout"))
    results = [place.result(place.enqueue("work")).split() for _ in range(4)]
    assert len({child for _, child in results}) == 4
    for left, child in results:
        until(lambda left=left: left == "0" or not alive(int(left)), place.logs)
        until(lambda child=child: not alive(int(child)), place.logs)


def test_a_program_with_a_large_result_has_had_its_child_for_itself(place):
    """Its result has been in the child, whose memory would be taken for that of the next job."""
    large = 'printf "["; head -c 500000 /dev/zero | tr "\\0" 1 | sed s/1/1,/g; echo "$PPID]"'
    tasks = {**sh("echo $PPID", result="stdout")["tasks"], "large": sh(large, result="stdout_json")["tasks"]["work"]}
    place.start(processes=1, isolation="fork", tasks=tasks)
    grown = place.result(place.enqueue("large"))[-1]
    assert grown not in {int(place.result(place.enqueue("work"))) for _ in range(4)}


def test_what_a_child_prints_between_two_programs_is_of_no_job(place):
    """As before its first job."""
    program = place.start(isolation="fork", on_start="jobs.tick_from_start_on", **sh("echo $PPID", result="stdout"))
    id_ = place.enqueue("work")
    tick = f"tick of {place.result(id_).strip()}"

    def jobs():
        """Of each tick since the program has ended."""
        messages = [record["message"] for record in program.records()]
        last = len(messages) - 1 - messages[::-1].index("finished") if "finished" in messages else len(messages)
        return [record.get("job") for record in program.records()[last:] if record["message"] == tick]

    assert until(jobs, program.text)[-1] is None


@EACH
def test_a_process_that_writes_on_does_not_hold_the_job(place, group):
    """It is killed once the program has ended, before the last of the output is read."""
    # Long lines, since the dispatcher takes a short time over each.
    line = "y" * 1000
    place.start(**group, **sh(f"yes {line} & sleep 0.2; echo the end", result="stdout"))
    assert line in place.result(place.enqueue("work"))


@pytest.mark.parametrize("policy", ["ProgramFailed", "fusiond.ProgramFailed"])
def test_a_policy_can_name_the_failure_of_programs(place, policy):
    """As an exception; in a group of threads, where no signal can end the child, that of a signal is one, too."""
    named = RetryPolicy(max_attempts=2, delay=0.0, jitter_share=0.0, retry_on=(policy,))
    tasks = {**sh("exit 4", retry="p")["tasks"], "killed": sh("kill -PIPE $$", retry="standard")["tasks"]["work"]}
    place.start(executor="thread", concurrency=2, tasks=tasks, policies={"p": named, "standard": AT_ONCE})
    assert place.until(place.enqueue("work")).attempts == 2
    assert place.until(place.enqueue("killed")).attempts == 3
