"""A daemon's id: random, in its state directory, one for ever."""

import threading

import pytest

from fusiond.errors import ConfigError
from fusiond.identity import daemon_id


def test_it_stays_and_is_each_directorys_own(tmp_path):
    """Whatever the host is called, and however often it is asked for."""
    other = tmp_path / "other"
    other.mkdir()
    assert daemon_id(tmp_path) == daemon_id(tmp_path) != daemon_id(other)
    assert len(daemon_id(other)) == 22


@pytest.mark.parametrize("text", ["", "short", "\n" * 22, "x" * 500, "a b" * 8])
def test_a_file_that_was_cut_short_is_written_anew(tmp_path, text):
    """A disk may have been full; what is no id would be read by nobody."""
    (tmp_path / "daemon-id").write_text(text)
    found = daemon_id(tmp_path)
    assert len(found) == 22
    assert daemon_id(tmp_path) == found


def test_programs_that_ask_at_once_agree(tmp_path):
    """The first one's id stays, and nothing else is left in the directory."""
    found, gate = set(), threading.Barrier(4)

    def ask():
        gate.wait()
        found.add(daemon_id(tmp_path))

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert len(found) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["daemon-id"]


def test_a_directory_that_is_missing_is_one_sentence(tmp_path):
    """Not a traceback."""
    with pytest.raises(ConfigError, match="daemon-id: No such file"):
        daemon_id(tmp_path / "none")
