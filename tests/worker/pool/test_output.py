"""What a child prints, as lines under the right job."""

import os
import select
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.worker.pool.output import LINES, MAX_LINE, Output
from fusiond.worker.runtime.child import Child
from tests.support.running import until


class Heard(Output):
    """Keeps what it tells: whose a line is where that has changed, and lines as text."""

    def __init__(self):
        super().__init__(self.hear)
        self.told, self.attempts, self.whose = [], {serial: serial for serial in range(20)}, None

    def hear(self, attempt, line, _level, _fields):
        if attempt != self.whose:
            self.whose = attempt
            self.told.append(attempt)
        self.told.append(line)

    def write(self, data):
        os.write(self.writer, data)


@pytest.fixture
def output():
    output = Heard()
    yield output
    output.close()


def test_a_read_passes_on_so_many_lines(output):
    """However short they are; the next reads pass on the others, though nothing new was printed."""
    output.write(b"y\n" * 10 * LINES)
    output.read()
    assert len(output.told) == LINES
    reads = 1
    while output.has_lines:
        output.read()
        reads += 1
    assert (reads, len(output.told)) == (10, 10 * LINES)


def test_a_drain_passes_on_what_a_read_has_left(output):
    """All of it, and in order."""
    output.write(b"".join(b"%d\n" % n for n in range(3 * LINES)))
    output.read()
    output.write(b"end")
    output.drain()
    assert output.told == [*map(str, range(3 * LINES)), "end"]


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\n"), min_size=1, max_size=30), max_size=20),
    st.data(),
)
def test_lines_come_out_however_they_are_written(lines, data):
    """Cut anywhere between two reads, in the middle of a character too. (Empty ones are no lines of a log.)"""
    output = Heard()
    try:
        stream = "".join(f"{line}\n" for line in lines).encode()
        while stream:
            size = data.draw(st.integers(1, len(stream)))
            output.write(stream[:size])
            output.read()
            stream = stream[size:]
        output.drain()
        assert output.told == lines
    finally:
        output.close()


def test_bytes_that_are_no_text(output):
    """Are shown, not lost, and nothing is raised."""
    output.write(b"\xff\xfe\n\0zz\n\0\n")
    output.drain()
    assert output.told[0] == "\\xff\\xfe"
    assert all(isinstance(line, str) for line in output.told)


def test_a_line_without_an_end_is_cut(output):
    """Into pieces that a log can take; memory is bounded."""
    for _ in range(20):
        output.write(b"x" * 4096)
        output.read()
    output.drain()
    assert "".join(output.told) == "x" * 20 * 4096
    assert max(map(len, output.told)) <= MAX_LINE


def test_a_drain_does_not_follow_who_prints_on(output):
    """It takes what was there when it began."""
    output.write(b"1\n")
    output._on_line = lambda _, line, *_more: (output.told.append(line), output.write(b"again\n"))
    output.drain()
    assert output.told == ["1"]


def test_a_full_pipe_is_bounded(output):
    """So is the time that a drain can take."""
    os.set_blocking(output.writer, False)
    total = 0
    while select.select([], [output.writer], [], 0)[1]:
        total += os.write(output.writer, b"y\n" * 512)
    assert 0 < total <= 1 << 16
    output.drain()
    assert len(output.told) == total / 2


def test_a_mark_waits_for_room(output):
    """Also in a full pipe that a neighbour in the batch has made non-blocking."""
    os.set_blocking(output.writer, False)
    while select.select([], [output.writer], [], 0)[1]:
        os.write(output.writer, b"y\n" * 512)
    child = Child(None, None)
    child.out = output.writer
    marking = threading.Thread(target=child._mark, args=[7])
    marking.start()
    until(lambda: os.get_blocking(output.writer) or not marking.is_alive())
    output.drain()
    marking.join()
    output.drain()
    assert output.attempt == 7


@pytest.mark.parametrize("character", ["é", "€", "😀"])
def test_a_long_line_is_not_cut_within_a_character(output, character):
    """Whatever its length, the parts put together are the line; bytes that are no UTF-8 are cut as they come."""
    text = "a" + character * MAX_LINE
    for data in (text.encode() + b"\n", b"\xe2" * (2 * MAX_LINE) + b"\n"):
        for start in range(0, len(data), 4096):
            output.write(data[start : start + 4096])
            output.read()
        output.drain()
    assert "".join(output.told).startswith(text)
    assert "".join(output.told).removeprefix(text) == "\\xe2" * (2 * MAX_LINE)
