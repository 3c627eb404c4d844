"""Logs: two formats, nothing that a line can forge, and never a caller that waits."""

import json
import logging
import os
import subprocess
import sys
import time

import pytest

from fusiond import logs
from fusiond.config.model import Logging
from tests.support.running import PATIENCE, until

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


def test_the_level_changes_in_place(file):
    """`set_level` is enough; libraries below warning stay silent."""
    setup(file)
    log.debug("no")
    logging.getLogger("some.library").info("no")
    logs.set_level("debug")
    log.debug("yes")
    logging.getLogger("some.library").warning("too")
    assert [line.split()[-1] for line in lines(file)] == ["yes", "too"]


def test_a_rotated_file_is_opened_anew(file, monkeypatch):
    """What logrotate moves away is left; the next lines go to a new file."""
    monkeypatch.setattr(logs, "ROTATED", 0.0)
    setup(file)
    log.info("before")
    written(file, "before")
    file.rename(file.with_suffix(".1"))
    log.info("after")
    assert [line.split()[-1] for line in lines(file)] == ["after"]


def test_lines_go_on_where_no_new_file_can_be_opened(file, monkeypatch):
    """Its directory was moved away: what is open is still good."""
    monkeypatch.setattr(logs, "ROTATED", 0.0)
    setup(file)
    log.info("before")
    written(file, "before")
    moved = file.parent.rename(file.parent.with_name("moved"))
    log.info("after")
    assert [line.split()[-1] for line in lines(moved / file.name)] == ["before", "after"]


def test_the_tail_keeps_the_last_lines_within_its_size(file, tmp_path):
    """At most TAIL bytes, at least half of them, the newest, whole lines."""
    tail = tmp_path / "tail" / "worker:main@3.log"
    setup(file, tail=tail)
    for number in range(5000):
        log.info("%06d %s", number, "x" * 100)
        if number % 1000 == 0:
            written(tail, f" {number:06d} ")
    logs.stop(30)
    text = tail.read_text()
    assert logs.TAIL // 4 < len(text) <= logs.TAIL
    assert " 004999 " in text.splitlines()[-1]
    assert "INFO" in text.splitlines()[0]
    assert oct(tail.stat().st_mode)[-3:] == "600"


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


def test_a_burst_is_written_without_a_rest(file, monkeypatch):
    """The writer rests only where nothing waits: rests between the parts of a burst would have its end dropped."""
    monkeypatch.setattr(logs, "GATHER", 1.0)
    setup(file)
    for number in range(5000):
        log.info("%d", number)
    assert len(lines(file)) == 5000


def test_a_closed_pipe_costs_lines_and_nothing_else(file):
    """The reader of standard output went away: the program logs on, into nothing."""
    read, write = os.pipe()
    script = (
        "import logging\nfrom fusiond import logs\nfrom fusiond.config.model import Logging\n"
        "logs.setup(Logging(), 'p')\nlogging.getLogger('fusiond').info('x')\nwriter = logs._handler._thread\n"
        "logs.stop(15)\nassert not writer.is_alive()"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=write)
    os.close(read)
    os.close(write)
    assert process.wait(PATIENCE) == 0


def test_logging_costs_its_caller_microseconds(file):
    """Far below a millisecond of its thread's processor time for a line."""
    setup(file, "json")
    began = time.thread_time()
    for number in range(2000):
        log.info("done", extra={"job": "abc", "attempt": number})
    assert (time.thread_time() - began) / 2000 < 0.001


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


def test_what_only_says_that_it_is_the_journal_gets_plain_lines(tmp_path):
    """The variable is inherited by programs whose output goes elsewhere."""
    code = "import logging; from fusiond import logs; from fusiond.config.model import Logging\n"
    code += "logs.setup(Logging(), 'x'); logging.getLogger('fusiond').info('begun'); logs.stop()"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "JOURNAL_STREAM": "9:12345"},
    )  # fmt: skip
    assert run.stdout[0] == "2"
