"""A simulation of a file and a load that a test writes down."""

import json

import pytest

from fusiond.config.load import load
from fusiond.simulation.load_files import read_load
from fusiond.simulation.replay import Conditions
from fusiond.simulation.variants import simulate


@pytest.fixture
def simulated(tmp_path):
    """(text of the file, lines of the load, seconds, more conditions) → the result."""

    def run(text, lines, seconds=600.0, **more):
        file, load_file = tmp_path / "fusion.yaml", tmp_path / "load.jsonl"
        file.write_text(f"version: 1\n{text}")
        load_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        loaded = load(file, environ={}, elsewhere=True)
        assert loaded.config, [problem.message for problem in loaded.problems if problem.is_error]
        found, _ = read_load(str(load_file), more.get("seed", 1))
        return simulate(loaded.config, found, Conditions(seconds, **more))

    return run
