"""`fusiond import`, as a person runs it."""

import sys
from importlib import import_module

from fusiond.cli import importing
from fusiond.importing import finished_file
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
    assert "binary is not a text file" in binary.err


def test_it_says_which_application_it_runs_and_with_what(tmp_path):
    """Before it does; a relative interpreter is looked for from here, and the application from its directory."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "jobs.py").write_text("print('it runs')\nQUEUES = ['mail']\n")
    done = fusiond("import", "rq", "jobs", "--directory", "shop", "--python", "bin/python", cwd=tmp_path)
    assert done.err.splitlines() == [
        f"loads jobs in {tmp_path / 'shop'} with {tmp_path / 'bin' / 'python'}: that runs its code",
        "it runs",
    ]
    assert "mail: {}" in done.out


def test_only_applications_can_be_read_without_a_run(tmp_path):
    """`--static`."""
    done = fusiond_here("import", "crontab", "f", "--static", cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert "--static applies to celery and rq" in done.err


def test_each_runner_of_the_command_has_its_reader():
    """The command's words are a constant of their own, so that the help loads no reader."""
    assert list(finished_file.RUNNERS) == list(importing._RUNNERS)
    assert all(callable(import_module(f"fusiond.importing.{name}").read) for name in finished_file.RUNNERS.values())
