"""A slice of the fuzzing of the file; `python -m tests.fuzz.config_file` runs as much as one likes."""

import subprocess
import sys
from pathlib import Path

import pytest

from fusiond.config.load import load
from tests.fuzz import config_file

ROOT = Path(__file__).parents[2]


def test_a_slice_of_files_that_nobody_meant():
    """Problems or a clean bill, within 2 s and 200 MB: never a traceback."""
    command = [sys.executable, "-m", "tests.fuzz.config_file", "--files", "400", "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken promises" in done.stdout


def test_the_fuzzer_notices_what_is_broken(tmp_path, monkeypatch):
    """An exception, a Config beside an error and a code without a rule: what cannot fail proves nothing."""

    def fails(*_, **__):
        raise KeyError("planted")

    monkeypatch.setattr(config_file, "load", fails)
    with pytest.raises(KeyError):
        config_file.examine(b"version: 1\n", tmp_path)
    good, bad = (load("f", environ={}, data=text) for text in (b"version: 1\n", b"version: 2\n"))
    monkeypatch.setattr(config_file, "load", lambda *_, **__: type(good)(good.config, bad.problems, ()))
    with pytest.raises(AssertionError, match="beside an error"):
        config_file.examine(b"version: 1\n", tmp_path)
    monkeypatch.setattr(config_file, "load", lambda *_, **__: bad)
    monkeypatch.setattr(config_file, "RULES", {})
    monkeypatch.setattr(config_file, "as_sarif", lambda *_: "{}")
    with pytest.raises(AssertionError, match="in no table"):
        config_file.examine(b"version: 2\n", tmp_path)
