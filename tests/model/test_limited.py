"""Limits, walked through in every order: with all protections, and without each."""

from pathlib import Path

import pytest

from tests.model import limited_cases as cases
from tests.model.__main__ import count, way
from tests.model.limited_states import Guards

#: each takes some seconds: `python -m tests.model` walks them
LONG = ("three jobs of a key, a reply that is lost, too", "two places, four jobs")
PAGE = (Path(__file__).parents[2] / "docs" / "proofs" / "model.md").read_text()


@pytest.mark.parametrize("scope", [scope for scope in cases.SCOPES if scope not in LONG])
def test_every_promise_of_limits_is_kept_in_every_state(scope):
    """And all jobs can still end, wherever they stand."""
    found = cases.whole(cases.SCOPES[scope])
    print(f"{scope}: {count(found)}")
    assert not found.harm, "\n".join([found.harm, *way(found)])
    assert f"| {scope} | {found.states:,} |" in PAGE


@pytest.mark.parametrize("protection", cases.HARMS)
def test_without_a_protection_of_limits_harm_is_found(protection):
    """Each of the protections is needed, and each of the promises can be seen broken."""
    found = cases.without(protection)
    print(f"without {protection}: {count(found)}", *way(found), sep="\n")
    assert found.harm == cases.HARMS[protection][0]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{protection}` |"))
    assert row.endswith(f" | {found.harm} | {len(way(found))} |")


def test_each_promise_and_each_protection_of_limits_has_its_case():
    """None is there for show."""
    assert {promise for promise, _ in cases.HARMS.values()} == set(cases.PROMISES)
    assert set(cases.HARMS) == set(Guards.__dataclass_fields__)
