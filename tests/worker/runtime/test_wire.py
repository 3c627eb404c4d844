"""What dispatcher and child share: frames in any cut, hostile bytes, and the page's agreement on what may begin."""

import contextlib
import mmap
import os
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.worker.pool.child_socket import ChildSocket
from fusiond.worker.runtime import wire

BYTES = st.binary(max_size=200)
JOBS = st.builds(
    wire.JobMessage,
    serial=st.integers(0, 2**64 - 1),
    attempt=st.integers(0, 2**32 - 1),
    id=BYTES,
    task=BYTES,
    header=BYTES,
    args=BYTES,
)
OUTCOMES = st.builds(
    wire.OutcomeMessage,
    serial=st.integers(0, 2**64 - 1),
    kind=st.sampled_from([wire.FINISHED, wire.FAILED, wire.RETURNED, wire.UNLOADED]),
    follows=st.integers(wire.GIVE_UP, wire.SNOOZE),
    duration=st.floats(0, 1e8),
    payload=BYTES,
)


def parts(data, cuts):
    """The bytes, cut at these places."""
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


@given(st.lists(JOBS, max_size=6))
def test_jobs_come_out_as_they_went_in(jobs):
    """A JOBS body says what was put into it, in its order."""
    frame = wire.jobs_frame(jobs)
    kind, start, end = wire.cut(frame, 0)
    assert (kind, end) == (wire.JOBS, len(frame))
    assert list(wire.read_jobs(frame[start:end])) == jobs


@given(JOBS)
def test_the_only_job_of_a_child_comes_out_as_it_went_in(job):
    """A one-job child reads it as one; in a frame of many, or in a part of its own, it leaves it to its slow way."""
    frame = wire.lone_frame(job)
    kind, start, end = wire.cut(frame, 0)
    assert (kind, end) == (wire.LONE, len(frame))
    assert [*wire.read_jobs(frame[start:end])] == [job]
    assert wire.read_one_job(frame) == tuple(job)
    assert wire.read_one_job(frame[:-1]) is None
    assert wire.read_one_job(wire.jobs_frame([job])) is None


def heard(*parts):
    """The outcomes that a dispatcher hears of these parts of a stream, each received by itself."""
    ours, theirs = ChildSocket.pair(one_job=False)
    try:
        for part in parts:
            theirs.sendall(part)
            yield from ours.outcomes()
    finally:
        ours.close()
        theirs.close()


@given(st.lists(st.lists(OUTCOMES, min_size=1, max_size=4), max_size=4), st.lists(st.integers(0, 3000)))
def test_a_stream_may_be_cut_anywhere(batches, cuts):
    """Outcomes come out whole and in order, however the stream is cut."""
    stream = b"".join(wire.outcomes_frame(batch) for batch in batches)
    assert list(heard(*parts(stream, cuts))) == [outcome for batch in batches for outcome in batch]


@given(st.lists(OUTCOMES, min_size=1, max_size=3), st.data())
def test_a_cut_body_is_refused_or_shorter(batch, data):
    """A body that ends too early gives a WireError, never an outcome that was not sent."""
    body = wire.outcomes_frame(batch)[5:]
    short = body[: data.draw(st.integers(0, len(body) - 1))]
    found = []
    try:
        found.extend(wire.read_outcomes(short))
    except wire.WireError:
        return
    assert found == batch[: len(found)]
    assert len(found) < len(batch)


@given(st.binary(max_size=400))
def test_hostile_bytes_raise_nothing_else(data):
    """Whatever a child sends is outcomes or a WireError."""
    with contextlib.suppress(wire.WireError):
        list(heard(data))


def test_a_frame_above_the_limit_is_refused_before_it_is_there():
    """Its length is enough; nothing is gathered for it."""
    with pytest.raises(wire.WireError, match="above"):
        list(heard(b"O" + (wire.MAX_FRAME + 1).to_bytes(4, "little")))


@pytest.mark.parametrize(
    ("duration", "payload", "cpu"),
    [
        *((duration, 0, 0.0) for duration in (float("nan"), float("inf"), -1.0, 1e12)),
        *((0.0, 0, cpu) for cpu in (float("nan"), float("inf"), -2.0, 1e12)),
        (0.0, wire.MAX_PAYLOAD + 1, 0.0),
    ],
)
def test_an_outcome_that_no_child_of_ours_would_send_is_refused(duration, payload, cpu):
    """A duration that is none would spoil what is known of run times; a child bounds its results itself."""
    body = wire.outcomes_frame([wire.OutcomeMessage(1, wire.FINISHED, False, duration, bytes(payload), cpu)])[5:]
    with pytest.raises(wire.WireError):
        list(wire.read_outcomes(body))


