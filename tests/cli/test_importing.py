"""`fusiond import`, as a person runs it."""

from tests.support.fusiond_command import fusiond, fusiond_here
from tests.support.imported_file import DATA


def test_what_it_prints_is_a_file_that_validates(tmp_path):
    """`fusiond import … > fusion.yaml`, then `fusiond validate`."""
    done = fusiond("import", "crontab", DATA / "user.crontab", cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    (tmp_path / "fusion.yaml").write_text(done.out)
    assert fusiond_here("validate", "--elsewhere", cwd=tmp_path).status == 0


def test_it_reads_standard_input(tmp_path):
    """`crontab -l | fusiond import crontab -`."""
    done = fusiond_here("import", "crontab", "-", cwd=tmp_path, given="1 2 * * * /usr/bin/sync\n")
    assert done.status == 0
    assert 'schedule: "1 2 * * *"' in done.out


def test_a_file_that_cannot_be_read_or_imported_gets_a_sentence(tmp_path):
    """2 for a file that is not there, 1 for one that is something else; nothing is printed that could be a file."""
    gone = fusiond_here("import", "crontab", "gone", cwd=tmp_path)
    assert (gone.status, gone.out) == (2, "")
    assert "gone cannot be read: no such file or directory" in gone.err
    assert fusiond_here("import", "crontab", tmp_path, cwd=tmp_path).status == 2
    (tmp_path / "binary").write_bytes(b"\0\1\2")
    binary = fusiond_here("import", "kubernetes", "binary", cwd=tmp_path)
    assert (binary.status, binary.out) == (1, "")
    assert "binary is no text file" in binary.err
