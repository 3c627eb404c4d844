"""FUSIOND_HOOK: a file that runs in each process of the daemon, and in none without the daemon's own variable."""

import os
import sys

import pytest

from fusiond import hook
from tests.support.fusiond_command import fusiond
from tests.support.running import Running, until

#: writes which process it runs in, beside itself
FILE = """
import os

def note(log, what):
    with open(log, "a") as file:
        file.write(what + "\\n")

def hook(process, name, find):
    note(__file__ + ".log", f"{process} {name}".strip())

def handed():
    return __file__ + ".log"

def main(control, setup):
    note(setup["hook"], "fork-server " + setup["group"])
    import sys
    sys.modules[__package__ + ".forkserver"].main(control, setup)
"""
BODY = """
broker: {{url: embedded}}
tasks: {{seen: {{run: os.getenv}}}}
workers:
  main: {{processes: 1, environment: {{{environment}}}}}
"""


@pytest.fixture
def daemon():
    running = Running()
    (running.directory / "own.py").write_text(FILE)
    yield running
    running.close()


def loaded(daemon):
    """The processes in which the file has run."""
    log = daemon.directory / "own.py.log"
    return set(log.read_text().splitlines()) if log.exists() else set()


def test_it_runs_in_each_process_of_the_daemon(daemon):
    """In the Redis' program and the fork server too, which find no package of ours; and the log says so."""
    path = str(daemon.directory / "own.py")
    daemon.start(BODY.format(environment=""), environment={hook.VARIABLE: path})
    every = {"supervisor", "redis", "scheduler", "dispatcher main", "fork-server main"}
    until(lambda: loaded(daemon) == every, daemon.text)
    assert f"FUSIOND_HOOK is set: {path} runs in each process of this daemon" in daemon.text()


def test_a_groups_environment_does_not_load_it(daemon):
    """The variable is the daemon's own alone: whoever writes the group's environment runs nothing in the dispatcher."""
    daemon.start(BODY.format(environment=f"FUSIOND_HOOK: {daemon.directory / 'own.py'}"))
    assert loaded(daemon) == set()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("own.py", "FUSIOND_HOOK: 'own.py' is not an absolute path"),
        ("/no/such.py", "No such file or directory: '/no/such.py'"),
        ("/etc/hostname", "FUSIOND_HOOK: /etc/hostname is not a Python file"),
    ],
)
def test_a_value_that_names_no_file_of_python_ends_the_start(value, sentence, tmp_path):
    """A proof whose hook was not loaded would prove nothing."""
    (tmp_path / "fusion.yaml").write_text(f"version: 1\nstate_directory: {tmp_path}\nruntime_directory: {tmp_path}\n")
    ended = fusiond("run", "-c", "fusion.yaml", cwd=tmp_path, FUSIOND_HOOK=value)
    assert ended.status != 0
    assert sentence in ended.err
    assert "Traceback" not in ended.err


def test_without_the_variable_nothing_is_loaded(monkeypatch):
    """A fork server is handed no more than its own sources."""
    monkeypatch.delenv(hook.VARIABLE, raising=False)
    assert hook.path() is None
    assert hook.handed() is None
    hook.run("scheduler", find=sys.exit)
    assert hook.VARIABLE not in os.environ
