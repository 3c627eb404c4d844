import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.cli.terminal.colours import paint
from fusiond.cli.terminal.table import fields, table
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
    """The widest cell is cut, by columns and not by characters; the first column keeps its names; a pipe has it all."""
    rows = [["queue/job-1", "日本語" * 20, "x" * 50], ["b", "short", "y"]]
    whole = table(["NAME", "CALL", "ERROR"], rows)
    assert "日本語" * 20 in whole
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    lines = table(["NAME", "CALL", "ERROR"], rows).split("\n")
    assert all(columns(line) <= 40 for line in lines)
    assert lines[1].startswith("queue/job-1  日")
    assert lines[1].count("…") == 2
    monkeypatch.setenv("COLUMNS", "200")
    assert table(["NAME", "CALL", "ERROR"], rows) == whole


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
