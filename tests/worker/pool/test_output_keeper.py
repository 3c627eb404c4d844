"""What the jobs of a group print, in real files."""

import asyncio
import logging

import pytest

from fusiond.config.model import RETRY_POLICIES, Config, JobOutput, Task, WorkerGroup
from fusiond.kept_output.segments import START, pieces_behind, text_of
from fusiond.worker.pool.attempt import TAIL, Attempt
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.pool.output_keeper import OutputKeeper


@pytest.fixture
def kept(tmp_path):
    """What is kept of the job after `story(keeper, attempt)`."""

    def run(story, settings=JobOutput(), task="open", directory=tmp_path / "output"):  # noqa: B008 - frozen
        attempt = Attempt("q", b"a", "token", task.encode(), b"[]", b"", 1, 0, 0, 0, 0)

        async def play():
            tasks = {"open": Task("open", "x.y"), "shy": Task("shy", "x.y", output_ttl=None)}
            config = Config(tasks=tasks, retry_policies=RETRY_POLICIES, job_output=settings)
            keeper = OutputKeeper(GroupConfig(config, WorkerGroup("main")), directory)
            await story(keeper, attempt)
            keeper.close()

        asyncio.run(play())
        found = pieces_behind(directory, b"a", START) if directory.is_dir() else []
        return b"".join(text_of(directory, piece) for piece in found), bytes(attempt.output_tail or b"")

    return run


async def _two_lines(keeper, attempt):
    keeper.note(attempt, "one")
    keeper.note(attempt, "two\n  of two \ud800")


def test_lines_are_kept(kept):
    """Also the last ones, that were not written when the program ends; the end of them stays with the attempt."""
    assert kept(_two_lines) == (b"one\ntwo\n  of two ?\n",) * 2


def test_nothing_more_than_the_end_is_kept_without_the_key(kept):
    """As ever: Redis gets it if the attempt fails."""
    assert kept(_two_lines, None) == (b"", b"one\ntwo\n  of two ?\n")


def test_of_a_task_that_prints_secrets_nothing_is_kept(kept):
    """Nor its end."""
    assert kept(_two_lines, task="shy") == (b"", b"")


def test_an_attempt_that_prints_much_is_cut(kept):
    """What it has printed first is kept, and a line says that there was more; its end stays with the attempt."""

    async def story(keeper, attempt):
        for number in range(20_000):
            keeper.note(attempt, f"line {number}")

    text, tail = kept(story, JobOutput(max_per_attempt=1000))
    assert len(text) < 1200
    assert text.startswith(b"line 0\n")
    assert b"more than max_per_attempt of job_output" in text.splitlines()[-1]
    assert TAIL <= len(tail) <= 2 * TAIL
    assert tail.endswith(b"line 19999\n")


def test_a_disk_that_refuses_is_named_once(kept, tmp_path, caplog):
    """And ends nothing."""
    (tmp_path / "output").write_text("no directory")

    async def story(keeper, attempt):
        for _ in range(3):
            keeper.note(attempt, "line")
            keeper._write(keeper._taken())

    with caplog.at_level(logging.ERROR):
        assert kept(story)[0] == b""
    assert [record.message for record in caplog.records if "is not kept: " in record.message] == [
        f"what jobs print is not kept: File exists ({tmp_path / 'output'})"
    ]
