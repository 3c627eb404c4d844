"""The files that keep what jobs have printed."""

import errno
import os
import time

import pytest

from fusiond.kept_output import segments
from fusiond.kept_output.segments import ENTRY, START, Piece, SegmentWriter, pieces_behind, text_of, tidy

DAY = 86_400
PLENTY = 1 << 40


@pytest.fixture
def writer(tmp_path):
    made = SegmentWriter(tmp_path / "output")
    yield made
    made.close()


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "output"


def texts(directory, id_, after=START, attempt=None):
    """What is kept of a job, and where it ends."""
    found = pieces_behind(directory, id_, after, attempt)
    return [text_of(directory, piece) for piece in found], (found or [after])[-1]


def test_a_job_gets_what_it_has_printed(writer, directory):
    """In order, behind what was read before; of one attempt or queue alone, if asked; nothing of another job."""
    writer.write(
        [Piece("q", b"a", 1, DAY, b"one\n"), Piece("q", b"b", 1, DAY, b"other\n"), Piece("q", b"a", 1, DAY, b"two\n")],
        PLENTY,
    )
    found, last = texts(directory, b"a")
    assert found == [b"one\n", b"two\n"]
    writer.write([Piece("q", b"a", 2, DAY, b"three\n")], PLENTY)
    assert texts(directory, b"a", last)[0] == [b"three\n"]
    assert texts(directory, b"a", attempt=2)[0] == [b"three\n"]
    assert texts(directory, b"none")[0] == []
    writer.write([Piece("other", b"a", 2, DAY, b"moved\n")], PLENTY)
    of_queue = pieces_behind(directory, b"a", START, queue="other")
    assert [text_of(directory, piece) for piece in of_queue] == [b"moved\n"]
    assert directory.stat().st_mode & 0o777 == 0o700


def test_each_piece_is_deleted_when_its_time_is_over(writer, directory, monkeypatch):
    """Pieces that are kept for other times do not delay that."""
    writer.write([Piece("q", b"a", 1, 600, b"short\n"), Piece("q", b"a", 1, 3 * DAY, b"long\n")], PLENTY)
    tidy(directory, PLENTY)
    assert len(texts(directory, b"a")[0]) == 2
    now = time.time()
    monkeypatch.setattr(segments.time, "time", lambda: now + 3 * 3600)
    tidy(directory, PLENTY)
    assert texts(directory, b"a")[0] == [b"long\n"]


def test_the_oldest_segments_go_when_there_is_too_much(writer, directory):
    """A segment is closed when it is large, so that what is left is close to the limit. Many may be of one moment."""
    most = 64 * 1000
    for number in range(200):
        writer.write([Piece("q", b"a", number, DAY, b"x" * 999 + b"\n")], most)
    for path in directory.iterdir():
        os.utime(path, (DAY, DAY))  # the clock of files may tick only each 4 ms
    tidy(directory, most)
    size = sum(path.stat().st_size for path in directory.iterdir())
    assert 0.9 * most < size <= most
    assert pieces_behind(directory, b"a", START)[-1].attempt == 199


def test_a_full_disk_breaks_no_later_piece(writer, directory, monkeypatch):
    """The segment that has a part of a piece gets no further one."""
    writer.write([Piece("q", b"a", 1, DAY, b"before\n")], PLENTY)

    def full(fd, _):
        os.write(fd, b"part")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(segments, "_write", full)
        with pytest.raises(OSError, match="No space left"):
            writer.write([Piece("q", b"a", 1, DAY, b"lost\n")], PLENTY)
    writer.write([Piece("q", b"a", 1, DAY, b"behind\n")], PLENTY)
    assert texts(directory, b"a")[0] == [b"before\n", b"behind\n"]


def test_what_a_killed_writer_has_left_is_read_up_to_there(writer, directory):
    """The last entry may be cut."""
    writer.write([Piece("q", b"a", 1, DAY, b"one\n"), Piece("q", b"a", 1, DAY, b"two\n")], PLENTY)
    [index] = directory.glob("*.index")
    os.truncate(index, ENTRY.size + 17)
    assert texts(directory, b"a")[0] == [b"one\n"]
