"""Two instances on one machine: /etc/fusion-a.yaml and /etc/fusion-b.yaml."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.running import REAL, Running, until

FILE = """\
version: 1
broker: {{url: embedded}}
tasks: {{hello: {{run: fusiond.tasks.echo}}}}
workers: {{main: {{queues: [default], processes: {}}}}}
"""
#: of this machine's /etc, as far as it has them: what a process needs to start
NEEDED = ("passwd", "group", "nsswitch.conf", "ld.so.cache", "hosts")
#: puts the directories of $0 in the place of the machine's own, for this command alone
INSIDE = 'for each in etc var/lib run; do mount --bind "$0/$each" "/$each" || exit 77; done; exec "$@"'
UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


class Machine:
    """Directories of the system that are the test's own."""

    def __init__(self, root):
        self.root = root
        for name in ("etc", "var/lib", "run"):
            (root / name).mkdir(parents=True)
        for name in NEEDED:
            if Path("/etc", name).exists():
                shutil.copy(f"/etc/{name}", root / "etc" / name)
        self.prefix = (*UNSHARE, "sh", "-c", INSIDE, str(root))
        self.daemons = []

    def fusiond(self, *words):
        """A command on this machine; its exit status and what it printed."""
        words = [*self.prefix, *REAL, *words]
        done = subprocess.run(words, cwd="/", capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def start(self, name):
        """The daemon of an instance, ready."""
        daemon = Running((*self.prefix, *REAL))
        self.daemons.append(daemon)
        self.write(name, 1)
        daemon.file = f"/etc/fusion-{name}.yaml"
        daemon.state, daemon.runtime = (self.root / place / f"fusiond-{name}" for place in ("var/lib", "run"))
        return daemon.start()

    def write(self, name, processes):
        (self.root / "etc" / f"fusion-{name}.yaml").write_text(FILE.format(processes))


@pytest.fixture
def machine(tmp_path_factory):
    """A machine without a daemon; at the end no process of it is left."""
    machine = Machine(Path(tmp_path_factory.mktemp("m")))
    if subprocess.run([*machine.prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not permit a mount namespace")
    yield machine
    for daemon in machine.daemons:
        daemon.close()


def test_two_instances_share_nothing(machine):
    """Each has its file, its Redis and its sockets; commands mean the one that --instance names."""
    daemons = {name: machine.start(name) for name in "ab"}
    status, text = machine.fusiond("enqueue", "--instance", "a", "hello", "Ada", "--wait")
    assert (status, "Ada" in text) == (0, True), text
    finished = {}
    for name in "ab":
        status, text = machine.fusiond("status", "--instance", name, "--json")
        assert status == 0, text
        found = json.loads(text)
        assert found["daemon"]["pid"] == daemons[name].process.pid
        finished[name] = sum(queue["finished"] for queue in found["queues"])
    assert finished == {"a": 1, "b": 0}

    machine.write("b", 2)
    until(lambda: daemons["b"].status()["generation"] == 2, daemons["b"].text)
    assert daemons["a"].status()["generation"] == 1
    assert daemons["a"].stop() == 0
    assert machine.fusiond("health", "--live", "--instance", "a")[0] == 3
    assert machine.fusiond("health", "--ready", "--instance", "b")[0] == 0
