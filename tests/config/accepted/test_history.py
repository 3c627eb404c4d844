"""The generations that were accepted, as files."""

import dataclasses
import json

import pytest

from fusiond.config.accepted import history, snapshot
from fusiond.config.accepted.plan import compare
from fusiond.config.model import Config, Task, WorkerGroup, rebuild
from fusiond.errors import ConfigError


def config_of(processes):
    return Config(tasks={"a": Task("a", "x.y")}, workers={"main": WorkerGroup("main", processes=processes)})


@pytest.fixture
def kept(tmp_path):
    return tmp_path / "history"


def accept(kept, generation, processes, *, restores=0, before=None):
    """Record a generation, as a commit does."""
    path = kept.parent / "current.json"
    accepted = snapshot.write(path, config_of(processes), generation=generation, source="/f.yaml", restores=restores)
    plan = before and compare(config_of(before), accepted.config)
    history.record(kept, accepted, plan, ("fusiond reload", "SIGHUP"), accepted_at=1000.0 + generation)
    return accepted


def test_an_entry_says_when_who_and_what(kept):
    """And comes back as it went, its plan included."""
    accept(kept, 1, 2)
    two = accept(kept, 2, 5, before=2)
    first, second = history.entries(kept)
    assert (first.generation, first.changes, first.plan) == (1, "oldest generation that is kept", None)
    assert second == history.Entry(
        generation=2,
        hash=two.hash,
        source="/f.yaml",
        accepted_at=1002.0,
        asked_by=("fusiond reload", "SIGHUP"),
        changes="1 group resized (main, 2 → 5 processes)",
        plan=compare(config_of(2), config_of(5)),
    )
    assert rebuild(history.Entry, json.loads(json.dumps(dataclasses.asdict(second)))) == second


def test_it_is_bounded_and_the_newest_stay(kept):
    """By number, not by name: 9 is older than 10."""
    for generation in range(1, history.LIMIT + 12):
        accept(kept, generation, generation)
    assert [entry.generation for entry in history.entries(kept)] == list(range(12, history.LIMIT + 12))
    assert history.newest(kept) == history.LIMIT + 11


@pytest.mark.parametrize("generation", [0, 2])
def test_a_generation_that_only_loaded_code_is_not_rolled_back(kept, generation):
    """3 says what 2 says: 1 would undo an edit that nobody complained about, and the code would stay."""
    accept(kept, 1, 1)
    accept(kept, 2, 2)
    running = accept(kept, 3, 2)
    with pytest.raises(ConfigError, match=r"(?s)only loaded code.* reload --code\. .* fusiond rollback 1$"):
        history.target(history.entries(kept), running, generation)
    assert history.target(history.entries(kept), running, 1).generation == 1
    assert history.target(history.entries(kept), running, 3).generation == 3


def test_code_that_was_loaded_after_a_rollback_is_not_rolled_back_either(kept):
    """The code that 4 loaded stays whichever generation the file goes back to."""
    accept(kept, 1, 1)
    accept(kept, 2, 2)
    accept(kept, 3, 1, restores=1)
    running = accept(kept, 4, 1, restores=1)
    for generation in (0, 1, 3):
        with pytest.raises(ConfigError, match="generation 4 only loaded code"):
            history.target(history.entries(kept), running, generation)


def test_a_rollback_that_runs_already_is_no_matter_of_code(kept):
    """Asked twice, it is done once."""
    accept(kept, 1, 1)
    accept(kept, 2, 2)
    running = accept(kept, 3, 1, restores=1)
    assert history.target(history.entries(kept), running, 1).generation == 1


def test_the_remedy_names_the_links_of_releases(kept):
    """With `reload_on`, a release is undone where it was made."""
    running = accept(kept, 1, 1)
    group = dataclasses.replace(running.config.workers["main"], reload_on=("/srv/shop/current",))
    config = dataclasses.replace(running.config, workers={"main": group})
    running = dataclasses.replace(running, generation=2, config=config)
    with pytest.raises(ConfigError, match="switch /srv/shop/current to the release before"):
        history.target(history.entries(kept), running, 0)


def test_a_generation_by_its_number(kept):
    """One that is not kept is refused, with those that are."""
    accept(kept, 1, 1)
    running = accept(kept, 2, 2)
    assert history.target(history.entries(kept), running, 1).generation == 1
    with pytest.raises(ConfigError, match="generation 9 is not kept; there are: 1, 2"):
        history.target(history.entries(kept), running, 9)


def test_a_snapshot_tells_what_it_restores(tmp_path):
    """Over a restart too; one of an older version restores nothing."""
    path = tmp_path / "s.json"
    snapshot.write(path, config_of(1), generation=4, restores=2, instead_of="abc")
    found = snapshot.read_snapshot(path)
    assert (found.restores, found.instead_of) == (2, "abc")
    content = json.loads(path.read_text())
    del content["restores"], content["instead_of"]
    path.write_text(json.dumps(content))
    assert snapshot.read_snapshot(path).restores == 0
