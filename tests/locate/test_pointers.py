"""Pointers: which are found, whose are believed, and who may listen where they lead."""

import dataclasses
import json
import multiprocessing
import os
import socket
from pathlib import Path

import pytest

from fusiond import paths
from fusiond.client import Client
from fusiond.errors import BrokerUnavailable, ControlError
from fusiond.locate import pointers
from fusiond.locate.find_daemons import locate

NOBODY = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Pointers of this test alone."""
    monkeypatch.setattr(paths, "temporary", lambda uid: tmp_path / f"fusiond-{uid}")
    return tmp_path


@pytest.fixture
def file(place):
    path = place / "fusion.yaml"
    path.write_text("version: 1\n")
    return path


def pointer(file, runtime="/nowhere", *, development=False):
    return pointers.Pointer(str(file), str(runtime), "/nowhere", development)


def test_a_pointer_is_found_by_each_name_of_its_file_while_it_is_left(place, file):
    """By the path as named, by a symlink and by the real path; not by another file, and not afterwards."""
    link = place / "link.yaml"
    link.symlink_to(file)
    with pointers.left(pointer(link)):
        assert pointers.find(link) == pointers.find(file) == [pointer(link)]
        assert pointers.find(place / "other.yaml") == []
        # A switched link means the file that it leads to now.
        other = place / "other.yaml"
        other.touch()
        link.unlink()
        link.symlink_to(other)
        assert pointers.find(other) == pointers.find(link) == [pointer(link)]
        assert pointers.find(file) == []
    assert pointers.find(link) == []


def test_a_new_daemon_removes_the_pointers_of_those_before_it(place, file):
    """What leads to its own socket, and what leads to a directory that is gone."""
    runtime = place / "run"
    runtime.mkdir()
    old, gone = pointer("/old.yaml", runtime), pointer("/gone.yaml", place / "gone")
    with pointers.left(old), pointers.left(gone), pointers.left(pointer(file, runtime)):
        assert pointers.find(Path("/old.yaml")) == pointers.find(Path("/gone.yaml")) == []
        assert pointers.find(file) == [pointer(file, runtime)]


def test_a_place_that_another_files_daemon_has_is_no_place_of_ours(place, file, monkeypatch):
    """Both files name it; a producer's jobs go to neither by mistake."""
    runtime = place / "run"
    runtime.mkdir()
    file.write_text(f"version: 1\nruntime_directory: {runtime}\n")
    monkeypatch.setenv("FUSION_CONFIG", str(file))
    with pointers.left(pointer("/other.yaml", runtime)):
        assert pointers.other_file(runtime, file) == "/other.yaml"
        with pytest.raises(BrokerUnavailable, match=r"belongs to the daemon of /other\.yaml"):
            Client()
        with pointers.left(pointer(file, runtime)):
            assert pointers.other_file(runtime, file) == ""
            Client().close()


@root_only
def test_a_pointer_of_another_user_is_not_believed(place, file):
    """Neither in root's directory, nor in one of its own, unless the file is its own."""
    with pointers.left(pointer(file)):
        (note,) = paths.pointers(0).iterdir()
        os.chown(note, NOBODY, -1)
        assert pointers.find(file) == []
    theirs = paths.pointers(NOBODY)
    theirs.mkdir(parents=True)
    (theirs / "x.json").write_text(json.dumps(dataclasses.asdict(pointer(file, "/x"))))
    for path in (theirs.parent, theirs, theirs / "x.json"):
        os.chown(path, NOBODY, -1)
    assert pointers.find(file) == []
    os.chown(file, NOBODY, -1)
    assert pointers.find(file) == [pointer(file, "/x")]


@root_only
def test_a_directory_that_another_user_has_made_is_not_used(place, file):
    """The daemon goes on without a pointer."""
    directory = paths.temporary(0)
    directory.mkdir()
    os.chown(directory, NOBODY, -1)
    with pytest.raises(OSError, match="another user"), pointers.left(pointer(file)):
        pass


@root_only
def test_another_users_socket_is_not_asked(place, file):
    """A stale pointer of root's leads to a place where somebody else listens now: a sentence, and not a byte sent."""
    runtime = place / "run"
    runtime.mkdir()
    runtime.chmod(0o777)
    place.chmod(0o755)
    ready, asked = multiprocessing.Event(), multiprocessing.Queue()

    def listen():
        os.setuid(NOBODY)
        with socket.socket(socket.AF_UNIX) as fake:
            fake.bind(str(paths.control_socket(runtime)))
            fake.listen()
            ready.set()
            client, _ = fake.accept()
            asked.put(client.recv(100))

    attacker = multiprocessing.get_context("fork").Process(target=listen)
    parents = [parent for parent in place.parents if parent.stat().st_mode & 0o001 == 0]
    for parent in parents:
        parent.chmod(parent.stat().st_mode | 0o011)
    attacker.start()
    try:
        assert ready.wait(20)
        with pointers.left(pointer(file, runtime)):
            found = locate(file, lambda: None)
        assert (found.production, found.development) == ([], [])
        (error,) = found.refused
        assert isinstance(error, ControlError)
        assert f"user {NOBODY} listens there" in str(error)
        assert asked.get(timeout=20) == b""
    finally:
        attacker.kill()
        attacker.join()
