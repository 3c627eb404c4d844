"""What the paths of `reload_on` lead to, and what counts as a change of it."""

import os

from fusiond.config.release_marks import in_words, marks, release_name, switched


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


def test_the_name_of_a_release_is_text_whatever_its_path(tmp_path):
    """It goes into Redis and into messages, which hold UTF-8."""
    release, link = tmp_path / os.fsdecode(b"rel\xff1"), tmp_path / "current"
    release.mkdir()
    link.symlink_to(release)
    assert release_name(str(link), {}).encode().endswith(b"/rel\\udcff1")


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
