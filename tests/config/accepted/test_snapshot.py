"""The snapshot file: who may read it, what a failure leaves, and what is refused."""

import os
import stat
import subprocess
import sys

import pytest

from fusiond.config.accepted import snapshot
from fusiond.config.model import Config, Queue, Task
from fusiond.errors import ConfigError

ONE = Config(tasks={"a": Task("a", "x.y")})
TWO = Config(tasks={"a": Task("a", "x.z")}, queues={"default": Queue("default"), "ü": Queue("ü", max_length=3)})


def test_only_the_owner_can_read_it_whatever_the_umask(tmp_path):
    """A Config may hold secrets."""
    before = os.umask(0)
    try:
        snapshot.write(tmp_path / "s.json", ONE, generation=1)
        snapshot.write(tmp_path / "s.json", TWO, generation=2)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "s.json").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


def test_promote_keeps_the_one_before(tmp_path):
    """Candidate -> current -> last good, by renames; if both say the same, the last good one stays."""
    current, last_good, candidate = (tmp_path / name for name in ("current.json", "last-good.json", "candidate-1.json"))
    for number, config in enumerate((ONE, TWO, TWO), 1):
        assert snapshot.next_generation(current) == number
        snapshot.write(candidate, config, generation=number)
        snapshot.promote(candidate, current, last_good)
    assert (snapshot.read_snapshot(current).config, snapshot.next_generation(current)) == (TWO, 4)
    assert snapshot.read_snapshot(last_good).config == ONE
    assert not candidate.exists()


def test_a_write_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    """A full disk costs neither the old snapshot nor a stray file."""
    snapshot.write(tmp_path / "s.json", ONE, generation=1)

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        snapshot.write(tmp_path / "s.json", TWO, generation=2)
    assert snapshot.read_snapshot(tmp_path / "s.json").config == ONE
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "damaged"),
        (b"\xff", "damaged"),
        (b'{"generation": 1', "damaged"),
        (b"{}", "not a snapshot of this version"),
        (b"[]", "not a snapshot of this version"),
        (b'{"generation": 1, "hash": "x", "config": {"bogus": 1}}', "not a snapshot of this version"),
    ],
)
def test_what_is_no_snapshot_is_refused_in_one_sentence(tmp_path, content, what):
    """Damage is told from another version, which is not guessed at; numbering starts again."""
    path = tmp_path / "s.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"{what} .*restart the daemon"):
        snapshot.read_snapshot(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        snapshot.read_snapshot(tmp_path / "none.json")
    assert snapshot.next_generation(path) == 1


def test_programs_read_their_snapshot_without_yaml(tmp_path):
    """A program loads neither a parser nor the schema to know its configuration."""
    snapshot.write(tmp_path / "s.json", ONE, generation=1)
    code = (
        "import sys; from fusiond.config.accepted.snapshot import read_snapshot; read_snapshot(sys.argv[1]);"
        "import fusiond.config.units, fusiond.config.accepted.plan, fusiond.config.problems;"
        "print(sorted({'yaml', 'jsonschema', 'croniter'} & {name.split('.')[0] for name in sys.modules}))"
    )
    command = [sys.executable, "-P", "-c", code, str(tmp_path / "s.json")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
