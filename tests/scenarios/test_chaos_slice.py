"""A slice of `make chaos`: a calm, a storm, and one of the bugs that the harness must find."""

import pytest

from tests.chaos import report, verdict
from tests.chaos.bugs import BUGS
from tests.chaos.trial import Plan, carry_out

pytestmark = pytest.mark.timeout(180)


def test_without_faults_there_are_as_many_runs_as_jobs():
    """I6, and all the others."""
    ledger = carry_out(Plan(jobs=200, seconds=5, faults=0))
    assert verdict.judge(ledger) == []
    assert sum(len(runs) for runs in ledger.runs.values()) == len(ledger.acks) == 200


def test_no_job_comes_to_harm_in_a_storm():
    """Every kind of process is killed and stopped at random: I1 to I8 hold."""
    ledger = carry_out(Plan(jobs=300, seconds=12, faults=45))
    print("\n".join(report.figures(ledger)))
    assert verdict.judge(ledger) == []
    assert len(ledger.acks) == 300
    assert len(ledger.faults) > 20


def test_a_seeded_bug_is_found():
    """The verdict can fail. This bug shows at any kill of a busy child; `--bugs` hunts for the others."""
    ledger = carry_out(Plan(jobs=200, seconds=8, faults=40, edits=tuple(BUGS["a crash that is a success"])))
    assert verdict.judge(ledger) != []
