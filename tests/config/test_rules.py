"""The table of rules: its examples, its page, and that it has each code that is checked."""

import ast
import os
import re
import sys
from pathlib import Path

import pytest

from fusiond.config.lint.reports import as_text
from fusiond.config.load import load
from tests.rules import PARTS, RULES
from tests.rules_page import PAGE, page
from tests.support.fusiond_command import fusiond_here

ROOM = Path(load.__code__.co_filename).parent
#: said of any example where the tests are run by root
_OF_ROOT = "runs-as-root"
LOADING = [rule for rule in RULES.values() if rule.needs == "imports"]
STATIC = [rule for rule in RULES.values() if rule.needs != "imports"]


def is_here(rule):
    """Whether this user can break the rule."""
    return {"root": os.geteuid() == 0, "person": os.geteuid() != 0}.get(rule.needs, True)


def completed(rule, text):
    """The example as a whole file: with a version, a task and a group, where it is about something else."""
    if rule.whole and text is not rule.good:
        return text
    added = "version: 1\n" if "version:" not in text else ""
    for section, entry in (("tasks", "{a: {run: x.y}}"), ("workers", "{m: {}}")):
        if not re.search(rf"^\W?{section}\W?:", text, re.MULTILINE) and f"{section[:-2]}s" not in text:
            added += f"{section}: {entry}\n"
    return f"{text}{added}"


def written(rule, text, directory):
    """The example as files; returns the main one and where the marks were: file, line, column, marked text."""
    marked = None
    texts = {"fusion.yaml": completed(rule, text), **rule.files}
    for name, text in texts.items():
        content, path = text, directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        else:
            if "«" in content:
                before, token, after = re.split("[«»]", content)
                lines = before.split("\n")
                marked = (str(path), len(lines), len(lines[-1]) + 1, token.rstrip("\n"))
                content = before + token + after
            path.write_bytes(content.encode(rule.encoding if name == "fusion.yaml" else "utf-8"))
        path.chmod(rule.modes.get(name, 0o755 if name.endswith("/") else 0o644))
    return directory / "fusion.yaml", marked


def problems_of(path, rule, directory):
    unit = directory / "fusiond.service" if "fusiond.service" in rule.files else None
    found = load(path, environ={}, unit_file=unit).problems
    return [problem for problem in found if problem.code != _OF_ROOT or rule.code == _OF_ROOT]


@pytest.mark.parametrize("rule", STATIC, ids=[rule.code for rule in STATIC])
def test_the_bad_example_gives_its_code_at_its_place(rule, tmp_path, monkeypatch):
    """Exactly this code, once, under the very token, with the severity that the table says and a remedy."""
    if not is_here(rule):
        pytest.skip(f"needs to be run by {rule.needs}")
    if rule.code == "unreadable":
        (problem,) = load(tmp_path / "no.yaml", environ={}).problems
        assert problem.code == rule.code
        return
    bad = rule.bad() if callable(rule.bad) else rule.bad
    if rule.without:
        monkeypatch.setitem(sys.modules, rule.without, None)
    path, marked = written(rule, bad, tmp_path)
    found = problems_of(path, rule, tmp_path)
    assert [problem.code for problem in found] == [rule.code], as_text(found)
    (problem,) = found
    assert problem.severity == rule.severity
    assert problem.remedy
    if marked is None:
        assert problem.line == 0, as_text(found)
        return
    file, line, column, token = marked
    assert (problem.file, problem.line, problem.column, problem.width) == (file, line, column, len(token)), as_text(
        found
    )


@pytest.mark.parametrize("rule", LOADING, ids=[rule.code for rule in LOADING])
def test_what_loading_the_code_tells_is_found_at_its_place(rule, tmp_path):
    """The bad example under --imports gives its code and place, the good one does not."""
    path, (file, line, column, token) = written(rule, rule.bad, tmp_path)
    found = [problem for problem in imported(path) if problem["code"] != _OF_ROOT]
    assert [problem["code"] for problem in found] == [rule.code]
    (problem,) = found
    assert (problem["file"], problem["line"], problem["column"]) == (file, line, column)
    assert (problem["width"], problem["severity"]) == (len(token), rule.severity)
    assert problem["remedy"]
    path, _ = written(rule, rule.good, tmp_path)
    assert [problem["code"] for problem in imported(path) if problem["code"] != _OF_ROOT] == []


def imported(path):
    return fusiond_here("validate", "--imports", "--import-timeout", "3s", "--json", path, cwd=path.parent).json


@pytest.mark.parametrize("rule", STATIC, ids=[rule.code for rule in STATIC])
def test_the_good_example_does_not(rule, tmp_path):
    """What the table shows as mended is a file without errors, and without this problem."""
    path, _ = written(rule, rule.good, tmp_path)
    found = [problem for problem in problems_of(path, rule, tmp_path) if is_here(rule)]
    assert [problem for problem in found if problem.is_error or problem.code == rule.code] == [], as_text(found)


def test_the_page_is_what_the_table_gives():
    """`python -m tests.rules_page` writes it."""
    assert PAGE.read_text() == page()


def test_every_code_that_is_checked_is_in_the_table_and_the_other_way_round():
    """A rule without an entry would have no documentation, an entry without a rule would be a promise."""
    assert said_codes() == set(RULES)
    assert len(RULES) == sum(map(len, PARTS.values()))


def said_codes():
    """Each code that the checks write, read from their source."""
    found = {
        f"unknown-{kind}" for kind in ("queue", "task", "flow", "priority", "retry-policy", "calendar", "pool")
    }  # made of the kind of name
    for path in ROOM.rglob("*.py"):
        found |= set(_codes(ast.parse(path.read_text())))
    return found


def _codes(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in RULES:
            yield node.value
        if isinstance(node, ast.Call):
            yield from _said(node)


def _said(call):
    """The code among the arguments of `place.error(…)`, `Sentence(…)` and the like."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    position = {"error": 0, "warning": 0, "problem": 1, "Sentence": 0, "Explanation": 0, "_missing": 1, "_whole": 1}
    if name in position and len(call.args) > position[name]:
        argument = call.args[position[name]]
        if (
            isinstance(argument, ast.Constant)
            and isinstance(argument.value, str)
            and re.fullmatch(r"[a-z0-9-]+", argument.value)
        ):
            yield argument.value
