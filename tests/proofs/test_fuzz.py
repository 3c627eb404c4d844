"""A slice of each target of tests/fuzz; `python -m tests.fuzz` runs as much as one likes."""

import importlib

import pytest

from tests.fuzz import meter
from tests.fuzz.__main__ import TARGETS
from tests.fuzz.run import Target, fuzz

#: s; at least one round of each, from its daemon's start; and what it is drawn from, the same each time
SLICE, SEED = 2.0, 1


@pytest.mark.parametrize("name", TARGETS)
def test_a_slice_of_what_nobody_meant(name, capsys):
    """No process of the daemon ends, hangs or grows, and each good job has its own result."""
    kind = importlib.import_module(f"tests.fuzz.{name}").Fuzz
    assert fuzz(kind, SLICE, SEED) == [], capsys.readouterr().out


class Broken(Target):
    """A target whose daemon is this or that."""

    class ground:  # noqa: N801 - stands for one
        start_up = close = staticmethod(lambda: None)
        text = staticmethod(lambda: "")
        lasting = staticmethod(dict)
        keys = staticmethod(iter(range(0, 10_000, 100)).__next__)

    def round(self):
        return


def test_the_run_notices_growth_and_what_is_raised():
    """Keys that grow, and a broken promise: what cannot fail proves nothing."""

    class Raises(Broken):
        def round(self):
            raise AssertionError("planted")

    assert any("keys" in line for line in _fuzz_quickly(Broken))
    assert any("planted" in line for line in _fuzz_quickly(Raises))


def _fuzz_quickly(kind):
    patience, meter.SETTLE = meter.SETTLE, 0.0
    try:
        return fuzz(kind, 0.0, 1, say=lambda _line: None)
    finally:
        meter.SETTLE = patience
