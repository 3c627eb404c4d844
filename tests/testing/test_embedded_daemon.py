import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fusiond import Client, FusionError, JobStatus, QueueFull, outbox
from fusiond.testing import embedded
from tests.support.running import until

FILE = """
version: 1
broker: {url: "redis://nowhere.invalid"}
state_directory: /nowhere/state
queues: {narrow: {max_length: 2}}
tasks:
  add: {run: shop.add}
  more: {run: shop.more}
  slow: {run: shop.slow}
  narrow: {run: shop.add, queue: narrow, unique: {by: [args.0], until: ended}}
cron:
  often: {task: slow, schedule: "* * * * *"}
flows: {two: {steps: {a: {task: slow}, b: {task: slow, after: [a]}}}}
workers:
  main: {queues: "*", directory: /nowhere/app, user: nobody-at-all, processes: 8, hosts: [elsewhere]}
"""
SHOP = """
import time
from fusiond import Client

def add(first, second=0):
    return first + second

def more(number):
    with Client() as jobs:
        return jobs.enqueue("add", number).name

def slow():
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    app = tmp_path_factory.mktemp("app")
    (app / "fusion.yaml").write_text(FILE)
    (app / "shop.py").write_text(SHOP)
    with embedded(app / "fusion.yaml", workers={"directory": app}) as daemon:
        yield daemon


def test_jobs_run_in_its_workers(daemon):
    """Whatever Redis the clients and the file name; a task's own client finds the same one."""
    early = Client("redis://nowhere.invalid")
    with daemon.in_use():
        assert early.enqueue("add", 1, second=2).result(timeout=60) == 3
        name = Client().enqueue("more", 5).result(timeout=60)
        assert early.job(name).result(timeout=60) == 5
        daemon.wait_until_idle()
        assert early.counts()["default"].finished == 3


def test_what_is_inserted_into_an_outbox_runs_at_once(daemon):
    """No row is written, and no commit is waited for."""
    with daemon.in_use(), contextlib.closing(sqlite3.connect(":memory:")) as database:
        id_ = outbox.enqueue(database, "add", 1, second=2)
        assert Client().job(f"default/{id_}").result(timeout=60) == 3


def test_nothing_is_left_behind_a_test(daemon):
    """Jobs that run, wait, or have ended, locks, keys and runs of flows are gone; the daemon serves on."""
    with Client(daemon.url) as outside:
        with daemon.in_use():
            jobs = Client()
            running = jobs.enqueue("slow")
            kept = jobs.options(key="once").enqueue("add", 1)
            kept.result(timeout=60)
            jobs.options(delay="1h").enqueue("narrow", 1)
            jobs.options(after=[running]).enqueue("add", 2)
            jobs.run_flow("two")
            until(lambda: running.status() is JobStatus.STARTED)
        counts = outside.counts()
        assert {(each.queued, each.started, each.deferred, each.scheduled) for each in counts.values()} == {
            (0, 0, 0, 0)
        }
        assert {(each.finished, each.failed, each.canceled) for each in counts.values()} == {(0, 0, 0)}
        with daemon.in_use():
            again = jobs.options(key="once").enqueue("add", 1)
            assert again.result(timeout=60) == 1
            assert not jobs.options(delay="1h").enqueue("narrow", 1).existing
            with pytest.raises(QueueFull):
                jobs.enqueue_many([("narrow", [n]) for n in range(5)])


def test_it_leaves_nothing_behind_a_killed_test(tmp_path):
    """The daemon and its directory are gone when the process that asked for it is."""
    (tmp_path / "fusion.yaml").write_text("version: 1\ntasks: {t: {run: os.getcwd}}\nworkers: {main: {}}\n")
    program = (
        "import time\nfrom fusiond.testing import embedded\n"
        "with embedded() as daemon:\n    print(daemon.url, flush=True)\n    time.sleep(600)\n"
    )
    test = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    directory = Path(test.stdout.readline().removeprefix("unix://")).parents[2]
    assert (directory / "log").exists()
    pids = _processes(directory)
    assert pids
    os.kill(test.pid, signal.SIGKILL)
    test.communicate()
    until(lambda: not directory.exists() and not _processes(directory))


def test_a_daemon_that_cannot_serve_says_why(tmp_path, monkeypatch):
    """A task that does not load: the error names it, and nothing is left."""
    monkeypatch.setattr("fusiond.testing.embedded_daemon._SETTLED", 0.5)
    (tmp_path / "fusion.yaml").write_text("version: 1\ntasks: {t: {run: no_such_module.f}}\nworkers: {main: {}}\n")
    with (
        pytest.raises(FusionError, match=r"worker:main.*no module named 'no_such_module'") as error,
        embedded(tmp_path / "fusion.yaml"),
    ):
        pass
    directory = re.search(r"state directory (/tmp/fusiond-test-\w+)", str(error.value))[1]
    assert not Path(directory).exists()


def _processes(directory):
    """The pids of those whose command line names the directory."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(directory).encode() in entry.read_bytes():
                found.add(int(entry.parent.name))
    return found
