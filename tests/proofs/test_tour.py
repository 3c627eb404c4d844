"""What newcomers run first: the tour of `make demo`, and the files of the README and of getting-started."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from fusiond import paths
from fusiond.errors import ControlError
from fusiond.locate.control import ask
from tests.chaos.package import SELDOM_POLLS, copy
from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, alive, until

ROOT = Path(__file__).parents[2]


def tour():
    """The tour as `make demo` runs it, its output in a pipe."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.demo"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def left_behind(place):
    """Living processes that carry this directory in their command line."""
    marked = os.fsencode(place)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and alive(entry.name):
            try:
                if marked in (entry / "cmdline").read_bytes():
                    yield entry.name
            except OSError:
                continue


def test_the_tour_shows_what_it_says_and_clears_up():
    """Every check holds, its status is 0, and neither a process nor a file is left."""
    with tour() as process:
        said, _ = process.communicate(timeout=290)
    assert process.returncode == 0, said
    assert "✗" not in said
    assert said.count("✓") >= 12
    place = Path(re.search(r"in (/tmp/fusion-tour-\w+)", said)[1])
    assert not place.exists()
    until(lambda: not list(left_behind(place)))


def test_the_tour_can_be_stopped_at_any_time():
    """Ctrl-C in the middle: status 130, and neither a process nor a file is left."""
    with tour() as process:
        said = ""
        while "fusiond resume" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        place = Path(re.search(r"in (/tmp/fusion-tour-\w+)", said)[1])
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the tour and the command that it is running
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not place.exists()
    until(lambda: not list(left_behind(place)))


def blocks(page):
    """The fenced blocks of a page: (language, text)."""
    return re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])
def test_what_the_first_pages_show_runs(page, daemon_directory):
    """The file and the code as printed, the command as printed: the result is the one that is promised."""
    file = next(text for language, text in blocks(page) if language == "yaml")
    code = next(text for language, text in blocks(page) if language == "python")
    command = next(
        line for language, text in blocks(page) if language == "sh" for line in text.splitlines() if "--wait" in line
    )
    place, environment = daemon_directory
    (place / "fusion.yaml").write_text(file)
    (place / "shop.py").write_text(code)
    with running(place, environment):
        done = fusiond(*command.split("#")[0].split()[1:], cwd=place, **environment)
        assert (done.status, done.json) == (0, {"sent": "+4912345"}), done.err


def test_the_examples_own_commands_work(daemon_directory):
    """etc/fusion.yaml tells its reader what to type; each of these commands does what it is there for."""
    place, environment = daemon_directory
    (place / "etc").mkdir()
    for name in ("fusion.yaml", "fusion.tests.yml"):
        shutil.copy(ROOT / "etc" / name, place / "etc")
    head = (place / "etc" / "fusion.yaml").read_text().partition("In another terminal")[2].partition("version:")[0]
    lines = re.findall(r"^#   fusiond (.+?)(?: {3,}.*)?$", head, re.MULTILINE)
    assert len(lines) >= 3
    with running(place, environment, "etc/fusion.yaml"):
        for line in lines:
            done = fusiond(*shlex.split(line), cwd=place, **environment)
            assert done.status == 0, f"{line}: {done.err}"


def test_producers_do_as_their_page_shows(daemon_directory):
    """The page's Python runs as printed; its JSON, pushed with its script, is a job that runs at once."""
    place, environment = daemon_directory
    environment = {**environment, "PYTHONPATH": str(copy(place / "code", SELDOM_POLLS))}
    for name, page, language in (("fusion.yaml", "README.md", "yaml"), ("shop.py", "README.md", "python")):
        (place / name).write_text(next(text for found, text in blocks(page) if found == language))
    shown = dict(reversed(blocks("docs/producers.md")))  # the first of each language
    url = f"unix://{place}/run/redis/redis.sock"
    with running(place, environment):
        done = subprocess.run(
            [sys.executable, "-c", shown["python"]],
            cwd="/",
            env={**os.environ, "FUSION_URL": url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "{'sent': '+4912345'} finished" in done.stdout, done.stderr + (place / "log").read_text()
        with redis.Redis.from_url(url) as server:
            jobs = (text for language, text in blocks("docs/producers.md") if language == "json" and "otp-77" in text)
            pushed = next(jobs).replace("otp-77", "from-afar")
            server.eval(shown["lua"], 2, "fusion:{default}:inbox", "fusion:{default}:wake", pushed)
        # By the script's wake-up: no poll comes while this waits.
        until(lambda: from_afar(place, environment))


def from_afar(place, environment):
    jobs = fusiond("job", "list", "--status", "finished", "--json", cwd=place, **environment).json
    return any(job["key"] == "from-afar" for job in jobs)


@contextmanager
def running(place, environment, file="fusion.yaml"):
    """The daemon of this file in this place, ready."""
    with (place / "log").open("wb") as log:
        daemon = subprocess.Popen(
            [sys.executable, "-P", "-m", "fusiond.cli", "run", "-c", file],
            cwd=place,
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: ready(place), (place / "log").read_text, step=0.05)
        yield
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE)


def ready(place):
    try:
        return ask(paths.control_socket(place / "run"), "status")["ready"]
    except ControlError:
        return False


@pytest.fixture
def daemon_directory():
    """A short path, since a socket's may have 107 bytes, and the environment that keeps a daemon inside of it."""
    place = Path(tempfile.mkdtemp(prefix="fusion-page-", dir="/tmp"))
    yield place, {"STATE_DIRECTORY": f"{place}/state", "RUNTIME_DIRECTORY": f"{place}/run"}
    shutil.rmtree(place)
