"""What a fork server is started with: environment, its files, descriptors."""

import gc
import os
import pwd
import resource
import tempfile
import venv
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fusiond.config.model import Config, WorkerGroup
from fusiond.worker.pool.fork_server.launch import environment, launch
from tests.support.running import PATIENCE


@pytest.fixture
def no_garbage():
    """What earlier tests have left is collected before, and not meanwhile, which would close its descriptors."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_environment_wins_nearest_first(tmp_path):
    """Own variables over files, later files over earlier ones, files over what is passed on, that over the rest."""
    for name, text in (("one", "A=one\nB=one\nC=one\nD=one"), ("two", "B=two\nC=two")):
        (tmp_path / name).write_text(text)
    group = WorkerGroup(
        "g",
        environment={"C": "own"},
        environment_file=(str(tmp_path / "one"), str(tmp_path / "two")),
        pass_environment=("D", "E_*"),
    )
    found = environment(group, {"D": "daemon", "E_1": "e", "SECRET": "s", "PATH": "/p", "TZ": "Z", "HOME": "/h"})
    assert {
        "A": "one",
        "B": "two",
        "C": "own",
        "D": "one",
        "E_1": "e",
        "PATH": "/p",
        "TZ": "Z",
    }.items() <= found.items()
    assert "SECRET" not in found
    assert found["HOME"] == pwd.getpwnam(found["USER"]).pw_dir


def test_programs_of_the_groups_virtual_environment_are_found_first(tmp_path):
    """As in a shell that has activated it. Another interpreter, and a PATH of the file, leave PATH as it is."""
    venv.create(tmp_path / ".venv", symlinks=True)
    python = str(tmp_path / ".venv/bin/python")

    def path(**keys):
        return environment(WorkerGroup("g", **keys), {"PATH": "/usr/bin:/bin"}, {})["PATH"]

    assert path(python=python) == f"{tmp_path}/.venv/bin:/usr/bin:/bin"
    assert path(python=python, environment={"PATH": "/opt/bin"}) == "/opt/bin"
    assert path(python=str(tmp_path / "bin/python")) == path() == "/usr/bin:/bin"


def test_environment_of_another_user():
    """HOME and USER are the group's."""
    found = environment(WorkerGroup("g", user="nobody"), {"HOME": "/root", "USER": "root"})
    assert found["USER"] == found["LOGNAME"] == "nobody"
    assert found["HOME"] != "/root"


def test_environment_file_that_is_no_text(tmp_path):
    """As one that cannot be read."""
    (tmp_path / "e").write_bytes(b"NAME=caf\xe9\n")
    with pytest.raises(OSError, match="not UTF-8"):
        environment(WorkerGroup("g", environment_file=(str(tmp_path / "e"),)), {})


@pytest.mark.parametrize(
    "group",
    [
        WorkerGroup("g", directory="/no/such/directory"),
        WorkerGroup("g", user="no-such-user"),
        WorkerGroup("g", environment_file=("/no/such/file",)),
    ],
)
@pytest.mark.usefixtures("no_garbage")
def test_a_start_that_fails_leaves_no_descriptor(group):
    """It is tried again and again."""
    before = descriptors()
    for _ in range(3):
        with pytest.raises((OSError, LookupError)):
            launch(Config(), group)
    assert descriptors() == before


@pytest.mark.usefixtures("no_garbage")
@pytest.mark.parametrize("left", range(1, 9))
def test_a_start_for_which_there_are_too_few_descriptors_leaves_none(tmp_path, left):
    """Wherever it comes to its end; it is tried again and again."""
    with few_descriptors(left):
        before = descriptors()
        for _ in range(2):
            with pytest.raises(OSError, match="Too many open files"):
                launch(Config(), WorkerGroup("g", directory=str(tmp_path)))
        assert descriptors() == before


@contextmanager
def few_descriptors(left):
    """As long as this lasts, so many more can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, descriptors()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 20, hard))
    taken = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(left):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


def descriptors():
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_nothing_secret_is_in_the_arguments(tmp_path):
    """Whoever may list processes reads no variable of the group's."""
    launched = launch(Config(), WorkerGroup("g", directory=str(tmp_path), environment={"KEY": "very-secret"}))
    try:
        while (packet := _receive(launched.control)) is None:
            assert b"very-secret" not in Path(f"/proc/{launched.process.pid}/cmdline").read_bytes()
        assert packet.startswith(b"ready")
    finally:
        launched.control.close()
        os.close(launched.output)
        assert launched.process.wait(PATIENCE) == 0


def _receive(control):
    try:
        return control.recv(1 << 17)
    except BlockingIOError:
        return None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("closed", [True, False], ids=["directory", "interpreter"])
def test_an_interpreter_that_the_user_may_not_run_is_answered_with_a_remedy(closed):
    """As one below root's home; it says what the user may not do, and what helps."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name).resolve()
        directory.chmod(0o700 if closed else 0o755)
        python = directory / "python3"
        python.write_text("")
        launched = launch(Config(), WorkerGroup("g", user="nobody", directory="/", python=str(python)))
        launched.control.close()
        assert launched.process.wait(PATIENCE) == 126
        said = os.read(launched.output, 1 << 16).decode()
        os.close(launched.output)
    why = f"user nobody may not {f'enter {directory}' if closed else 'run it'}"
    assert said.startswith(f"{python}: Permission denied; {why}: change its mode, or set `python`")


def test_environment_of_a_number_that_is_no_user(monkeypatch):
    """A container's daemon may run as any number; another `user` has to be there."""
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    found = environment(WorkerGroup("g"), {"HOME": "/app"})
    assert (found["USER"], found["LOGNAME"], found["HOME"]) == ("54321", "54321", "/app")
    assert environment(WorkerGroup("g"), {})["HOME"] == "/"
    with pytest.raises(KeyError):
        environment(WorkerGroup("g", user="nobody-at-all"), {})
