"""What a child prints, as lines under the right job."""

import os
import select

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.worker.pool.output import MAX_LINE, Output


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


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\n"), min_size=1, max_size=30), max_size=20),
    st.data(),
)
def test_lines_come_out_however_they_are_written(lines, data):
    """Cut anywhere between two reads, in the middle of a character too. (Empty ones are not lines of a log.)"""
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
    """Are shown, not lost, and nothing is raised. What only looks like a mark leaves the next lines to their job."""
    output.attempt = 7
    output.write(b"\xff\xfe\n\0zz\n\0\n\0fe\nword\n")
    output.drain()
    assert (output.told[:2], output.told[-1]) == ([7, "\\xff\\xfe"], "word")
    assert all(isinstance(line, str) for line in output.told[1:])


def test_a_full_pipe_is_bounded(output):
    """So is the time that a drain can take."""
    os.set_blocking(output.writer, False)
    total = 0
    while select.select([], [output.writer], [], 0)[1]:
        total += os.write(output.writer, b"y\n" * 512)
    assert 0 < total <= 1 << 16
    output.drain()
    assert len(output.told) == total / 2


@pytest.mark.parametrize("character", ["é", "€", "😀"])
def test_a_long_line_is_not_cut_within_a_character(output, character):
    """Whatever its length, the parts put together are the line; bytes that are no UTF-8 are cut as they come."""
    text = "a" + character * MAX_LINE
    for data in (text.encode() + b"\n", b"\xe2" * (2 * MAX_LINE) + b"\n"):
        for start in range(0, len(data), 4096):
            output.write(data[start : start + 4096])
            output.read()
        output.drain()
    # A byte that is not text is shown by four characters.
    assert max(map(len, output.told)) <= 4 * MAX_LINE
    assert "".join(output.told).startswith(text)
    assert "".join(output.told).removeprefix(text) == "\\xe2" * (2 * MAX_LINE)
