"""docs/testing.md, word by word: the files that it shows, and the commands that it runs them with."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
#: `name`, at the end of a line that ends with a colon or names what follows, and the block
_FILE = re.compile(r"`([\w.]+)`[^`\n]*:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)


def project(heading, directory):
    """Write the files of a section, and of those below it."""
    text = PAGE.read_text()
    section = re.split(r"^## ", text.split(f"\n## {heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]
    for name, content in _FILE.findall(section):
        (directory / name).write_text(content)
    return {name for name, _ in _FILE.findall(section)}


def run(directory, *words):
    """A command in the project, as a shell with this environment's `bin` on PATH runs it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("FUSION", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=directory, env=own, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.proof
def test_the_flask_example(tmp_path):
    """Its tests pass, those with a recorder and the one with a daemon; conftest.py records in each test."""
    assert {"shop.py", "payments.py", "test_shop.py", "pytest.ini", "conftest.py"} <= project(
        "Record what is enqueued", tmp_path
    )
    status, said = run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    assert status == 0, said
    assert "5 passed" in said


@pytest.mark.proof
def test_the_flask_example_can_fail(tmp_path):
    """An application that enqueues something else does not pass."""
    project("Record what is enqueued", tmp_path)
    shop = tmp_path / "shop.py"
    shop.write_text(shop.read_text().replace('delay="5m"', 'delay="6m"'))
    status, said = run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "five_minutes")
    assert status == 1
    assert "'delay': '6m'" in said


@pytest.mark.proof
def test_the_django_example(tmp_path):
    """Its tests pass with Django's own runner."""
    assert {"accounts.py", "settings.py", "tests.py"} <= project("With unittest and Django", tmp_path)
    status, said = run(tmp_path, "django", "test", "--settings", "settings", "--pythonpath", ".")
    assert status == 0, said
    assert "Ran 2 tests" in said


@pytest.mark.parametrize("name", ["assert_enqueued", "matching", "forward", "waiting", "runs", "clear", "run"])
def test_each_name_of_the_table_exists(name):
    """What the page says that a recorder has, it has."""
    from fusiond.testing import Recorder

    assert name in PAGE.read_text()
    assert hasattr(Recorder, name)
