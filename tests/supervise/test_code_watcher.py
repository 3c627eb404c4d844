"""What `fusiond dev` takes for a change to the code of a group."""

from fusiond.supervise.code_watcher import _find


def test_what_is_beside_the_code_is_no_code(tmp_path):
    """The directories above are watched too, `/tmp` for one: each file there would have all code read again."""
    root = tmp_path / "code"
    (root / "package").mkdir(parents=True)
    found = _find((str(root),))
    assert str(tmp_path) in found.directories
    assert not found.concerns(str(tmp_path / "other"))
    assert not found.concerns(str(tmp_path / "other.py"))
    for path in root, root / "package", root / "new", root / "package/tasks.py":
        assert found.concerns(str(path)), path
    assert not found.concerns(str(root / "some.log"))
