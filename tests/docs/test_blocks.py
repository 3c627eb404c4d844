"""Every code block of the docs is checked as far as its language allows; none is without one."""

import configparser
import json
import subprocess
import tomllib

import pytest
import yaml

from tests.docs.blocks import BLOCKS, ROOT, parameters
from tests.support.fusiond_command import fusiond_here

#: who checks the blocks of a language
CHECKED = {
    "yaml": "tests/docs/test_pages.py validates each as a whole file",
    "python": "tests/proofs/test_recipes.py and test_tour.py, tests/testing/test_guide.py and tests/outbox run them",
    "sh": "this file parses them, and tests/docs/test_commands.py runs those of fusiond's commands",
    "yml": "this file; tests/config/test_ci.py those of docs/ci.md by their schemas",
    "json": "this file, and tests/proofs/test_tour.py runs the job",
    "ini": "this file",
    "sql": "tests/outbox/test_outbox_page.py runs it on SQLite and PostgreSQL",
    "lua": "tests/proofs/test_tour.py runs it",
    "text": "nobody: it is what a program prints, or a drawing",
    "toml": "this file; its one block was tried with oauth2-proxy 7.15",
    "nginx": "nobody: there is no nginx here; its one block was tried with nginx 1.22",
    "ruby": "nobody: there is no Ruby here; tests/outbox/test_outbox_page.py runs the SQL of docs/outbox.md",
}
#: pages whose Python something else than tests/proofs/test_recipes.py runs
RUN_ELSEWHERE = {"README.md", "getting-started.md", "outbox.md", "producers.md", "testing.md"}
RUN_HERE = {"recipes.md", "flows.md", "tasks.md", "writing-tasks.md"}


def test_each_block_names_a_language_that_somebody_checks():
    """A new block is run, or it says what it is."""
    assert [f"{block} {block.language!r}" for block in BLOCKS if block.language not in CHECKED] == []
    assert {block.page for block in BLOCKS if block.language == "python"} == RUN_HERE | RUN_ELSEWHERE


@pytest.mark.parametrize("block", parameters("sh"))
def test_a_shell_reads_each_command(block):
    """No quote is left open, no operator stands alone."""
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr


@pytest.mark.parametrize("block", parameters("yml"))
def test_files_for_other_programs_are_yaml(block, tmp_path):
    """A part of our own file is one that validates."""
    document = yaml.safe_load(block.text)
    assert document
    if "events" in document:
        (tmp_path / "fusion.yaml").write_text(f"version: 1\n{block.text}")
        assert fusiond_here("validate", cwd=tmp_path).status == 0


@pytest.mark.parametrize("block", parameters("json"))
def test_json_is_json(block):
    """A job that another language pushes fits the schema of jobs."""
    document = json.loads(block.text)
    if "status" not in document:
        schema = json.loads((ROOT / "schemas" / "job.schema.json").read_text())
        assert document.keys() <= schema["properties"].keys()


@pytest.mark.parametrize("block", parameters("toml"))
def test_toml_is_toml(block):
    """No quote is left open."""
    assert tomllib.loads(block.text)


@pytest.mark.parametrize("block", parameters("ini"))
def test_units_have_sections(block):
    """Each line is a key of a section."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(block.text)
    assert all(unit[section] for section in unit.sections())
