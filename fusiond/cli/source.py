"""
Where a command finds the file and the broker.

The file: -c, $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml. The broker, nearest first: --url, the file of -c,
$FUSION_URL, the file that is found.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from fusiond.cli.exits import UsageError
from fusiond.errors import ConfigError, FusionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from fusiond.broker.broker import Broker
    from fusiond.broker.call import Call, Plan
    from fusiond.broker.complaints import Spoilt
    from fusiond.broker.connection import Connection
    from fusiond.config import model
    from fusiond.config.load import Loaded
    from fusiond.config.nodes import Node
    from fusiond.paths import Directories

T = TypeVar("T")


def add_file_option(parser: argparse.ArgumentParser) -> None:
    """-c FILE."""
    parser.add_argument(
        "-c", "--config", metavar="FILE", help="default: $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml"
    )


def add_broker_options(parser: argparse.ArgumentParser) -> None:
    """--url, --namespace, -c FILE."""
    group = parser.add_argument_group("which broker", "nearest first: --url, -c, $FUSION_URL, the file that is found")
    group.add_argument("--url", metavar="URL", help="such as redis://localhost or unix:///run/redis.sock")
    group.add_argument("--namespace", metavar="NAME", help="the head of each key; default: the file's, or fusion")
    add_file_option(group)  # type: ignore[arg-type]  # a group takes arguments as a parser does


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def path(options: argparse.Namespace) -> Path:
    """The file, absolute. Raises UsageError: none is named, and there is none."""
    from fusiond.paths import find_config

    try:
        return find_config(options.config)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def config(options: argparse.Namespace) -> model.Config:
    """The file's configuration. Raises UsageError or ConfigError."""
    return read(path(options))[1]


def _unusable(file: Path | str, loaded: Loaded) -> FusionError:
    from fusiond.config.problems import as_text

    wrong = [problem for problem in loaded.problems if problem.is_error]
    kind = UsageError if any(problem.code == "unreadable" for problem in wrong) else ConfigError
    return kind(f"{file} cannot be used\n{as_text(wrong)}")


def found(options: argparse.Namespace) -> Path:
    """The file, relative where it is below this directory: what a message or a table names. Raises UsageError."""
    from pathlib import Path

    file = path(options)
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


def read(file: Path | str) -> tuple[Node, model.Config]:
    """A file: its nodes, and the configuration that they make. Raises UsageError or ConfigError."""
    from fusiond.config.load import load

    loaded = load(file, environ=os.environ)
    if loaded.config is None or loaded.root is None:
        raise _unusable(file, loaded)
    return loaded.root, loaded.config


def directories(options: argparse.Namespace, file: str | None = None) -> Directories | None:
    """
    Where the file, or for want of it `file`, puts the daemon, whatever else is wrong with it; None: nowhere.

    Raises:
        UsageError: the file that is named does not exist. One that cannot be read may be the daemon's all the same.
    """
    from fusiond.config.build import directories
    from fusiond.config.load import load
    from fusiond.paths import find_config

    if options.config and not os.path.lexists(options.config):
        raise UsageError(f"{options.config} does not exist")
    try:
        path = find_config(options.config)
    except ConfigError:
        if file is None:
            return None
        path = find_config(file)
    loaded = load(path, environ=os.environ)
    return loaded.config or (directories(loaded.root) if loaded.root is not None else None)


def place(options: argparse.Namespace) -> tuple[model.Broker, Path]:
    """The broker's settings, and the directory of the daemon's sockets."""
    from dataclasses import replace

    from fusiond import paths
    from fusiond.config import model

    url = options.url or (None if options.config else os.environ.get("FUSION_URL"))
    if url:
        settings, runtime = model.Broker(url=url), paths.find_runtime()
    else:
        running = accepted(options)
        settings, runtime = running.broker, paths.find_runtime(running)
    return replace(settings, namespace=options.namespace or settings.namespace), runtime


def accepted(options: argparse.Namespace) -> model.Config:
    """
    The file's configuration; while it is being edited and wrong, the one that the daemon runs on.

    Raises UsageError or ConfigError.
    """
    from fusiond import paths
    from fusiond.config.snapshot import read_snapshot

    try:
        return config(options)
    except ConfigError:
        try:
            snapshot = read_snapshot(paths.current_snapshot(paths.state_directory(directories(options))))
        except ConfigError:
            snapshot = None
        if snapshot is None or snapshot.source != str(paths.find_config(options.config)):
            raise
        return snapshot.config


@contextmanager
def broker(options: argparse.Namespace) -> Iterator[Desk]:
    """The verbs, and a connection to run them on."""
    with desk(*place(options)) as opened:
        yield opened


@contextmanager
def desk(settings: model.Broker, runtime: Path) -> Iterator[Desk]:
    """The same, of a place that is known."""
    from fusiond.broker.broker import Broker
    from fusiond.broker.connection import connect

    try:
        verbs = Broker(settings.namespace)
    except ValueError as error:
        raise UsageError(str(error)) from error
    with connect(settings, runtime, repeats=1) as connection:
        yield Desk(verbs, connection)


class Desk:
    """Verbs and the connection that they are run on."""

    __slots__ = ("connection", "verbs")

    def __init__(self, verbs: Broker, connection: Connection) -> None:
        self.verbs, self.connection = verbs, connection

    def run(self, what: Call[T] | Plan[T]) -> T:
        """As `Connection.run`."""
        return self.connection.run(what)

    def run_all(self, calls: Sequence[Call[T]]) -> list[T]:
        """Run Calls in one round trip; raises the first error among the replies."""
        from fusiond.broker.connection import raised

        return raised(self.connection.run_many(calls)) if calls else []

    def run_each(self, calls: Sequence[Call[T]]) -> list[T | Spoilt]:
        """The same; in place of the reply of a queue that is spoilt stands what is wrong with it."""
        from fusiond.broker.complaints import Spoilt
        from fusiond.broker.connection import raised

        found = self.connection.run_many(calls) if calls else []
        raised([each for each in found if not isinstance(each, Spoilt)])
        return found

    def queues(self, *names: str) -> list[str]:
        """These queues, or all where none is named. Raises FusionError for one that there is not."""
        known = self.run(self.verbs.queues())
        for name in names:
            if name not in known:
                raise unknown("queue", name, known)
        return list(names) or known


def unknown(what: str, name: str, known: Iterable[str]) -> FusionError:
    """The error for a name that is not there, with the one that was perhaps meant."""
    from fusiond.config.suggest import did_you_mean, listed

    known = sorted(known)
    remedy = did_you_mean(name, known) or (f"there are: {listed(known)}" if known else "there is none")
    return FusionError(f"no {what} {name!r}; {remedy}")


def asker(command: str) -> str:
    """Who asks the daemon, for its log and history: the command, and sudo's own user where there is one."""
    import pwd

    uid = os.geteuid()
    if uid == 0 and os.environ.get("SUDO_USER"):
        return f"{command} by {os.environ['SUDO_USER']}"
    try:
        return f"{command} by {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"{command} by user {uid}"
