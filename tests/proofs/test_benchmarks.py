"""The benchmarks still run with the code as it is, and their ratios and gates say what was measured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import calibration, pairs
from benchmarks.__main__ import MEASURES
from benchmarks.figures import Figure, Gate
from benchmarks.network import network
from benchmarks.peers.__main__ import GATES, steps
from benchmarks.peers.environment import Missing, install
from benchmarks.peers.results import Bound, Results
from benchmarks.peers.runners import BY_NAME, RUNNERS
from benchmarks.peers.session import APPS
from benchmarks.rounds import rounds

ROOT = Path(__file__).parents[2]


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=240
    ).stdout


def test_a_gate_is_a_ratio():
    """It is kept on its bound, and a figure's line says what it is held against."""
    assert Gate(2.2, "Sidekiq", floor=2.2).kept
    assert not Gate(2.1, "Sidekiq", floor=2.2).kept
    assert Gate(1.1, "Sidekiq", ceiling=1.1).kept
    assert not Gate(1.2, "Sidekiq", ceiling=1.1).kept
    line = Figure("drain", 30_000, "jobs/s", Gate(2.14, "a bare PING", ceiling=2.0), "median").line()
    assert line.endswith("2.14 × a bare PING, ≤ 2: MISSED; median")


@pytest.fixture
def found():
    """Three rounds in which the machine became slower; in the second the peer was not measured."""
    results = Results()
    for turn, (ours, theirs) in enumerate(((100, 50), (60, None), (40, 16))):
        results.add("work", "us", turn, {"drain": ours})
        if theirs is not None:
            results.add("work", "them", turn, {"drain": theirs})
    return results


def test_ratios_are_of_one_round(found):
    """A round that has only one of both does not count, however the machine was in it."""
    ratio = found.ratio("work", "drain", "us", "them")
    assert (ratio.low, ratio.middle, ratio.high, ratio.turns) == (2.125, 2.25, 2.375, 2)
    assert found.ratio("work", "drain", "us", "nobody") is None


def test_a_gate_that_is_missed_or_not_measured_is_not_kept(found):
    """Each is said so: a runner that was given up, or not installed, has no figure."""
    bound = Bound("work", "drain", "us", "them", floor=2.2)
    text, kept = found.gates([bound], {"drain": "drain"})
    assert kept
    assert text.splitlines()[2:] == ["| drain: us ÷ them | ≥ 2.2 | 2.25 (2.12–2.38) | kept |"]
    text, kept = found.gates([bound._replace(floor=2.3)], {"drain": "drain"})
    assert not kept
    assert "**missed**" in text
    text, kept = found.gates([bound, bound._replace(theirs="nobody")], {"drain": "drain"})
    assert not kept
    assert "| drain: us ÷ nobody | ≥ 2.2 | – | **not measured** |" in text


def test_each_gate_is_of_something_that_is_measured():
    """A gate whose row or quantity no step has would never be seen to fail."""
    plan = {step.name: step for step in steps(RUNNERS)}
    for bound in GATES:
        rows = {name for names, _ in plan[bound.table].rows for name in names}
        assert {bound.ours, bound.theirs} <= rows
        assert bound.quantity in plan[bound.table].quantities


def test_each_runner_has_its_program():
    """What `apps/` holds is what the runners name."""
    assert {runner.app for runner in RUNNERS} | {"producer.py"} == {
        path.name for path in APPS.iterdir() if path.is_file()
    }
    assert len(BY_NAME) == len(RUNNERS)


def test_what_cannot_be_installed_is_a_sentence(monkeypatch, tmp_path):
    """No npm, no apt-get: the runner is left out, and nothing else happens."""
    monkeypatch.setattr("benchmarks.peers.environment._NODE", tmp_path)
    monkeypatch.setattr("benchmarks.peers.environment._RUBY", tmp_path)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    for name, missing in (("BullMQ", "npm"), ("Sidekiq", "apt-get")):
        with pytest.raises(Missing, match=f"there is no {missing} on this machine"):
            install(BY_NAME[name])


def test_pairs_compare_within_each_pair():
    """The machine became half as fast after the first pair; B is a tenth slower than A in both."""
    said = pairs.line("drain", "jobs/s", [[(100.0, 90.0), (50.0, 45.0)]])
    assert "B ÷ A 0.900 (half of the pairs 0.900 to 0.900); 2 pairs" in said


def test_ways_are_compared_within_each_round():
    """The machine becomes half as fast after the first round; two hosts do 1.8 times as much as one in both."""
    order, speeds = [], {"one": [1.0, 100.0, 50.0], "two": [1.0, 180.0, 90.0]}

    def block(way):
        order.append(way)
        return {"speed": speeds[way].pop(0)}

    one, two = rounds("drain", ("one", "two"), 2, block)
    assert order == ["one", "two", "one", "two", "two", "one"]  # the first two warm up
    assert (one.name, one.value, one.note) == ("drain, speed, one", 75, "62.5 to 87.5")
    assert (two.value, two.note) == (135, "112 to 158; 1.8 × one (1.8 to 1.8)")


def test_namespaces_that_cannot_be_made_are_a_sentence(monkeypatch):
    """Without root, and without iproute2, nothing is begun."""
    for user, remedy in ((1000, "run this as root"), (0, "apt-get install iproute2")):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        monkeypatch.setattr("shutil.which", lambda _name: None)
        with pytest.raises(SystemExit, match=remedy), network("one"):
            pytest.fail("there is a network")


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


def test_two_trees_in_pairs():
    """One tree beside itself: each pair has both halves, each with a daemon of its own."""
    said = run("benchmarks.pairs", str(ROOT), str(ROOT), "latency", "--pairs", "1", "--daemons", "2", "--scale", "0.1")
    assert "B ÷ A" in said
    assert "2 pairs; daemons " in said


def test_the_proof_of_reliability_still_starts():
    """It shares the environment and the server with the rounds."""
    assert "--kills" in run("benchmarks.reliability", "--help")
