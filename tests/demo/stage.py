"""
Where the tour plays: a directory of its own and a daemon in it.

1. set up   a temporary directory, the sample tasks, the file
2. run      a real daemon, and commands as a person would type them
3. check    what was said against what happened
4. clear    the daemon ends, the directory goes, also after Ctrl-C
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from fusiond.cli.terminal.colours import paint

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
FUSIOND = [sys.executable, "-m", "fusiond.cli"]
T = TypeVar("T")
#: s; only a tour that stops is ever that long
PATIENCE = 90.0


class DidNotHappenError(Exception):
    """The tour cannot go on: what the next step needs did not come about."""


class Stage:
    """A context: enter sets up and starts the daemon, exit clears whatever happened."""

    def __init__(self) -> None:
        # Short, since a unix socket's path has at most 107 bytes.
        self.place = Path(tempfile.mkdtemp(prefix="fusion-tour-", dir="/tmp"))
        self.file = self.place / "fusion.yaml"
        self.log = self.place / "daemon.log"
        self.broken: list[str] = []
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FUSION")},
            "STATE_DIRECTORY": str(self.place / "state"),
            "RUNTIME_DIRECTORY": str(self.place / "run"),
            "FUSION_CONFIG": str(self.file),
            "PYTHONPATH": str(HERE.parent.parent),
        }
        self._daemon: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        # Terminated means cleared as well; Ctrl-C raises by itself.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        for name in ("shop.py", "fusion.yaml"):
            shutil.copy(HERE / name, self.place)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an impatient second Ctrl-C must not leave a daemon behind
        daemon = self._daemon
        if daemon is not None:
            for patience in (10, 5):  # warm, then cold
                if daemon.poll() is None:
                    daemon.terminate()
                    self._ended_within(patience)
            if daemon.poll() is None:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.place, ignore_errors=True)

    def _ended_within(self, seconds: float) -> None:
        assert self._daemon is not None
        try:
            self._daemon.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def start(self) -> None:
        """Start the daemon; its log goes to a file of the stage."""
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C in the terminal is for the tour, which then ends the daemon in order.
            self._daemon = subprocess.Popen(
                [*FUSIOND, "run"],
                cwd=self.place,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def alive(self) -> bool:
        """Whether the daemon runs."""
        return self._daemon is not None and self._daemon.poll() is None

    def say(self, *words: str, given: str | None = None) -> int:
        """Show a command and run it before the reader's eyes; returns its exit status."""
        print(paint(f"$ fusiond {' '.join(words)}", "bold"), flush=True)
        return subprocess.run(
            [*FUSIOND, *words], cwd=self.place, env=self._environment, input=given, text=True, check=False
        ).returncode

    def ask(self, *words: str) -> Any:
        """What a command answers under --json; None where it could not."""
        done = subprocess.run(
            [*FUSIOND, *words, "--json"], cwd=self.place, env=self._environment, capture_output=True, check=False
        )
        try:
            return json.loads(done.stdout)
        except ValueError:
            return None

    def until(self, what: str, probe: Callable[[], T | None]) -> T:
        """Ask until there is an answer that is true. Raises DidNotHappenError after PATIENCE."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = probe()
            if answer:
                return answer
            if not self.alive():
                raise DidNotHappenError(f"{what}: the daemon has ended")
            time.sleep(0.1)
        raise DidNotHappenError(f"{what}: not within {PATIENCE:g} s")

    def check(self, what: str, *, holds: bool) -> None:
        """One line that says whether it is so; what is not so makes the tour fail at its end."""
        print(f"  {paint('✓', 'green') if holds else paint('✗', 'red')} {what}", flush=True)
        if not holds:
            self.broken.append(what)