# -- the page ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def pages():
    """The page of one slot, mapped by both sides."""
    fd = os.memfd_create("page")
    os.ftruncate(fd, size := wire.page_bytes(1))
    both = wire.Page(mmap.mmap(fd, size)), wire.Page(mmap.mmap(fd, size))
    os.close(fd)
    yield both
    for page in both:
        page.close()


def test_a_job_begins_only_while_it_may(pages):
    """Before its deadline; not at it, not after it, not once it is taken back, and not without leave."""
    ours, theirs = pages
    ours.allow(7, wire.boot_ns() + 10**12)
    assert theirs.begin(7, 1)
    ours.allow(7, wire.boot_ns())
    assert not theirs.begin(7, 1)
    ours.allow(7, 0)
    assert not theirs.begin(7, 1)
    assert not theirs.begin(8, 1)


def test_outcomes_are_kept_until_they_are_sent(pages):
    """Whole ones, as many as fit between the ring and the cell; the other side finds each, and none that was sent."""
    ours, theirs = pages
    serial = 0
    while theirs.keep(wire.outcome_record(wire.OutcomeMessage(serial + 1, wire.FINISHED, 0, 0.5, b"null"))):
        serial += 1
    assert serial >= 50
    assert [each.serial for each in wire.read_outcomes(ours.kept())] == list(range(1, serial + 1))
    assert theirs.read_report(0) is None
    theirs.forget_kept()
    assert ours.kept() == b""
    ours.words[5] = 2**63
    assert len(ours.kept()) < 4096


@given(st.sets(st.integers(1, 2**60), max_size=20), st.integers(0, 2**60))
def test_leave_is_given_to_one_serial(serials, other):
    """Neighbours in the ring do not get each other's leave."""
    one = wire.Page(bytearray(wire.page_bytes(1)))
    taken = {serial % one.ring for serial in serials}
    for serial in serials:
        one.allow(serial, 100)
    if other % one.ring not in taken:
        assert not one.begin(other, 1)
    one.close()


@pytest.mark.parametrize("concurrency", [1, 2, 50, 1000])
def test_the_ring_fits_the_page(concurrency):
    """And holds what a child may have and not have begun, so that no job's word is another's while both are out."""
    from fusiond.worker.pool.run_times import DEPTH

    size = wire.page_bytes(concurrency)
    page = wire.Page(bytearray(size))
    assert 8 * (8 + page.ring) <= size
    assert page.ring >= concurrency + 2 * max(DEPTH, concurrency)
    for serial in range(page.ring):
        page.allow(serial, 2**64 - 1)
    assert not any(map(page.read_report, range(concurrency)))
    for cell in range(concurrency):
        page.report(cell, cell + 1, 1.0, "x" * 222)
    assert {page.words[8 + at] for at in range(page.ring)} == {2**64 - 1}
    page.close()


@given(st.lists(st.tuples(st.floats(0, 1), st.text()), max_size=20))
def test_reports_come_as_they_were_said(said):
    """Each in a cell of its own; a long message is cut, and a surrogate is replaced."""
    page = wire.Page(bytearray(wire.page_bytes(20)))
    for cell, (share, message) in enumerate(said):
        page.report(cell, 100 + cell, share, message)
    for cell, (share, message) in enumerate(said):
        found = page.read_report(cell)
        assert (found.serial, found.share) == (100 + cell, share)
        raw, read = message.encode(errors="replace"), found.message.encode()
        assert raw.startswith(read)
        assert len(read) >= min(len(raw), 219)
    page.close()


@pytest.mark.parametrize(
    "cell",
    [
        wire._CELL.pack(7, 1, 0.5, 3, b"one", 8),
        wire._CELL.pack(7, 1, float("nan"), 3, b"one", 7),
        wire._CELL.pack(7, 1, 1.5, 3, b"one", 7),
        wire._CELL.pack(0, 1, 0.5, 3, b"one", 0),
    ],
)
def test_a_cell_that_cannot_be_read_says_nothing(cell):
    """The child is writing it, or task code has."""
    page = wire.Page(bytearray(wire.page_bytes(1)))
    memoryview(page.words).cast("B")[-256:] = cell
    assert page.read_report(0) is None
    page.close()
