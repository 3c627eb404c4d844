"""
I17: each command with `-c FILE` acts on that file's daemon, or on none.

1. two daemons   of two files with directories of their own; each has a generation to go back to
2. trouble       one file is broken, moved, or names the other's directories; its daemon is killed; pointers lie
3. commands      with `-c` of the file in trouble
4. judge         the other daemon's generation, reloads, jobs and suspended queues must not have changed

`python -m tests.chaos.addressing` carries all of it out; the slice in `make test` draws some commands for each trouble.
"""

import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from fusiond import paths
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.config import model
from fusiond.locate import pointers
from tests.chaos import repeat
from tests.chaos.package import copy
from tests.support.running import Running, until

BODY = "broker: {url: embedded}\ntasks: {echo: {run: fusiond.tasks.echo}}\nworkers: {main: {max_jobs: %d}}\n"
COMMANDS = (
    ("rollback",),
    ("reload",),
    ("reload", "--code"),
    ("enqueue", "echo", "1"),
    ("suspend", "default"),
    ("requeue", "--all"),
    ("rollback", "--dev"),
    ("enqueue", "--dev", "echo", "1"),
)


class Pair:
    """Two daemons: the file that is in trouble, and the one beside it."""

    def __init__(self, code):
        self.environment = {"PYTHONPATH": str(code)} if code else {}
        self.hurt, self.beside = Running(), Running()

    def start(self):
        for daemon in (self.hurt, self.beside):
            daemon.start(BODY % 7, environment=self.environment)
            assert daemon.reload(BODY % 8)["result"] != "refused", daemon.text()

    def close(self):
        for daemon in (self.hurt, self.beside):
            daemon.close()

    def command(self, *words):
        """Its output and exit status; the file is that of the daemon in trouble."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FUSION")}
        return subprocess.run(
            [sys.executable, "-P", "-m", "fusiond.cli", words[0], "-c", str(self.hurt.file), *words[1:]],
            cwd=self.beside.directory,
            env=environment | self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def beside_now(self):
        """What a command could have changed of the daemon beside."""
        status = self.beside.status()
        with connect(model.Broker(url=self.beside.url), Path("/")) as connection:
            counts = connection.run(Verbs().counts("default"))
        return status["generation"], status["reloads"], status["pid"], counts

    # -- troubles: each leaves the file, its daemon or its pointers in another state -----------------------------------

    def nothing(self):
        """All is as it should be."""

    def broken(self):
        """The file cannot be read at all."""
        self.hurt.file.write_text("queues: [\n")

    def broken_beside(self):
        """The file is wrong, and names the directories of the other."""
        self.hurt.file.write_text(self.beside.head() + "queus: {}\n")

    def valid_beside(self):
        """The file is right, and names the directories of the other."""
        self.hurt.file.write_text(self.beside.head() + BODY % 9)

    def gone(self):
        """The file was moved away."""
        self.hurt.file.replace(self.hurt.directory / "moved.yaml")

    def killed(self):
        """No daemon runs the file, which names the directories of the other; its pointer is still there."""
        self.hurt.kill(self.hurt.process.pid)
        self.hurt.process.wait()
        until(lambda: not self.hurt.children())
        self.hurt.file.write_text(self.beside.head() + BODY % 9)

    def lying_pointer(self):
        """The dead daemon's pointer leads to a place that the other has taken since."""
        note = pointers.Pointer(
            str(self.hurt.file), str(self.beside.runtime), str(self.beside.state), development=False
        )
        name = f"{paths.own_name(self.hurt.file)}-{os.getpid()}.json"
        path = paths.pointers(os.geteuid()) / name
        path.write_text(json.dumps(dataclasses.asdict(note)))
        self.hurt.seen_pointer = path


TROUBLES = ("nothing", "broken", "broken_beside", "valid_beside", "gone", "killed", "lying_pointer")


def violations(edits=(), seed=0, commands=1, troubles=TROUBLES):
    """
    What the commands did to the daemon beside.

    Args:
        edits: of the code that daemons and commands run.
        seed: of the choice among the commands.
        commands: how many of them under each trouble; `rollback` is one of them.
        troubles: which of them, in this order.
    """
    rand, found = random.Random(seed), []
    with tempfile.TemporaryDirectory() as place:
        pair = Pair(copy(Path(place), tuple(edits)) if edits else None)
        try:
            pair.start()
            for trouble in troubles:
                getattr(pair, trouble)()
                chosen = [COMMANDS[0], *rand.sample(COMMANDS[1:], commands - 1)]
                found += _judge(pair, trouble, chosen)
        finally:
            getattr(pair.hurt, "seen_pointer", Path("/nowhere")).unlink(missing_ok=True)
            pair.close()
    return found


def _judge(pair, trouble, commands):
    found = []
    for words in commands:
        before = pair.beside_now()
        done = pair.command(*words)
        if pair.beside_now() != before:
            found.append(f"I17 {' '.join(words)} acted on another file's daemon ({trouble}): {done.stdout[:200]!r}")
    return found


if __name__ == "__main__":
    sys.exit(repeat.main("addressing", __doc__, partial(violations, commands=len(COMMANDS)), times=1))
