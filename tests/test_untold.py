"""Events that are not in Redis yet, in the state directory."""

from fusiond import untold
from fusiond.untold import UntoldEvents


def test_they_are_told_in_their_order(tmp_path):
    """Whoever puts them, and whoever takes them."""
    one, other = UntoldEvents(tmp_path), UntoldEvents(tmp_path)
    assert other.take() is None
    for number in range(3):
        assert [one, other][number % 2].put({"number": number})
    for number in range(3):
        name, said = other.take()
        assert said == {"number": number}
        assert UntoldEvents(tmp_path).take() == (name, said)
        assert 0 <= other.age_ms(name) < 3_600_000
        other.drop(name)
    assert one.take() is None
    one.drop("gone already")


def test_the_oldest_go(tmp_path, monkeypatch):
    """A Redis that is away for long does not fill the disk."""
    monkeypatch.setattr(untold, "_MOST", 3)
    events = UntoldEvents(tmp_path)
    for number in range(9):
        events.put({"number": number})
    assert events.take()[1] == {"number": 6}


def test_what_cannot_be_read_is_passed_over(tmp_path):
    """Half a file, of a power cut; something else; nested too deep."""
    directory = tmp_path / "untold-events"
    events = UntoldEvents(tmp_path)
    events.put({"good": 1})
    for name, text in (("00", '{"half":'), ("01", "[]"), ("001", "[" * 100_000), ("0", "\0")):
        (directory / name).write_text(text)
    assert events.take()[1] == {"good": 1}
    assert len([*directory.iterdir()]) == 1


def test_a_place_that_cannot_be_written_is_said(tmp_path, caplog):
    """Such as a file in its way, or a full disk; then the caller keeps it."""
    (tmp_path / "untold-events").write_text("")
    events = UntoldEvents(tmp_path)
    assert not events.put({})
    assert events.take() is None
    events.drop("x")
    assert "an event is kept in memory only" in caplog.text
