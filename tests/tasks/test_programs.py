"""`echo` and `command`, with real programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from fusiond.tasks import CommandFailed, command, echo
from fusiond.tasks.programs import KEPT


def test_echo_prints_and_returns_what_it_is_given(capsys):
    """A first job shows its arguments in the log and in its result."""
    assert echo("a", 1, name="Zoë") == {"args": ["a", 1], "kwargs": {"name": "Zoë"}}
    assert capsys.readouterr().out == "a 1 name='Zoë'\n"


def test_a_command_returns_its_output_and_logs_it(capfd):
    """What a program prints goes to the log and into the result, each stream apart."""
    found = command(["sh", "-c", "echo to out; echo to err >&2"])
    assert found == {"exit_status": 0, "stdout": "to out\n", "stderr": "to err\n"}
    out, err = capfd.readouterr()
    assert (out, err) == ("to out\n", "to err\n")


def test_no_shell_reads_the_arguments():
    """A word with a blank, a star or a semicolon reaches the program as it is."""
    words = ["a b", "*", "; echo no", "$HOME", ""]
    found = command([sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *words])
    assert json.loads(found["stdout"]) == words


@pytest.mark.parametrize("argv", ["ls -l", [], ["ls", 1], None])
def test_argv_that_is_no_list_of_strings_is_a_type_error(argv):
    """A command line in one string is refused with the remedy."""
    with pytest.raises(TypeError, match="list of strings"):
        command(argv)


def test_input_environment_and_directory(tmp_path, monkeypatch):
    """The program reads `input`, sees `env` on top of the job's own, and starts in `cwd`."""
    monkeypatch.setenv("OWN", "mine")
    script = 'read line; echo "$line $OWN $EXTRA $(pwd -P)"'
    found = command(["sh", "-c", script], input="hello\n", env={"EXTRA": "more"}, cwd=str(tmp_path))
    assert found["stdout"] == f"hello mine more {tmp_path.resolve()}\n"
    assert command(["cat"])["stdout"] == "", "without input, standard input is empty"


def test_much_input_and_output_at_once_does_not_block():
    """A megabyte goes in while it comes out; the result holds the end of it, cut."""
    text = "".join(f"{n:07}\n" for n in range(200_000))
    found = command(["cat"], input=text)
    assert found["stdout"] == text[-KEPT:]
    assert command(["true"], input=text)["exit_status"] == 0, "a program need not read its input"


def test_output_comes_as_it_is_written_not_at_the_end(tmp_path):
    """The log of a long program shows how far it is: here it goes on only after its first line was read."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    task = f"from fusiond.tasks import command; command(['sh', '-c', 'echo first; cat {gate}'])"
    with subprocess.Popen([sys.executable, "-c", task], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "first\n"
        gate.write_text("second\n")
        assert process.stdout.readline() == "second\n"
        assert process.wait() == 0


def test_output_that_is_cut_inside_a_character_is_whole_in_the_log(capfd):
    """A character of two bytes that comes in two pieces is one character."""
    script = "import os, time; os.write(1, b'\\xc3'); time.sleep(0.05); os.write(1, b'\\xab\\xff\\n')"
    assert command([sys.executable, "-c", script])["stdout"] == "ë�\n"
    assert capfd.readouterr().out == "ë�\n"


def test_another_exit_status_is_an_error_that_says_so():
    """The message has the program, the status and its last line."""
    with pytest.raises(CommandFailed, match="sh exited with status 3: disk full") as caught:
        command(["sh", "-c", "echo one >&2; echo disk full >&2; exit 3"])
    assert caught.value.exit_status == 3
    assert caught.value.stderr == "one\ndisk full\n"
    with pytest.raises(CommandFailed, match="killed by signal 9"):
        command(["sh", "-c", "kill -9 $$"])


def test_a_program_that_does_not_exist_is_an_os_error():
    """The name is in the message."""
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        command(["no-such-program"])


def test_timeout_kills_the_program(tmp_path):
    """After `timeout` the program is gone and the job fails with a TimeoutError, which the standard policy retries."""
    pid_file = tmp_path / "pid"
    with pytest.raises(TimeoutError, match=r"0\.3 s"):
        command(["sh", "-c", f"echo $$ > {pid_file}; exec sleep 60"], timeout=0.3)
    assert not alive(int(pid_file.read_text()))


def test_an_exception_in_the_task_kills_the_program(tmp_path):
    """A soft timeout, which is no Exception, takes the program along."""
    pid_file = tmp_path / "pid"

    class Soft(BaseException):
        pass

    def on_alarm(*_):
        raise Soft

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Soft):
            command(["sh", "-c", f"echo $$ > {pid_file}; exec sleep 60"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not alive(int(pid_file.read_text()))


def test_what_a_program_leaves_behind_does_not_hold_the_job():
    """A background process that keeps the pipes open does not keep the job from ending; nor is it started elsewhere."""
    began = time.monotonic()
    found = command(["sh", "-c", "sleep 20 & echo $! $(ps -o pgid= -p $$)"])
    assert time.monotonic() - began < 10
    pid, group = map(int, found["stdout"].split())
    assert group == os.getpgrp(), "the program is in the job's process group, and so dies with it"
    os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
