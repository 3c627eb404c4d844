"""How values look."""

from types import SimpleNamespace

from fusiond.web.filters import chart, linked, marked, number, span, spark


def test_numbers_and_times_are_short():
    """Three figures are enough for a person."""
    assert [number(value) for value in (0, 12, 1234, 123456, 12_000_000, 12.02, 0.103, 1234.5)] == [
        "0", "12", "1,234", "123.5k", "12M", "12", "0.103", "1,234",
    ]  # fmt: skip
    assert [span(value) for value in (0.0123, 12.34, 90, 600, 7500, 300_000)] == [
        "12 ms", "12.3 s", "90 s", "10 min", "2 h 5 min", "3 d",
    ]  # fmt: skip


def test_lines_and_bars_are_within_their_picture():
    """Whatever the numbers are; a single value is not a line."""
    assert spark([1], "x") == ""
    assert "nan" not in spark([0, 0, 0], "x")
    minutes = [SimpleNamespace(at=60_000 * n, finished=n % 3, failed=n % 2) for n in range(4)]
    picture = chart(minutes, 'a "b"')
    assert picture.count("<rect") == 4
    assert "&#34;b&#34;" in picture
    assert 'data-at="60000"' in picture
    assert chart([], "none").count("<rect") == 0
    mark = SimpleNamespace(at=90_000, event="rollback", message="<b>")
    picture = chart(minutes, "x", [mark])
    assert 'x1="15.0"' in picture
    assert "rollback: &lt;b&gt;</title>" in picture


def test_text_of_others_is_escaped():
    """In addresses and marks."""
    assert linked("/jobs", queue="a&b", text="") == "/jobs?queue=a%26b"
    assert marked("<b>x", "<b>") == "<mark>&lt;b&gt;</mark>x"
