"""Durations, sizes and shares."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.config import kinds, units


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90s", 90), ("10m", 600), ("1h30m", 5400), ("30d", 2592000), ("500ms", 0.5), ("1.5h", 5400), ("0s", 0),
        ("1d1h1m1s1ms", 90061.001),
    ],
)  # fmt: skip
def test_durations(text, value):
    """A duration is the sum of its parts, in seconds."""
    assert units.seconds(text) == value


@pytest.mark.parametrize("text", ["", "90", "90 s", "30m1h", "1h1h", "-1", "1S", "s", "1e3s", "22:30", "90s\n", "٣s"])
def test_what_is_no_duration_is_refused_with_a_remedy(text):
    """A bare number, a wrong order, a sign: none is guessed."""
    with pytest.raises(ValueError, match="such as 90s"):
        units.seconds(text)


@pytest.mark.parametrize(("text", "value"), [("512MiB", 2**29), ("2GB", 2 * 10**9), ("1.5KiB", 1536), ("7B", 7)])
def test_sizes(text, value):
    """Binary units are powers of 1024, decimal ones of 1000."""
    assert units.size_bytes(text) == value


@pytest.mark.parametrize("text", ["", "512", "512M", "512 MiB", "-1MiB", "512mib", "1MiB\n"])
def test_what_is_no_size_is_refused_with_a_remedy(text):
    """An ambiguous unit is not guessed."""
    with pytest.raises(ValueError, match="such as 512MiB"):
        units.size_bytes(text)


def test_shares():
    """A share is a percentage, at most all."""
    assert (units.share("25%"), units.share("0%"), units.share("100%"), units.share("12.5%")) == (0.25, 0, 1, 0.125)
    for text in ("101%", "100.1%", "25", "0.25"):
        with pytest.raises(ValueError, match="percentage"):
            units.share(text)


@given(st.text(alphabet="0123456789.dhmsKMiB%", max_size=12))
def test_the_schema_takes_what_the_code_can_read(text):
    """The patterns of the schema and of the code never disagree."""
    for kind in (kinds.SECONDS, kinds.BYTES):
        pattern = kind.schema["pattern"]
        try:
            kind.read(text)
            readable = True
        except ValueError:
            readable = False
        assert bool(re.search(pattern, text)) == readable
