"""
One runner under one schedule.

1. start    a Redis (AOF everysec), the workers under a service manager, and one job: once that has run, all is ready
2. load     the producer enqueues, and notes what was acknowledged
3. kill     as the schedule says; where nobody of the kind is there, as soon as somebody is
4. wait     until no job waits any more; then a fixed time, the same for all, for what the runner takes back by itself
5. tally    the lines
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
from typing import TYPE_CHECKING

from benchmarks.daemon import installed
from benchmarks.reliability.runners import CHILDREN, FILE, Runner
from benchmarks.reliability.tally import Tally, tally
from benchmarks.reliability.victims import victims
from benchmarks.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.reliability.schedule import Kill, Schedule

APPS = Path(__file__).parent / "apps"
#: s that workers may take to be ready, the producer after its last job is due, and what waits to be begun
PATIENCE = 120.0


def carry_out(runner: Runner, schedule: Schedule, wait: float, environment: Path) -> Tally:
    """Start, load, kill, wait, tally; `environment`: where the peers are installed; `wait`: s. Raises SystemExit."""
    with Server() as server:
        trial = _Trial(runner, server.url, environment)
        try:
            trial.start()
            missed = trial.load(schedule)
            drained = time.monotonic() + PATIENCE
            while int(server.ask(*runner.left["waiting"])) and time.monotonic() < drained:
                time.sleep(0.1)
            time.sleep(wait)
            left = {name: int(server.ask(*words)) for name, words in runner.left.items()}
        finally:
            trial.end()
        found = tally(trial.text("acknowledged"), trial.text("runs"), len(schedule.kills) - missed, missed, left)
        trial.clear()
    return found


class _Trial:
    def __init__(self, runner: Runner, url: str, environment: Path) -> None:
        self._runner, self._bin = runner, environment / "bin"
        # Short: a socket's address may have 108 bytes.
        self._directory = Path(tempfile.mkdtemp(prefix="fl", dir="/tmp"))
        file = self._directory / "fusion.yaml"
        file.write_text(FILE.format(url=url, children=CHILDREN, apps=APPS))
        # An absolute first word stays what it is.
        words = [word.format(url=url, file=file) for word in runner.command]
        self._command = [str(self._bin / words[0]), *words[1:]]
        self._variables = {
            **installed(), **runner.environment, "RELIABILITY_URL": url, "RUNS": str(self._directory / "runs"),
            "STATE_DIRECTORY": str(self._directory / "s"), "RUNTIME_DIRECTORY": str(self._directory / "r"),
        }  # fmt: skip
        self._units: list[subprocess.Popen[bytes]] = []

    def text(self, name: str) -> str:
        """What was written into a file of that name."""
        path = self._directory / name
        return path.read_text() if path.exists() else ""

    def start(self) -> None:
        """Start the services, and wait until a job has run."""
        for number in range(self._runner.units):
            words = [sys.executable, "-m", "benchmarks.reliability.unit", str(self._directory / f"pid-{number}")]
            with (self._directory / "log").open("ab") as log:
                self._units.append(
                    subprocess.Popen(
                        [*words, *self._command], stdout=log, stderr=log,
                        env={**self._variables, "PYTHONPATH": str(APPS)},
                    )
                )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        # A producer may have to wait for the catalogue of the tasks.
        while self._producer([(0.0, 0, 0.0)], "ready").wait():
            self._check(deadline)
        while "0 ended" not in self.text("runs"):
            self._check(deadline)

    def _check(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise SystemExit(f"{self._runner.name} is not ready:\n{self.text('log')[-2000:]}")
        time.sleep(0.05)

    def _producer(self, jobs: Sequence[tuple[float, int, float]], notes: str) -> subprocess.Popen[bytes]:
        plan = self._directory / f"{notes}.json"
        plan.write_text(json.dumps(jobs))
        python = self._bin / "python" if self._runner.package else sys.executable
        with (self._directory / "log").open("ab") as log:
            return subprocess.Popen(
                [python, APPS / "produce.py", self._runner.app, plan, self._directory / notes],
                env=self._variables, stdout=log, stderr=log,
            )  # fmt: skip

    def load(self, schedule: Schedule) -> int:
        """Enqueue and kill; returns how many kills found nobody."""
        producer = self._producer(schedule.jobs, "acknowledged")
        began = time.monotonic()
        missed = sum(not self._kill(kill, began, schedule.seconds) for kill in schedule.kills)
        if producer.wait(schedule.seconds + PATIENCE):
            raise SystemExit(f"{self._runner.name}: the producer failed:\n{self.text('log')[-2000:]}")
        return missed

    def _kill(self, kill: Kill, began: float, seconds: float) -> bool:
        """Kill one; whether there was one before the load was over."""
        time.sleep(max(0.0, began + kill.at - time.monotonic()))
        while time.monotonic() < began + seconds:
            roots = [int(self.text(f"pid-{number}") or 0) for number in range(len(self._units))]
            found = victims([root for root in roots if root], kill.target)
            try:
                os.kill(found[int(kill.choice * len(found))], signal.SIGKILL)
            except (IndexError, ProcessLookupError):
                time.sleep(0.01)
            else:
                return True
        return False

    def end(self) -> None:
        """Stop the services, which stop what is theirs."""
        for unit in self._units:
            unit.terminate()
        for unit in self._units:
            unit.wait()

    def clear(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._directory)
