"""A file and its drop-ins."""

import os

import pytest

from fusiond.config.load import load
from tests.support.fusiond_command import fusiond


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


def test_circles_and_nesting_are_refused(place):
    """A file includes neither itself nor, being included, others."""
    _, problems = place("version: 1\ninclude: [fusion.yaml, a.yaml]\n", a="include: [b.yaml]\n", b="{}")
    assert problems == [("a.yaml", 1, "nested-include"), ("fusion.yaml", 2, "include-circle")]


def test_a_glob_that_matches_itself_is_a_circle(place):
    """`*.yaml` beside the file."""
    _, problems = place("version: 1\ninclude: ['*.yaml']\n")
    assert problems == [("fusion.yaml", 2, "include-circle")]


def test_a_missing_file_is_an_error_and_an_empty_glob_is_not(place):
    """A directory of drop-ins may be empty."""
    _, problems = place("version: 1\ninclude: [no.yaml, 'no.d/*.yaml', '/no/such/*']\n")
    assert problems == [("fusion.yaml", 2, "missing-include")]


def test_a_file_that_two_patterns_match_is_read_once(place):
    """Overlapping globs are no mistake."""
    loaded, problems = place("version: 1\ninclude: [d/a.yaml, 'd/*.yaml']\n", d__a="queues: {default: {}}\n")
    assert problems == []
    assert len(loaded.tree.files) == 2


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


@pytest.mark.parametrize("broken", ["tasks: [\n", "\x01", "tasks: {a: &x *x}"])
def test_names_of_a_drop_in_that_cannot_be_read_are_not_missed(place, broken):
    """One mistake is one problem: what the file would have declared is not said to be undeclared."""
    _, problems = place(MAIN + "cron: {c: {task: tb, every: 5m}}\n", **{"conf.d__b": broken})
    assert [file for file, _, _ in problems] == ["conf.d/b.yaml"]
    _, problems = place("version: 1\ninclude: [no.yaml]\ncron: {c: {task: tb, every: 5m}}\n")
    assert [code for _, _, code in problems] == ["missing-include"]


def test_a_directory_with_brackets_is_no_glob(tmp_path):
    """Only what the file says may be one."""
    (tmp_path / "b[1]" / "conf.d").mkdir(parents=True)
    (tmp_path / "b[1]" / "fusion.yaml").write_text(MAIN)
    (tmp_path / "b[1]" / "conf.d" / "b.yaml").write_text("tasks: {tb: {run: x.y}}\n")
    assert set(load(tmp_path / "b[1]" / "fusion.yaml", environ={}).config.tasks) == {"ta", "tb"}


@pytest.mark.parametrize("pattern", ["conf.d/*.yaml", "conf.d/*/q.yaml", "*.d/sub/q.yaml"])
def test_a_directory_that_cannot_be_searched_is_not_an_empty_one(tmp_path, pattern):
    """What a drop-in says there would be lost, and nobody told."""
    (tmp_path / "conf.d" / "sub").mkdir(parents=True)
    (tmp_path / "conf.d" / "sub" / "q.yaml").touch()
    (tmp_path / "fusion.yaml").write_text(f"version: 1\ninclude: ['{pattern}']\n")
    (tmp_path / "conf.d").chmod(0o000)
    done = fusiond("validate", "fusion.yaml", cwd=tmp_path, as_person=True)
    (tmp_path / "conf.d").chmod(0o755)
    assert (done.status, "conf.d cannot be searched: permission denied" in done.err + done.out) == (2, True)


def test_unreadable_files(tmp_path):
    """A missing file, a directory and a device are one problem each."""
    for path in (tmp_path / "no.yaml", tmp_path, "/dev/null", "/dev/zero"):
        loaded = load(path, environ={})
        codes = {problem.code for problem in loaded.problems}
        assert codes & {"unreadable", "empty-file", "too-large"}, codes
        assert loaded.config is None


def test_a_thousand_drop_ins_are_refused(place):
    """A glob cannot make the daemon read without end."""
    _, problems = place("version: 1\ninclude: ['d/*.yaml']\n", **{f"d__{n}": "{}" for n in range(520)})
    assert problems == [("fusion.yaml", 2, "too-many-files")]
