"""A slice of `make chaos`: a calm, a storm, and some of the bugs that the harness must find."""

import random
from collections import Counter

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.script import script
from tests.chaos import hunt, report, verdict
from tests.chaos.bugs import BUGS
from tests.chaos.package import LOGGED, SHORTER, copy, scripts_of
from tests.chaos.trial import Plan, carry_out

#: how many of the seeded bugs a run hunts for, others with each `--seed`; `python -m tests.chaos --bugs` hunts for all
SOME = 10
#: a verdict on these excuses what the machine does beside, and this machine does other proofs beside
NOT_BESIDE = ("bursts of forked children", "bursts of reused children")


def pytest_generate_tests(metafunc):
    if "seeded" in metafunc.fixturenames:
        rand = random.Random(metafunc.config.option.seed)
        names = sorted(name for name, bug in BUGS.items() if bug.plan not in NOT_BESIDE)
        metafunc.parametrize("seeded", sorted(rand.sample(names, SOME)))


def test_without_faults_there_are_as_many_runs_as_jobs():
    """I6, and all the others."""
    ledger = carry_out(Plan(jobs=200, seconds=5, faults=0))
    assert verdict.judge(ledger) == []
    ended = Counter(record.status for record in ledger.records.values())
    assert len(ledger.acks) == 200
    flawed = [run for runs in ledger.runs.values() for run in runs if run.failed]
    canceled = [id_ for id_, record in ledger.records.items() if record.status == "canceled" and id_ not in ledger.runs]
    assert sum(len(runs) for runs in ledger.runs.values()) == ended.total() + len(flawed) - len(canceled)


@pytest.mark.parametrize("many", [False, True], ids=["one job at once", "many at once"])
def test_no_job_comes_to_harm_in_a_storm(many):
    """Every kind of process is killed, stopped and cut off at random: I1 to I9 hold, also where a child runs many."""
    ledger = carry_out(Plan(jobs=300, seconds=12, faults=40, every=False, many=many))
    print("\n".join(report.markdown("storm", report.summary(ledger, []))))
    assert verdict.judge(ledger) == []
    # As much as makes a storm, however busy the machine is.
    assert len(ledger.acks) >= 100
    assert sum(fault.kills for fault in ledger.faults) >= 5


def test_a_seeded_bug_is_found(seeded):
    """The verdict can fail. As in the full hunt, a bug that needs a fault within a millisecond has several tries."""
    assert any(hunt.find(seeded, seed) for seed in range(1 + hunt.AGAIN))


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_bug_is_code_that_can_run(name, tmp_path, run):
    """What it replaces is there, once, and the rest can be read: a hunt for a bug that is none would find nothing."""
    edits = (*SHORTER, *LOGGED, *BUGS[name].edits)
    code = copy(tmp_path, edits)
    for file in {edit.file for edit in edits if edit.file.endswith(".py")}:
        compile((code / "fusiond" / file).read_text(), file, "exec")
    with scripts_of(code):
        for file in (code / "fusiond" / "broker" / "lua").glob("*.lua"):
            run(plain(as_is, "SCRIPT", "LOAD", script(file.stem).source))
