"""
A real daemon for tests: Redis and workers of its own, in a directory that is removed at the end.

    with embedded("fusion.yaml") as daemon, daemon.in_use():
        assert Client().enqueue("charge", 7).result(timeout=10) == "paid"

1. read    the user's file, and change what must not hold in a test: broker, directories, schedules, dashboard, sinks,
           outboxes
2. start   `fusiond run` with that, as the configuration that was accepted last; `keeper.py` ends it
3. lead    the clients of the test process to it while a test uses it
4. empty   its queues behind each test
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from fusiond import paths
from fusiond.broker.redis.connection import Connection, connect
from fusiond.broker.verbs import Verbs
from fusiond.client import AsyncClient, Client
from fusiond.client.base import BaseClient
from fusiond.config.accepted import snapshot
from fusiond.config.endpoints import with_namespace
from fusiond.config.model import Broker, Config, Control, Logging, WorkerGroup
from fusiond.errors import BrokerUnavailable, ControlError, FusionError
from fusiond.locate.control import ask
from fusiond.locate.find_broker import of_url
from fusiond.status_document import StatusDocument
from fusiond.testing.emptying import empty, is_idle
from fusiond.testing.file_under_test import read
from fusiond.testing.redirection import PARTS, redirected

#: seconds that the daemon may take to start, or to end, on a busy machine
PATIENCE: Final = 60.0
#: seconds that a program may be unready once all have started: a group may load its tasks again
_SETTLED: Final = 5.0
#: processes of a group at most
_PROCESSES: Final = 2


class EmbeddedDaemon:
    """One daemon, which runs until `close`."""

    def __init__(self, file: str | os.PathLike[str] | None = None, *, workers: Mapping[str, Any] | None = None) -> None:
        """
        Start it, and wait until all of its programs are ready.

        Args:
            file: the fusion.yaml. None: $FUSION_CONFIG, else ./fusion.yaml.
            workers: keys of worker groups that hold for each group, in place of what the file says: `directory`,
                `python`, `environment` (added to the group's), `processes` …

        Raises:
            ConfigError: the file cannot be used.
            FusionError: the daemon does not start; has its log.
        """
        config = read(file)
        self._directory = Path(tempfile.mkdtemp(prefix="fusiond-test-", dir="/tmp"))
        self._runtime, self._log = self._directory / "run", self._directory / "log"
        #: for `Client(url)`, and for other programs
        self.url = with_namespace(f"unix://{paths.redis_socket(self._runtime)}", config.broker.namespace)
        try:
            self._config = self._changed(config, workers or {})
            self._keeper = self._start()
        except BaseException:
            shutil.rmtree(self._directory)  # which only the keeper would remove
            raise
        self._verbs = Verbs(config.broker.namespace)
        self._twins: weakref.WeakKeyDictionary[Any, BaseClient] = weakref.WeakKeyDictionary()
        self._connection: Connection | None = None
        try:
            self._wait_until_ready()
            self._connection = connect(of_url(self.url), Path("/"), repeats=1)
        except BaseException:
            self.close()
            raise

    # -- what a test uses ----------------------------------------------------------------------------------------------

    @property
    def log(self) -> str:
        """What the daemon and its jobs have logged so far."""
        return self._log.read_text(errors="replace")

    @contextmanager
    def in_use(self) -> Iterator[EmbeddedDaemon]:
        """
        Lead all clients of this process to the daemon; behind the block, empty its queues.

        What it has logged meanwhile is printed then, so that pytest shows it beside a test that has failed.
        """
        before = len(self.log)
        try:
            with redirected(self):
                yield self
        finally:
            self.empty()
            print(self.log[before:], end="")

    def wait_until_idle(self, timeout: float = 30.0) -> None:
        """Wait until no job is ready, runs, or waits for others. Raises TimeoutError."""
        end = time.monotonic() + timeout
        while not self._is_idle():
            if time.monotonic() > end:
                raise TimeoutError(f"jobs are ready or run after {timeout:g} s; the log of the daemon:\n{self.log}")
            time.sleep(0.01)

    def _is_idle(self) -> bool:
        with contextlib.suppress(BrokerUnavailable):  # its Redis is started again
            return bool(self._run(is_idle(self._verbs)))
        return False

    def empty(self) -> None:
        """Cancel what waits and what runs, and delete all jobs, locks and runs of flows."""
        self._run(empty(self._verbs))

    def close(self) -> None:
        """End the daemon and remove its directory."""
        if self._connection is not None:
            self._connection.close()
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        self._keeper.wait()

    def parts(self, client: BaseClient) -> Mapping[str, Any]:
        """What a client uses in place of its own Redis: what a client of this daemon has."""
        key = vars(client)["_connection"]
        twin = self._twins.get(key)
        if twin is None:
            twin = self._twins[key] = (AsyncClient if isinstance(client, AsyncClient) else Client)(self.url)
        return {name: vars(twin)[name] for name in PARTS}

    # -- how it starts -------------------------------------------------------------------------------------------------

    def _changed(self, config: Config, workers: Mapping[str, Any]) -> Config:
        """The file's configuration, as it is to run in a test."""
        broker = Broker(namespace=config.broker.namespace, server=config.broker.server)
        events = config.events and dataclasses.replace(config.events, sinks={})
        return dataclasses.replace(
            config,
            broker=broker,
            cron={},
            web=None,
            events=events,
            outboxes={},
            control=Control(),
            logging=Logging(level=config.logging.level, jobs=config.logging.jobs),
            state_directory=str(self._directory / "state"),
            runtime_directory=str(self._runtime),
            watch=False,
            workers={name: self._changed_group(group, workers) for name, group in config.workers.items()},
        )

    def _changed_group(self, group: WorkerGroup, given: Mapping[str, Any]) -> WorkerGroup:
        """On this machine, as this user; its jobs enqueue into this daemon."""
        own: dict[str, Any] = {key: str(value) if isinstance(value, Path) else value for key, value in given.items()}
        own["environment"] = {**group.environment, **given.get("environment", {}), "FUSION_URL": self.url}
        processes = min(group.processes, _PROCESSES)
        here: dict[str, Any] = {"user": None, "hosts": (), "scaling": None, "processes": processes}
        return dataclasses.replace(group, **{**here, **own})

    def _start(self) -> subprocess.Popen[bytes]:
        state, file = self._directory / "state", self._directory / "fusion.yaml"
        state.mkdir(mode=0o700)
        # The daemon is started with an accepted configuration, since no file can say what the changed one does: the
        # file's own paths are relative to where it is.
        file.write_text(f"version: 1\nstate_directory: {state}\nruntime_directory: {self._runtime}\nwatch: false\n")
        snapshot.write(paths.current_snapshot(state), self._config, generation=1, source=str(file))
        daemon = [sys.executable, "-P", "-m", "fusiond.cli", "run", "--last-good", "-c", str(file)]
        keeper = [sys.executable, "-P", "-m", "fusiond.testing.keeper", str(self._directory), *daemon]
        own = ("FUSION_URL", "FUSION_CONFIG", "STATE_DIRECTORY", "RUNTIME_DIRECTORY", "NOTIFY_SOCKET")
        environment = {name: value for name, value in os.environ.items() if name not in own}
        return subprocess.Popen(
            keeper, stdin=subprocess.PIPE, cwd=self._directory, env=environment, start_new_session=True
        )

    def _wait_until_ready(self) -> None:
        end, settled_at = time.monotonic() + PATIENCE, float("inf")
        while not ((status := self._status()) and status["ready"]):
            if status and status["settled"]:
                settled_at = min(settled_at, time.monotonic())
            if self._keeper.poll() is not None or time.monotonic() > min(end, settled_at + _SETTLED):
                reasons = "; ".join(f"{name}: {why}" for name, why in (status["unready"] if status else {}).items())
                raise FusionError(f"the daemon for tests cannot serve: {reasons}; its log:\n{self.log}")
            time.sleep(0.02)

    def _status(self) -> StatusDocument | None:
        """What it says of itself; None: it does not yet."""
        with contextlib.suppress(ControlError):
            return cast("StatusDocument", ask(paths.control_socket(self._runtime), "status", timeout=PATIENCE))
        return None

    def _run(self, plan: Any) -> Any:
        assert self._connection is not None  # noqa: S101 - it is there once the daemon has started
        return self._connection.run(plan)


@contextmanager
def embedded(
    file: str | os.PathLike[str] | None = None, *, workers: Mapping[str, Any] | None = None
) -> Iterator[EmbeddedDaemon]:
    """A daemon until the end of the block; the arguments and errors are those of EmbeddedDaemon."""
    daemon = EmbeddedDaemon(file, workers=workers)
    try:
        yield daemon
    finally:
        daemon.close()
