"""A slice of `python -m tests.chaos.outboxes`: a storm, and some of the mistakes that the verdict must find."""

import random
from dataclasses import replace

import pytest

from tests.chaos.outboxes.bugs import MISTAKES
from tests.chaos.outboxes.site import SHORTER
from tests.chaos.outboxes.stories import STORIES, judge, tell
from tests.chaos.package import copy
from tests.support.postgres import missing
from tests.support.redis_server import has_compiler

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing() or "it can run here"),
    pytest.mark.skipif(not has_compiler(), reason="a small library, which gcc makes, tells what Redis has synced"),
]
#: how many of the mistakes a run looks for, others with each `--seed`; further tries, if one needs a certain moment
SOME, AGAIN = 1, 3


def pytest_generate_tests(metafunc):
    if "mistake" in metafunc.fixturenames:
        rand = random.Random(metafunc.config.option.seed)
        metafunc.parametrize("mistake", sorted(rand.sample(sorted(MISTAKES), SOME)))


def test_each_committed_row_becomes_one_job_in_a_storm():
    """Relays, applications, the database and Redis are killed, and relays are frozen, at any step."""
    account = tell(replace(STORIES["storm"], transactions=500))
    assert [*judge(account)] == []
    assert account.committed
    assert account.done


def test_a_mistake_is_found(mistake):
    """The verdict can fail."""
    made = MISTAKES[mistake]
    assert any([*judge(tell(STORIES[made.story], made.edits, seed))] for seed in range(1 + AGAIN))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_code_that_can_run(name, tmp_path):
    """What it replaces is there, once, and the rest can be read."""
    edits = (*SHORTER, *MISTAKES[name].edits)
    code = copy(tmp_path, edits)
    for file in {edit.file for edit in edits if edit.file.endswith(".py")}:
        compile((code / "fusiond" / file).read_text(), file, "exec")
