"""`fusiond init`: what it writes runs, and nothing of a person's own is written over unasked."""

import os
import pty
import shlex

import pytest

from fusiond.cli import parser
from fusiond.starters import STARTERS
from tests.support.fusiond_command import fusiond, fusiond_here

WAYS = {way: [f"--{way}"] if way != "first" else [] for way in STARTERS}


def test_the_first_commands_of_a_newcomer(tmp_path):
    """A file that validates, and a task that runs."""
    assert fusiond_here("init", cwd=tmp_path).status == 0
    assert fusiond_here("validate", cwd=tmp_path).status == 0
    done = fusiond("call", "hello", "Ada", cwd=tmp_path)
    assert (done.status, done.out) == (0, 'hello Ada\n{"greeted": "Ada"}\n'), done.err


@pytest.mark.parametrize("way", WAYS)
def test_it_says_what_it_wrote_and_what_to_do_next(way, tmp_path):
    """Each file and nothing else; the commands that it prints exist."""
    done = fusiond_here("init", "new/place", *WAYS[way], cwd=tmp_path)
    assert done.status == 0, done.err
    written = [line.removeprefix("wrote ") for line in done.out.splitlines() if line.startswith("wrote ")]
    assert sorted(written) == sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert str(tmp_path / "new" / "place") in done.out
    for line in STARTERS[way].steps().replace("\\\n", "").splitlines():
        words = shlex.split(line, comments=True)
        if any(word.endswith("fusiond") for word in words[:-1]) and {"enqueue", "run", "validate"} & set(words):
            verb = next(number for number, word in enumerate(words) if word in ("enqueue", "run", "validate"))
            assert callable(parser().parse_args(words[verb:]).handler), line


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_differs_is_not_written_over_unasked(way, tmp_path):
    """Without a terminal it writes nothing at all; --yes writes; files that are as they were are not a question."""
    first, *others = STARTERS[way].templates
    fusiond_here("init", *WAYS[way], cwd=tmp_path)
    assert fusiond_here("init", *WAYS[way], cwd=tmp_path).status == 0
    (tmp_path / first).write_text("mine")
    (tmp_path / others[-1]).unlink()
    done = fusiond_here("init", *WAYS[way], cwd=tmp_path)
    assert (done.status, (tmp_path / first).read_text(), (tmp_path / others[-1]).exists()) == (2, "mine", False)
    assert first in done.err
    assert "--yes" in done.err
    assert fusiond_here("init", "--yes", *WAYS[way], cwd=tmp_path).status == 0
    assert (tmp_path / first).read_text() == STARTERS[way].texts()[first]


@pytest.mark.parametrize(("answer", "kept"), [("n\n", True), ("y\n", False)])
def test_a_person_is_asked(answer, kept, tmp_path, monkeypatch):
    """At a terminal."""
    (tmp_path / "fusion.yaml").write_text("mine")
    keyboard, terminal = pty.openpty()
    os.write(keyboard, answer.encode())
    monkeypatch.chdir(tmp_path)
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        options = parser().parse_args(["init"])
        if kept:
            with pytest.raises(Exception, match="nothing was done"):
                options.handler(options)
        else:
            options.handler(options)
    os.close(keyboard)
    assert ((tmp_path / "fusion.yaml").read_text() == "mine") is kept
