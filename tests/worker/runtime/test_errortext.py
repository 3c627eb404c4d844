"""Whatever an exception does in its own formatting, its job fails with its type's name, and no attempt is a crash."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from fusiond.config.model import RetryPolicy
from fusiond.worker.runtime import errortext, payload
from tests.support.cases import few
from tests.support.standins import hostile_exceptions

#: kind of `hostile_exceptions.fail` -> how the type that the job fails with ends
NAMES = {
    "syntax": "SyntaxError",
    "notes": "ValueError",
    "chain": "ValueError",
    "exit": "hostile.EndsTheProcess",
    "recursion": "hostile.EndlessWords",
    "slow": "hostile.SlowWords",
    "properties": "hostile.RaisingProperties",
    "words": "hostile.OddWords",
    "class": "hostile.OddlyMade",
    "huge": "ValueError",
    "surrogates": "ValueError",
    "module": "OfNoModule",
    "name": "N" * 100,
    "nested": "ExceptionGroup",
}
TASKS = {name: {"run": f"hostile.{name}"} for name in ("fail", "give_result")}


@pytest.fixture
def place(place):
    shutil.copy(hostile_exceptions.__file__, place.app / "hostile.py")
    return place


@few("isolation", ["fork", "process"])
def test_hostile_exception_fails_its_job(place, isolation):
    """
    At the first attempt of a policy of one, with no crash counted, and the child serves on.

    The traceback is left out where the machine is too slow to format it in its time.
    """
    place.start(isolation=isolation, processes=2, tasks=TASKS)
    jobs = {kind: place.enqueue("fail", kind) for kind in NAMES}
    for kind, id_ in jobs.items():
        error, record = place.error(id_), place.job(id_)
        assert (error["code"], record.attempts, record.crashes) == ("EXCEPTION", 1, 0), (kind, error)
        assert error["type"].endswith(NAMES[kind]), (kind, error)
        assert len(error["type"]) <= errortext.MAX_NAME, kind
        assert len(error["message"]) <= errortext.MAX_MESSAGE, kind
        assert len(error["traceback"]) <= errortext.MAX_TRACEBACK, kind
        assert "in fail" in error["traceback"] or "not formatted within" in error["message"], (kind, error)
    assert place.result(place.enqueue("echo"))


def test_hostile_exception_is_retried_by_its_class(place):
    """Its policy's names match along the bases, whatever its class says of itself."""
    again = RetryPolicy(max_attempts=2, delay=0.01, retry_on=("no.Such", "Exception"))
    place.start(tasks={"fail": {"run": "hostile.fail", "retry": "again"}}, policies={"again": again})
    for kind in ("properties", "class"):
        id_ = place.enqueue("fail", kind)
        assert place.error(id_)["code"] == "EXCEPTION"
        assert place.job(id_).attempts == 2


def test_result_that_raises_leaves_no_circle(place):
    """A result whose class raises something odd while it is encoded spoils no later result of the same child."""
    place.start(processes=1, tasks=TASKS)
    assert place.error(place.enqueue("give_result"))["type"].endswith("EndsTheProcess")
    for _ in range(20):
        assert place.result(place.enqueue("echo", [1], {"a": []}))


@few("kind", sorted(NAMES.keys() - {"slow", "chain"}), 2)
def test_call_names_the_type(kind, tmp_path):
    """`fusiond call` ends with status 1, the name of the exception and the line that raised it."""
    shutil.copy(hostile_exceptions.__file__, tmp_path / "hostile.py")
    file = tmp_path / "fusion.yaml"
    file.write_text(
        f"version: 1\ntasks: {{hostile: {{run: hostile.fail}}}}\nworkers: {{a: {{directory: {tmp_path}}}}}\n"
    )
    called = subprocess.run(
        [sys.executable, "-P", "-m", "fusiond.cli", "call", "-c", str(file), "hostile", kind],
        check=False, capture_output=True, text=True, errors="replace", timeout=60,
        env={**os.environ, "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert called.returncode == 1, called
    assert NAMES[kind].rpartition(".")[2] in called.stderr
    assert "in fail" in called.stderr


def test_an_error_with_lone_surrogates_can_be_read_by_any_reader():
    """Such as a file name that is not UTF-8: Redis' own reader of JSON would refuse the whole error."""
    raw = payload.error_json("EXCEPTION", ValueError("no caf\udce9.csv \N{SNOWMAN}"))
    assert json.loads(raw)["message"] == "no caf\\udce9.csv \N{SNOWMAN}"
    assert all(character < "\ud800" or character > "\udfff" for text in json.loads(raw).values() for character in text)
