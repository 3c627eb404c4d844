"""Attempts, and limits, walked through in every order: with all protections, and without each."""

from pathlib import Path

import pytest

from tests.model import cases, limited_cases
from tests.model.__main__ import PARTS, count, main, way
from tests.model.limited_states import Guards

pytestmark = pytest.mark.timeout(600)
#: each takes seconds, up to a third of a minute: `python -m tests.model` walks them
LONG = (
    "one job that is enqueued, a fault of any kind",
    "one job, a fault of any kind, a loss",
    "three jobs of a key, a reply that is lost, too",
    "two places, four jobs",
)
#: what it says was found is what is found
PAGE = (Path(__file__).parents[2] / "docs" / "proofs" / "model.md").read_text()


@pytest.mark.parametrize(
    ("part", "scope"), [(part, scope) for part in PARTS for scope in part.SCOPES if scope not in LONG]
)
def test_every_promise_is_kept_in_every_state(part, scope):
    """At most one end for each job, and all else that is promised; each job can still end, wherever it stands."""
    found = part.whole(part.SCOPES[scope])
    print(f"{scope}: {count(found)}")
    assert not found.harm, "\n".join([found.harm, *way(found)])
    assert f"| {scope} | {found.states:,} |" in PAGE


@pytest.mark.parametrize(("part", "protection"), [(part, each) for part in PARTS for each in part.HARMS])
def test_without_a_protection_harm_is_found(part, protection):
    """Each of the protections is needed, and each of the promises can be seen broken."""
    found = part.without(protection)
    print(f"without {protection}: {count(found)}", *way(found), sep="\n")
    assert found.harm == part.HARMS[protection][0]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{protection}` |"))
    assert row.endswith(f" | {found.harm} | {len(way(found))} |")


def test_each_promise_and_each_protection_has_its_case():
    """None is there for show."""
    assert _watched(cases) == {*cases.promises.PROMISES, cases.STUCK}
    assert set(cases.HARMS) == set(cases.Rules.__dataclass_fields__)
    assert _watched(limited_cases) == set(limited_cases.PROMISES)
    assert set(limited_cases.HARMS) == set(Guards.__dataclass_fields__)


def _watched(part):
    return {promise for promise, _ in part.HARMS.values()}


def test_a_way_to_harm_can_be_read(capsys):
    """Who does what, and where the job is after it."""
    assert main(["fence"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("without fence: ")
    assert lines[0].endswith("broken: a job ends once")
    assert "\n".join(lines[1:-1]) in PAGE
