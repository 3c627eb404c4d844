"""Claim, renew, settle and rescue, walked through in every order: with all protections, and without each."""

from pathlib import Path

import pytest

from tests.model import cases
from tests.model.__main__ import count, main, way

pytestmark = pytest.mark.timeout(600)
#: each takes a third of a minute: `python -m tests.model` walks them
LONG = ("one job that is enqueued, a fault of any kind", "one job, a fault of any kind, a loss")
#: what it says was found is what is found
PAGE = (Path(__file__).parents[2] / "docs" / "proofs" / "model.md").read_text()


@pytest.mark.parametrize("scope", [scope for scope in cases.SCOPES if scope not in LONG])
def test_every_promise_is_kept_in_every_state(scope):
    """At most one end for each job, and all else that promises.py says; each job can still end, wherever it stands."""
    found = cases.whole(cases.SCOPES[scope])
    print(f"{scope}: {count(found)}")
    assert not found.harm, "\n".join([found.harm, *way(found)])
    assert f"| {scope} | {found.states:,} |" in PAGE


@pytest.mark.parametrize("protection", cases.HARMS)
def test_without_a_protection_harm_is_found(protection):
    """Each of the protections is needed, and each of the promises can be seen broken."""
    found = cases.without(protection)
    print(f"without {protection}: {count(found)}", *way(found), sep="\n")
    assert found.harm == cases.HARMS[protection][0]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{protection}` |"))
    assert row.endswith(f" | {found.harm} | {len(way(found))} |")


def test_each_promise_and_each_protection_has_its_case():
    """None is there for show."""
    watched = {promise for promise, _ in cases.HARMS.values()}
    assert watched == {*cases.promises.PROMISES, cases.STUCK}
    assert set(cases.HARMS) == set(cases.Rules.__dataclass_fields__)


def test_a_way_to_harm_can_be_read(capsys):
    """Who does what, and where the job is after it."""
    assert main(["fence"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("without fence: ")
    assert lines[0].endswith("broken: a job ends once")
    assert "\n".join(lines[1:-1]) in PAGE
