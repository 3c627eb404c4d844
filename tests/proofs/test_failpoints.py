"""Failpoints: what the variable may say, and that what it names is done."""

import ast
import asyncio
import importlib
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from tests import failpoints
from tests.failpoints import HOOK, LOG, STEPS, VARIABLE, Rule, parse
from tests.support.fusiond_command import fusiond

#: a program whose only step is one of the scheduler's
PROGRAM = """
import types
from fusiond import hook
class Ticker:
    def _decide(self):
        print("done", flush=True)
hook.run("scheduler", find=lambda module: types.SimpleNamespace(Ticker=Ticker))
Ticker()._decide()
"""


def place(step):
    """What a step's name stands for in the code."""
    found = importlib.import_module(f"fusiond.{step.module}")
    for part in step.name.split("."):
        found = getattr(found, part)
    return found


def program(rule, log, **more):
    """PROGRAM under a rule for its step."""
    log.touch()
    environment = {**os.environ, **HOOK, VARIABLE: f"tick.{rule}", LOG: str(log)}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True, **more)


def armed(monkeypatch, text, **functions):
    """The steps of a scheduler that is made of these functions, armed."""
    monkeypatch.setenv(VARIABLE, text)
    ticker, sweeper = (type(name, (), functions) for name in ("Ticker", "Sweeper"))
    failpoints.hook("scheduler", "", lambda _: types.SimpleNamespace(Ticker=ticker, Sweeper=sweeper))
    return ticker


def test_a_rule_is_a_point_an_action_and_a_probability():
    """Several are separated by commas; a probability that is not said is 1."""
    assert parse("settle.before:kill:0.01, reload.read.after:delay=0.5,fork.after:stop=2:1,claim.after:stop") == [
        Rule("settle", False, "kill", 0.0, 0.01),
        Rule("reload.read", True, "delay", 0.5, 1.0),
        Rule("fork", True, "stop", 2.0, 1.0),
        Rule("claim", True, "stop", 0.0, 1.0),
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("setle.before:kill", "there is no failpoint 'setle.before'; there are exchange, settle, "),
        ("settle:kill", "there is no failpoint 'settle'"),
        ("settle.during:kill", "there is no failpoint 'settle.during'"),
        ("settle.before:explode", "settle.before cannot 'explode'; there are kill, stop, stop=S, exit, raise, delay=S"),
        ("settle.before", "settle.before cannot ''"),
        ("settle.before:kill=3", "settle.before cannot 'kill=3'"),
        ("settle.before:delay", "settle.before cannot 'delay'"),
        ("settle.before:delay=soon", "'soon' is no seconds"),
        ("settle.before:stop=0", "'0' is no seconds"),
        ("settle.before:kill:2", "'2' is no probability; there are numbers above 0, up to 1"),
        ("settle.before:kill:0", "'0' is no probability"),
        ("settle.before:kill:nan", "'nan' is no probability"),
    ],
)
def test_what_means_nothing_is_refused_with_what_there_is(text, sentence):
    with pytest.raises(ValueError, match=r"^FUSIOND_FAILPOINTS: ") as refusal:
        parse(f"claim.before:kill,{text}")
    assert sentence in str(refusal.value)


def test_the_daemon_does_not_start_with_a_point_that_there_is_not(tmp_path):
    """A proof with a typing mistake would prove nothing."""
    (tmp_path / "fusion.yaml").write_text(f"version: 1\nstate_directory: {tmp_path}\nruntime_directory: {tmp_path}\n")
    ended = fusiond("run", "-c", "fusion.yaml", cwd=tmp_path, **HOOK, FUSIOND_FAILPOINTS="settle.befor:kill")
    assert ended.status != 0
    assert "there is no failpoint 'settle.befor'; there are exchange, settle, " in ended.err


@pytest.mark.parametrize("name", STEPS)
def test_each_step_is_a_function_that_is_there(name):
    """A step that was renamed would never fire again."""
    assert isinstance(place(STEPS[name]), types.FunctionType)


def test_the_file_runs_under_another_interpreter():
    """A fork server has it under the application's own Python, from 3.9 up, beside nothing but the standard library."""
    tree = ast.parse(Path(failpoints.__file__).read_text(), feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names


def test_a_step_that_does_not_fire_is_what_it_was(monkeypatch):
    """Its arguments and its result pass through, of coroutines and generators too."""

    def call(self, *, what):
        return what

    async def wait(self, what):
        await asyncio.sleep(0)
        return what

    def go(self, what):
        got = yield what
        return got

    never = "tick.before:raise:1e-12"
    assert armed(monkeypatch, never, _decide=call)()._decide(what=1) == 1
    assert asyncio.run(armed(monkeypatch, never, _decide=wait)()._decide(2)) == 2
    steps = armed(monkeypatch, never, _decide=go)()._decide(3)
    assert next(steps) == 3
    with pytest.raises(StopIteration, match="4"):
        steps.send(4)


def test_after_a_coroutine_is_when_it_has_ended(monkeypatch):
    """Not when it was made."""
    done = []

    async def wait(self):
        await asyncio.sleep(0)
        done.append(self)

    with pytest.raises(OSError, match="failpoint"):
        asyncio.run(armed(monkeypatch, "tick.after:raise", _decide=wait)()._decide())
    assert done


def test_a_probability_is_kept(monkeypatch):
    """One in four, within what chance allows once in a million runs."""
    ticker = armed(monkeypatch, "tick.before:raise:0.25", _decide=lambda _: None)
    fired = 0
    for _ in range(4000):
        try:
            ticker()._decide()
        except OSError:
            fired += 1
    assert abs(fired - 1000) < 135


def test_forks_of_one_process_do_not_draw_the_same(monkeypatch):
    """Each child of a fork server decides for itself."""
    ticker = armed(monkeypatch, "tick.before:exit:0.5", _decide=lambda _: None)
    statuses = set()
    for _ in range(40):
        pid = os.fork()
        if pid == 0:
            ticker()._decide()
            os._exit(0)
        statuses.add(os.waitpid(pid, 0)[1])
    assert len(statuses) == 2


@pytest.mark.parametrize(("action", "status"), [("kill", -signal.SIGKILL), ("exit", 1), ("raise", 1)])
def test_an_end_is_noted_before_it_comes(action, status, tmp_path):
    """The line names time, process, kind, place, point and action: what a second run of a job can be mapped to."""
    log = tmp_path / "log"
    with program(f"before:{action}", log, stderr=subprocess.DEVNULL) as process:
        assert process.wait() == status
        assert process.stdout.read() == ""
    at, pid, *rest = log.read_text().split()
    assert (int(pid), rest) == (process.pid, ["scheduler", "-", "tick.before", action])
    assert abs(float(at) - time.time()) < 60


def test_a_stop_lasts_until_it_is_continued(tmp_path):
    """It stops itself; the log says how long it is to be."""
    log = tmp_path / "log"
    with program("before:stop=2", log) as process:
        status = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert status.si_status == signal.SIGSTOP
        assert log.read_text().split()[-1] == "stop=2"
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == "done\n"
        assert process.wait() == 0


def test_a_failpoint_is_gone_with_its_log(monkeypatch, tmp_path):
    """So a harness ends the faults of a daemon that runs."""
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    ticker = armed(monkeypatch, "tick.before:raise", _decide=lambda _: 7)
    assert ticker()._decide() == 7
    (tmp_path / "log").touch()
    with pytest.raises(OSError, match="failpoint"):
        ticker()._decide()
