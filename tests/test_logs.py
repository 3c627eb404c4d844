"""Logs: two formats, nothing that a line can forge, and never a caller that waits."""

import json
import logging
import os
import subprocess
import sys

import pytest

from fusiond import logs
from fusiond.config.model import Logging
from tests.support.running import until

log = logging.getLogger("fusiond.test_logs")


@pytest.fixture
def file(tmp_path):
    yield tmp_path / "log"
    logs.stop()


def setup(file, style="text", **more):
    logs.setup(Logging(file=str(file), format=style, level=more.pop("level", "info")), "worker:main@3", **more)


def lines(file):
    """All that was logged; ends the log."""
    logs.stop(30)
    return file.read_text().splitlines()


def written(file, text):
    """Waits until the file holds this."""
    until(lambda: file.exists() and text in file.read_text(), text)


def test_text_names_time_level_program_message_and_fields(file):
    """One line a record."""
    setup(file)
    log.info("done in %d s", 3, extra={"job": "abc", "task": "send otp"})
    (line,) = lines(file)
    assert line.endswith('INFO    worker:main@3  done in 3 s job=abc task="send otp"')
    assert line[10] == "T"
    assert line[23] == "Z"


def test_json_is_one_object_a_line(file):
    """The fields keep their types; what JSON cannot hold is its repr."""
    setup(file, "json")
    log.warning("late", extra={"job": "abc", "attempt": 2, "odd": {1, 2}.__class__})
    (line,) = lines(file)
    found = json.loads(line)
    assert (found["job"], found["attempt"], found["odd"]) == ("abc", 2, "<class 'set'>")
    assert (found["level"], found["program"], found["message"]) == ("warning", "worker:main@3", "late")


@pytest.mark.parametrize("style", ["text", "json"])
def test_what_is_logged_cannot_forge_a_line_or_drive_a_terminal(file, style):
    """Line ends, escapes, DEL, C1 and bidirectional controls come out escaped, in messages, fields and tracebacks."""
    setup(file, style)
    evil = "a\nb\r\x1b[31m\x7f\x9b\u2028\u202e"
    try:
        raise ValueError(evil)  # noqa: TRY301 - a traceback is the subject
    except ValueError:
        log.exception(evil, extra={"job": evil})
    logs.stop(30)
    raw = file.read_text()
    assert not {"\r", "\x1b", "\x7f", "\x9b", "\u2028", "\u202e"} & set(raw)
    assert len(raw.splitlines()) == 1 or all(line.startswith("    ") for line in raw.splitlines()[1:])
    if style == "json":
        assert json.loads(raw)["message"] == evil


def test_long_messages_and_fields_are_cut(file):
    """A job's megabyte does not become a line of a megabyte."""
    setup(file)
    log.info("m" * 100_000, extra={"job": "f" * 100_000})
    (line,) = lines(file)
    assert len(line) < logs.MESSAGE + logs.FIELD + 300
    assert "more characters" in line


def test_a_traceback_follows_its_line(file):
    """Indented, so that a reader sees where the next record begins."""
    setup(file)
    try:
        int("x")
    except ValueError:
        log.exception("failed")
    first, *rest = lines(file)
    assert "failed" in first
    assert all(line.startswith("    ") for line in rest)
    assert "invalid literal" in rest[-1]


def test_a_rotated_file_is_reopened(file, monkeypatch):
    """What logrotate moves away is left; the next lines go to a new file."""
    monkeypatch.setattr(logs, "ROTATED", 0.0)
    setup(file)
    log.info("before")
    written(file, "before")
    file.rename(file.with_suffix(".1"))
    log.info("after")
    assert [line.split()[-1] for line in lines(file)] == ["after"]


def test_a_pipe_that_nobody_reads_is_refused(tmp_path):
    """The opening of it would wait, and the start with it, without a word."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device or address"):
        setup(tmp_path / "pipe")


def test_a_log_that_is_full_is_told_on_stderr_once(capfd):
    """The lines are lost, and the program goes on."""
    output = logs.LogOutput("/dev/full", None, 0)
    for _ in range(2):
        output.write([(logging.INFO, b"lost\n")])
    output.close()
    said = capfd.readouterr().err
    assert said.splitlines() == ["fusiond: lines of the log are lost: /dev/full: No space left on device"]


def test_who_logs_never_waits_for_who_reads():
    """A full pipe: the lines beyond the queue are dropped, counted and reported, the program goes on."""
    script = (
        "import logging, sys, time\n"
        "from fusiond import logs\n"
        "from fusiond.config.model import Logging\n"
        "logs.setup(Logging(), 'p')\n"
        "began = time.monotonic()\n"
        "for n in range(30_000): logging.getLogger('fusiond').info('%d %s', n, 'x' * 100)\n"
        "print(time.monotonic() - began, logs._handler.dropped, file=sys.stderr, flush=True)\n"
        "sys.stdin.readline()\n"
        "logs.stop(30)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        seconds, dropped = process.stderr.readline().split()
        assert float(seconds) < 30
        assert int(dropped) >= 30_000 - logs.QUEUE - 5_000
        process.stdin.write("\n")
        process.stdin.flush()
        said = process.stdout.read()
    assert f"{dropped} log lines were dropped" in said


@pytest.mark.parametrize("style", ["text", "json"])
def test_the_journal_gets_levels_and_keeps_the_time_itself(tmp_path, style):
    """Each line of what is logged has the level in front, as sd-daemon(3) has it; the tail file is as ever."""
    code = f"""
import logging, os, pathlib, sys
from fusiond import logs
from fusiond.config.model import Logging
stat = os.fstat(1)
os.environ["JOURNAL_STREAM"] = f"{{stat.st_dev}}:{{stat.st_ino}}"
logs.setup(Logging(format={style!r}), "scheduler", pathlib.Path({str(tmp_path)!r}, "tail"))
log = logging.getLogger("fusiond.here")
log.info("begun")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
logs.stop()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    printed, tail = run.stdout.splitlines(), (tmp_path / "tail").read_text().splitlines()
    assert [line[:3] for line in printed] == ["<6>", *["<3>"] * (len(printed) - 1)]
    bare = [line[3:] for line in printed]
    if style == "text":
        assert bare[0] == "INFO    scheduler  begun"
        assert bare[1] == "ERROR   scheduler  failed"
        assert [line.partition("Z ")[2] for line in tail[:2]] == bare[:2]
        assert tail[2:] == bare[2:]
    else:
        assert bare == tail
