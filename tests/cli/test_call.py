import os
import pty
import select
import subprocess
import sys
import time

import pytest

from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE

SHOP = """
import asyncio, os, sys, task_like_ours


def send(number, code="0", job=None):
    return {"number": number, "code": code, "job": job}


def fail():
    def inner():
        raise ValueError("no stock")
    inner()


async def later():
    return "later"


def leave(code):
    sys.exit(code)


OPEN = []


def start_up():
    OPEN.append(("start_up", None))


async def start_up_later():
    OPEN.append(("start_up_later", asyncio.get_running_loop()))


def opened():
    return [OPEN[0][0], OPEN[0][1] is None]


async def opened_later():
    return [OPEN[0][0], OPEN[0][1] in (None, asyncio.get_running_loop())]


async def leave_later(code):
    sys.exit(code)


def deep():
    found = []
    for _ in range(5000):
        found = [found]
    return found


def strange():
    return {1, 2}


def where():
    return [os.getcwd(), os.environ.get("SHOP"), os.environ.get("SECRET"), sys.path[0]]


def which():
    import importlib.util
    return [sys.prefix, importlib.util.find_spec("fusiond") is not None]


def look():
    apples = 41
    breakpoint()
    return apples
"""
FILE = """
version: 1
defaults: {workers: {directory: ., environment: {SHOP: open}}}
tasks:
  send: {run: shop.send, pass_job: job, timeout: 7s}
  plain: {run: shop.send}
  fail: {run: shop.fail}
  later: {run: shop.later}
  strange: {run: shop.strange}
  leave: {run: shop.leave}
  leave_later: {run: shop.leave_later}
  deep: {run: shop.deep}
  where: {run: shop.where}
  look: {run: shop.look}
  which: {run: shop.which}
  gone: {run: shop.nothing}
workers: {main: {queues: ["*"]}}
"""


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    # A module of the user's may be called as one of ours is.
    (tmp_path / "task_like_ours.py").write_text("import task, wire, words\n")
    for name in ("task", "wire", "words"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "fusion.yaml").write_text(FILE)
    return tmp_path


def test_call_prints_the_result_as_json(shop):
    """Words become arguments, and what the task returns is all that is printed."""
    done = fusiond("call", "plain", "+49123", "code:=[1, null]", cwd=shop)
    assert (done.status, done.json, done.err) == (0, {"number": "+49123", "code": [1, None], "job": None}, "")
    assert fusiond("call", "later", cwd=shop).json == "later"


def test_call_runs_as_the_group_would(shop, tmp_path):
    """Directory and environment are the group's, wherever it is called; what it does not pass on is not there."""
    done = fusiond("call", "-c", shop / "fusion.yaml", "where", cwd="/", SECRET="x")
    assert done.json == [str(shop), "open", None, str(shop)]


@pytest.mark.parametrize("task", ["opened", "opened_later"])
@pytest.mark.parametrize("start", ["start_up", "start_up_later"])
def test_call_starts_as_a_child_does(shop, task, start):
    """The group's `on_start` comes first; a coroutine's loop is the task's, too."""
    text = FILE.replace("directory: .,", f"directory: ., on_start: shop.{start},")
    (shop / "fusion.yaml").write_text(
        text.replace(
            "tasks:\n", "tasks:\n" + "".join(f"  {name}: {{run: shop.{name}}}\n" for name in ("opened", "opened_later"))
        )
    )
    done = fusiond("call", task, cwd=shop)
    assert (done.status, done.json) == (0, [start, start == "start_up" or task == "opened_later"])


def test_call_runs_under_the_groups_interpreter(shop):
    """`python:` names an interpreter in which there is no fusiond at all."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", shop / "venv"], check=True)
    (shop / "fusion.yaml").write_text(FILE.replace("directory: .,", "directory: ., python: venv/bin/python,"))
    assert fusiond("call", "which", cwd=shop).json == [str(shop / "venv"), False]
    (shop / "fusion.yaml").write_text(FILE.replace("directory: .,", "directory: ., python: venv/bin/gone,"))
    done = fusiond("call", "which", cwd=shop)
    assert done.status == 1
    assert "workers.main.python" in done.err


def test_an_exception_is_the_tasks_own_traceback(shop):
    """Status 1, and no frame of ours above the task's."""
    done = fusiond("call", "fail", cwd=shop)
    assert done.status == 1
    assert done.err.splitlines()[-1] == "ValueError: no stock"
    assert done.err.count("File ") == done.err.count("shop.py") == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sennd"], "no task 'sennd'; did you mean 'send'?"),
        (["gone"], "module 'shop' has no 'nothing'"),
        (["plain"], "missing a required argument: 'number'"),
        (["strange"], "the result is not JSON"),
        (["deep"], "the result cannot be stored: "),
        (["plain", "1", "code:=x"], "code:=x is not JSON"),
        (["plain", "1", "--group", "mian"], "no worker group 'mian'; did you mean 'main'?"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(shop, words, says):
    """Status 1, the reason, no traceback."""
    done = fusiond("call", *words, cwd=shop)
    assert done.status == 1
    assert says in done.err
    assert "Traceback" not in done.err


def test_breakpoint_works(shop):
    """The debugger has the terminal: it shows a local variable, and goes on."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fusiond.cli", "call", "look"], cwd=shop, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        screen = read_until(ours, "(Pdb) ")
        os.write(ours, b"apples + 1\n")
        assert "42" in read_until(ours, "(Pdb) ")
        os.write(ours, b"continue\n")
        assert "41" in read_until(ours, "41\r\n")
        assert process.wait(PATIENCE) == 0, screen
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(descriptor, text):
    """What comes up to and with this text."""
    deadline, seen = time.monotonic() + PATIENCE, ""
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"no {text!r} in {seen!r}"
        seen += os.read(descriptor, 4096).decode()
    return seen
