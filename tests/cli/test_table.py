import io
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.cli.terminal.colours import paint
from fusiond.cli.terminal.table import cut, fields, table
from fusiond.cli.terminal.text import span, when
from fusiond.config.problems import columns


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.25, "250ms"),
        (1, "1s"),
        (59.9, "59s"),
        (250, "4m 10s"),
        (7200, "2h"),
        (7201, "2h"),
        (273_600, "3d 4h"),
    ],
)
def test_a_span_is_in_its_two_largest_units(seconds, text):
    """A length of time is read at a glance, never `273600 seconds`."""
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("at", "text"), [(None, ""), (1_000_000, "now"), (820_000, "3m ago"), (1_005_000, "in 5s"), (1_000_400, "now")]
)
def test_a_moment_is_beside_now(at, text):
    """Times are `3m ago` or `in 5s`."""
    assert when(at, 1_000_000) == text


def test_columns_line_up_with_figures_to_the_right():
    """Each column is as wide as its widest cell, wide characters counted; nothing trails."""
    text = table(["NAME", "JOBS"], [["日本", 1234], ["b", 5]], right="jobs")
    assert text.split("\n") == ["NAME   JOBS", "日本  1,234", "b         5"]


def test_a_table_fits_the_terminal(monkeypatch):
    """Cells are cut between words, by columns and not by characters; the name is whole; a long last cell is below."""
    rows = [["queue/job-1", "日本語" * 20, "no stock of 14 things " * 3], ["b", "an ordinary call", "y"]]
    monkeypatch.setenv("COLUMNS", "40")
    lines = table(["NAME", "CALL", "ERROR"], rows).split("\n")
    assert all(columns(line) <= 40 for line in lines)
    assert [line.split()[0] for line in lines] == ["NAME", "ERROR", "queue/job-1", "no", "things", "b", "y"]
    assert lines[2].endswith("日…")
    monkeypatch.setenv("COLUMNS", "1")
    assert table(["NAME", "CALL", "ERROR"], rows)
    assert (cut("an ordinary call", 14), cut("an extraordinarily long call", 12)) == ("an ordinary…", "an extraord…")


def test_a_pipe_is_80_columns_wide_and_wide_has_all(desk, monkeypatch):
    """`--wide` is for who looks for a word in it."""
    monkeypatch.delenv("COLUMNS", raising=False)
    name = desk.enqueued("send", *["word" * 10] * 10)
    assert max(map(len, desk.fusiond("job", "list").out.splitlines())) <= 80
    [line] = [line for line in desk.fusiond("job", "list", "--wide").out.splitlines() if line.startswith(name)]
    assert "word" * 10 in line


@pytest.mark.parametrize(("locale", "sign"), [("C", "."), ("C.UTF-8", "·")])
def test_a_locale_without_utf8_gets_ascii(locale, sign):
    """Signs that it lacks are replaced, not escaped."""
    command = [sys.executable, "-m", "fusiond.cli", "--help"]
    done = subprocess.run(command, env={"LC_ALL": locale}, capture_output=True, check=True)
    assert f"0 success {sign} 1 problems" in done.stdout.decode()


@given(st.text())
def test_no_cell_can_steer_the_terminal(text):
    """What a job or another host wrote cannot move the cursor, colour the screen or begin a line."""
    shown = table(["A"], [[text]])
    assert "\x1b" not in shown
    assert shown.count("\n") == 1
    assert "\x1b" not in fields([("a", text)])


def _painted(screen, monkeypatch):
    monkeypatch.setattr(sys, "stdout", screen)
    return paint("x", "red")


def test_colour_is_for_a_terminal_alone(monkeypatch):
    """Colour on a terminal; none in a pipe, under NO_COLOR or on a dumb terminal."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert _painted(Terminal(), monkeypatch) == "\x1b[31mx\x1b[0m"
    assert _painted(io.StringIO(), monkeypatch) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert _painted(Terminal(), monkeypatch) == "x"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert _painted(Terminal(), monkeypatch) == "x"
