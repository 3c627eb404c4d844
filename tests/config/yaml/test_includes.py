"""A file and its drop-ins."""

import os

import pytest

from fusiond.config.load import load


@pytest.fixture
def place(tmp_path):
    """Writes files and loads the main one, as `validate` would from its directory."""

    def write(main, **others):
        for name, text in {"fusion": main, **others}.items():
            path = tmp_path / f"{name.replace('__', '/')}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        loaded = load(tmp_path / "fusion.yaml", environ=os.environ)
        return loaded, [
            (os.path.relpath(p.file, tmp_path), p.line, p.code) for p in loaded.problems if p.code != "runs-as-root"
        ]

    return write


MAIN = "version: 1\ninclude: [conf.d/*.yaml]\nqueues: {a: {}}\ntasks: {ta: {run: x.y, queue: a}}\nworkers: {m: {}}\n"


def test_sections_of_all_files_come_together(place, tmp_path):
    """Names of a drop-in are used from the main file and the other way round; each path starts at its own file."""
    loaded, problems = place(
        MAIN,
        conf_d="x: 1",
        **{"conf.d__10": "queues: {b: {}}\ntasks: {tb: {run: x.y, queue: b}, tc: {run: x.y, queue: a}}\n"},
        **{"conf.d__20": "version: 1\nworkers: {n: {queues: [b], directory: .}}\nlogging: {level: debug}\n"},
    )
    assert problems == []
    config = loaded.config
    assert set(config.queues) == {"default", "a", "b"}
    assert set(config.tasks) == {"ta", "tb", "tc"}
    assert config.workers["n"].directory == str(tmp_path / "conf.d")
    assert config.logging.level == "debug"
    assert [path.name for path in loaded.tree.files] == ["fusion.yaml", "10.yaml", "20.yaml"]
    assert loaded.tree.globs == (str(tmp_path / "conf.d/*.yaml"),)


def test_the_same_name_twice_is_an_error_at_its_second_place(place):
    """Neither wins in silence."""
    loaded, problems = place(
        MAIN, **{"conf.d__x": "tasks: {ta: {run: z.z}}\nlogging: {}\n"}, **{"conf.d__y": "logging: {}\n"}
    )
    assert loaded.config is None
    assert problems == [("conf.d/x.yaml", 1, "duplicate-name"), ("conf.d/y.yaml", 1, "duplicate-name")]
    assert "fusion.yaml:4" in loaded.problems[0].message


def test_policies_of_all_files_hold(place):
    """Those of a drop-in bind the main file, beside its own."""
    policies = (
        "policies: [{every: task, key: owner, required: true}, {every: queue, key: max_length, required: true}]\n"
    )
    loaded, problems = place(
        f"{MAIN}policies: [{{every: group, key: user, required: true}}]\n",
        **{"conf.d__x": policies}, **{"conf.d__y": "policies:\n"},
    )  # fmt: skip
    assert loaded.config is None
    assert problems == [("fusion.yaml", line, "broken-policy") for line in (3, 4, 5)]
    where = [problem.message.rpartition("/")[2] for problem in loaded.problems if problem.code == "broken-policy"]
    assert where == ["x.yaml:1)", "x.yaml:1)", "fusion.yaml:6)"]


def test_circles_and_nesting_are_refused(place):
    """A file includes neither itself nor, being included, others."""
    _, problems = place("version: 1\ninclude: [fusion.yaml, a.yaml]\n", a="include: [b.yaml]\n", b="{}")
    assert problems == [("a.yaml", 1, "nested-include"), ("fusion.yaml", 2, "include-circle")]


def test_a_missing_file_is_an_error_and_an_empty_glob_is_not(place):
    """A directory of drop-ins may be empty."""
    _, problems = place("version: 1\ninclude: [no.yaml, 'no.d/*.yaml', '/no/such/*']\n")
    assert problems == [("fusion.yaml", 2, "missing-include")]


def test_a_broken_drop_in_is_told_with_its_own_place(place):
    """Problems of the schema, of syntax and of references name the file that they are in."""
    _, problems = place(
        MAIN,
        **{"conf.d__a": "tasks: {x: {run: x.y, timeout: 5}}\n"},
        **{"conf.d__c": "\n\ntasks: {z: {run: x.y, queue: nope}}\n"},
        **{"conf.d__d": "queues: []\n"},
    )
    assert problems == [
        ("conf.d/a.yaml", 1, "missing-unit"),
        ("conf.d/c.yaml", 3, "unknown-queue"),
        ("conf.d/d.yaml", 1, "wrong-type"),
    ]


def test_unreadable_files(tmp_path):
    """A missing file, a directory and a device are one problem each."""
    for path in (tmp_path / "no.yaml", tmp_path, "/dev/null", "/dev/zero"):
        loaded = load(path, environ={})
        codes = {problem.code for problem in loaded.problems}
        assert codes & {"unreadable", "empty-file", "too-large"}, codes
        assert loaded.config is None
