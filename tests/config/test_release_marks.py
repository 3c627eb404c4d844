"""What the paths of `reload_on` lead to, and what counts as a change of it."""

import os

from fusiond.config.release_marks import in_words, marks, switched


def test_a_directory_is_known_by_its_real_path(tmp_path):
    """What is created in it is no change; another target is, wherever on the way the link is."""
    for number in (1, 2):
        (tmp_path / str(number) / "app").mkdir(parents=True)
    link, below = tmp_path / "current", str(tmp_path / "current" / "app")
    link.symlink_to("1")
    before = marks([str(link), below])
    (tmp_path / "1" / "__pycache__").mkdir()
    os.utime(tmp_path / "1", (1, 1))
    assert marks(before) == before
    link.unlink()
    link.symlink_to(tmp_path / "2")
    now = marks(before)
    assert switched(before, now) == [str(link), below]
    root = os.path.realpath(tmp_path)
    assert in_words(before, now) == f"{link} leads to {root}/2, {below} leads to {root}/2/app"


def test_what_leads_to_nothing_is_no_release(tmp_path):
    """A link that is gone, dangles, or leads to itself; what was not there before counts once it is."""
    link = tmp_path / "current"
    (tmp_path / "1").mkdir()
    nothing = marks([str(link)])
    assert nothing == {str(link): None}
    link.symlink_to("1")
    there = marks(nothing)
    assert switched(nothing, there) == [str(link)]
    for target in ("gone", "current"):
        link.unlink()
        link.symlink_to(target)
        assert marks(nothing) == nothing
    assert switched(there, nothing) == switched(nothing, nothing) == []


def test_a_path_that_was_not_looked_at_before_is_no_change(tmp_path):
    """As that of a key which a running group has just got."""
    assert switched({}, marks([str(tmp_path)])) == []


def test_a_file_is_known_by_its_time_and_size(tmp_path):
    """`touch restart.txt`, and a REVISION of the same second."""
    path = tmp_path / "REVISION"
    path.write_text("1\n")
    first = marks([str(path)])
    os.utime(path, (5, 5))
    touched = marks(first)
    path.write_text("10\n")
    os.utime(path, (5, 5))
    assert switched(first, touched) == switched(touched, marks(first)) == [str(path)]
    assert in_words(first, touched) == f"{path} was changed"
