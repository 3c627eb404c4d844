"""The benchmarks still run with the code as it is, and their ratios and gates say what was measured."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import calibration
from benchmarks.__main__ import MEASURES
from benchmarks.peers import environment, postgres
from benchmarks.peers.__main__ import GATES, steps
from benchmarks.peers.runners import BY_NAME, GRAPHILE, RUNNERS

ROOT = Path(__file__).parents[2]


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=240
    ).stdout


def test_each_gate_is_of_something_that_is_measured():
    """A gate whose row or quantity no step has would never be seen to fail."""
    plan = {step.name: step for step in steps(RUNNERS)}
    for bound in GATES:
        rows = {name for names, _ in plan[bound.table].rows for name in names}
        assert {bound.ours, bound.theirs} <= rows
        assert bound.quantity in plan[bound.table].quantities


def test_the_calibrations_measure_something():
    """Each is more than nothing, and a job takes up more than its body."""
    assert calibration.ping(100) > 0
    assert calibration.fork(10) > 0
    assert calibration.loop(1000) > 0
    assert calibration.interpreter() > 0
    assert calibration.interpreter_memory() > 1e6
    assert calibration.bytes_of_a_job(("a" * 50,), {}, 1000) > 50


@pytest.mark.parametrize("name", [*MEASURES, "shards"])
def test_each_of_our_own_measures_runs(name):
    """`python -m benchmarks NAME` against the daemon as it is now: figures, and what each gate is held against."""
    figures = json.loads(run("benchmarks", name, "--scale", "0.02", "--json"))["figures"]
    assert figures
    assert all(figure["gate"]["against"] for figure in figures if figure["gate"])


def test_the_rounds_run(tmp_path):
    """`python -m benchmarks.peers` with fusiond alone, which installs nothing: lines as it goes, and Markdown."""
    written = tmp_path / "figures.md"
    said = run("benchmarks.peers", "fusiond", "--only", "work,latency,backlog", "--rounds", "1", "--scale", "0.01",
               "--markdown", str(written))  # fmt: skip
    assert "1 work: fusiond, process: drain, jobs/s" in said
    assert "1 latency: fusiond, fork: p50, ms" in said
    assert "1 backlog: backlog of 50,000: drain, jobs/s" in said
    assert "1 backlog: backlog of 1,000,000: drain, jobs/s" in said
    assert "### Work: TCP, no append-only file" in written.read_text()


def test_without_postgresql_its_runner_is_left_out(monkeypatch):
    """Before anything is installed, with a sentence that names the package."""
    monkeypatch.setattr(postgres, "programs", lambda: None)
    with pytest.raises(environment.Missing, match="apt-get install postgresql"):
        environment.install(BY_NAME[GRAPHILE])


@pytest.mark.skipif(postgres.programs() is None, reason="there is no PostgreSQL")
def test_ctrl_c_ends_the_postgresql_of_a_measure():
    """Neither its process nor its directory is left, though only the benchmark was told."""
    waits = """
import signal
from benchmarks.peers.postgres import Postgres
with Postgres() as it:
    print(it.ask("SHOW data_directory"), flush=True)
    signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", waits], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as it:
        data = Path(it.stdout.readline().decode().strip())
        server = int((data / "postmaster.pid").read_text().split()[0])
        it.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in it.communicate(timeout=60)[1]
    assert not data.parent.exists()
    assert not Path(f"/proc/{server}").exists()


def test_two_trees_in_pairs():
    """One tree beside itself: each pair has both halves, each with a daemon of its own."""
    said = run("benchmarks.pairs", str(ROOT), str(ROOT), "latency", "--pairs", "1", "--daemons", "2", "--scale", "0.1")
    assert "B ÷ A" in said
    assert "2 pairs; daemons " in said
