"""
One runner on one Redis: its producer from the begin, its workers from `start` on.

What they print goes to a file, whose end is shown if they do not do their work.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from benchmarks import processes
from benchmarks.daemon import APP, Daemon, group
from benchmarks.peers import environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.peers.postgres import Postgres
    from benchmarks.peers.runners import Runner
    from benchmarks.server import Server

APPS = Path(__file__).parent / "apps"
#: seconds without a job that is done, after which the runner is given up
PATIENCE = 60.0


class GivenUp(Exception):
    """A runner has not done its work; the sentence says what was seen."""


class Session:
    """What a measure asks of a runner."""

    def __init__(self, runner: Runner, server: Server | Postgres, slots: int = 8) -> None:
        """`slots`: 8, or 50 for jobs that sleep."""
        self.runner, self.server = runner, server
        self._directory = Path(tempfile.mkdtemp(prefix="fb", dir="/tmp"))
        self._marks = self._directory / "marks"
        self._marks.touch()
        self._log = (self._directory / "log").open("w+b")
        self._environment = {
            **os.environ, **runner.environment, **environment.variables(runner),
            "BENCH_URL": server.url, "BENCH_MARKS": str(self._marks),
        }  # fmt: skip
        if runner.language == "python":
            self._environment["PYTHONPATH"] = f"{APPS}:{APP}"
        fusiond = runner.language == "fusiond"
        self._workers = _Daemon(runner, server, slots) if fusiond else _Commands(runner, server, slots)

    def __enter__(self) -> Self:
        self._exit = ExitStack()
        self._exit.callback(shutil.rmtree, self._directory)
        self._exit.callback(self._log.close)
        self._exit.callback(self._workers.end)
        self._workers.prepare(self._environment, self._log)
        self._producer = subprocess.Popen(
            environment.producer(self.runner, APPS / self.runner.app),
            env=self._environment, cwd=APPS, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        self._exit.callback(self._producer.wait)
        self._exit.callback(self._producer.kill)
        self.produce("one", 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def produce(self, what: str, count: int) -> float:
        """Have the producer enqueue; seconds that its calls took. `apps/producer.py` says what there is."""
        assert self._producer.stdin is not None
        assert self._producer.stdout is not None
        try:
            self._producer.stdin.write(f"{what} {count}\n")
            self._producer.stdin.flush()
        except BrokenPipeError:
            raise GivenUp(f"its producer has ended:\n{self._said()}") from None
        answer = self._producer.stdout.readline()
        if not answer:
            raise GivenUp(f"its producer has ended:\n{self._said()}")
        return float(answer)

    def start(self) -> None:
        """Have the workers work."""
        self._workers.start()

    def pause(self) -> None:
        """Have fusiond's workers begin no further job until the next `start`, and wait for the jobs that they have."""
        assert isinstance(self._workers, _Daemon)
        self._workers.pause()

    def done(self) -> int:
        """Jobs that are done."""
        return self._workers.done()

    def await_done(self, count: int) -> tuple[float, int]:
        """The time at which at least so many are done, and how many. Raises GivenUp."""
        return self._await(self.done, count)

    def await_marks(self, count: int) -> None:
        """Until so many `mark` have begun. Raises GivenUp."""
        self._await(lambda: len(self.waits()), count)

    def waits(self) -> list[float]:
        """Seconds that each `mark` waited, in the order in which they began."""
        return [float(line) for line in self._marks.read_text().splitlines()]

    def cpu(self) -> float:
        """Seconds that the workers have used."""
        return sum(use.cpu for use in self._workers.use())

    def pss(self) -> int:
        """Bytes that the workers take up."""
        return sum(use.pss for use in self._workers.use())

    def _await(self, seen: Callable[[], int], count: int) -> tuple[float, int]:
        most, moved_at = -1, time.monotonic()
        while (found := seen()) < count:
            if found > most:
                most, moved_at = found, time.monotonic()
            elif time.monotonic() > moved_at + PATIENCE:
                raise GivenUp(f"{found} of {count} jobs, and none in {PATIENCE:.0f} s:\n{self._said()}")
            time.sleep(0.005)
        return time.monotonic(), found

    def _said(self) -> str:
        self._log.flush()
        return (self._directory / "log").read_text(errors="replace")[-1500:]


class _Daemon:
    """fusiond's workers: a daemon whose queue is suspended until they are to work."""

    def __init__(self, runner: Runner, server: Server | Postgres, slots: int) -> None:
        quiet = "logging: {jobs: false}\n"
        if runner.threads:
            keys = f"executor: thread, concurrency: {runner.threads}"
            workers = group("process", slots // runner.threads, keys=keys)
        else:
            workers = group("fork" if runner.fork else "process", slots)
        self._daemon = Daemon(workers + quiet, url=server.url)
        self._runs = False

    def prepare(self, _environment: dict[str, str], _log: object) -> None:
        self._daemon.__enter__()
        self._runs = True
        self._daemon.suspend(on=True)

    def start(self) -> None:
        self._daemon.suspend(on=False)

    def pause(self) -> None:
        self._daemon.suspend(on=True)
        self._daemon.await_idle()

    def done(self) -> int:
        return self._daemon.finished()

    def use(self) -> list[processes.Use]:
        return [self._daemon.use()["fusiond"]]

    def end(self) -> None:
        if self._runs:
            self._daemon.__exit__()


class _Commands:
    """A peer's workers: one or more processes that are started when they are to work."""

    def __init__(self, runner: Runner, server: Server | Postgres, slots: int) -> None:
        self._runner, self._server = runner, server
        lines = runner.workers if slots == 8 else runner.many_slots
        self._lines = [[word.format(url=server.url) for word in line] for line in lines]
        self._started: list[subprocess.Popen[bytes]] = []
        self._before = 0

    def prepare(self, environment_: dict[str, str], log: object) -> None:
        self._options = {"env": environment_, "cwd": APPS, "stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}

    def start(self) -> None:
        if self._runner.analyze:
            self._server.ask("ANALYZE")  # which autovacuum does by itself, within a minute
        self._before = self._counted()
        for line in self._lines:
            words = environment.command(self._runner, line)
            self._started.append(subprocess.Popen(words, **self._options))  # type: ignore[call-overload]

    def _counted(self) -> int:
        return int(self._server.ask(*self._runner.count))

    def done(self) -> int:
        more = self._counted() - self._before
        return -more if self._runner.counts_down else more

    def use(self) -> list[processes.Use]:
        return [processes.use(process.pid)["fusiond"] for process in self._started]

    def end(self) -> None:
        # What they would still do on SIGTERM is of no interest, and takes seconds.
        for process in self._started:
            for pid in processes.tree(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
