"""A daemon's id: random, in its state directory, one for ever."""

import threading

from fusiond.identity import daemon_id


def test_it_stays_and_is_each_directorys_own(tmp_path):
    """Whatever the host is called, and however often it is asked for."""
    other = tmp_path / "other"
    other.mkdir()
    assert daemon_id(tmp_path) == daemon_id(tmp_path) != daemon_id(other)
    assert len(daemon_id(other)) == 22


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
