"""
Where a command finds the file, its daemon and the broker.

1. file     -c, $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml
2. daemon   that of production; that of `fusiond dev` with --dev, or where it alone runs this file
3. broker   nearest first: --url, the file of -c or --dev, $FUSION_URL, the file that is found
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from fusiond.cli.exits import UsageError
from fusiond.errors import ConfigError, ControlError, ForeignDaemon, FusionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from fusiond.broker.call import Call, Plan
    from fusiond.broker.redis.connection import Connection
    from fusiond.broker.redis.redis_errors import Spoilt
    from fusiond.broker.verbs import Verbs
    from fusiond.config import model
    from fusiond.config.build import Directories
    from fusiond.config.load import Loaded
    from fusiond.config.yaml.nodes import Node
    from fusiond.supervise.locate import Daemons, Located

T = TypeVar("T")


def add_file_option(parser: argparse.ArgumentParser) -> None:
    """-c FILE."""
    parser.add_argument(
        "-c", "--config", metavar="FILE", help="default: $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml"
    )


def add_daemon_options(parser: argparse.ArgumentParser) -> None:
    """-c FILE, --dev."""
    add_file_option(parser)
    parser.add_argument(
        "--dev", action="store_true", help="use the daemon of fusiond dev, if another one runs this file too"
    )


def add_broker_options(parser: argparse.ArgumentParser) -> None:
    """--url, --namespace, -c FILE, --dev."""
    group = parser.add_argument_group(
        "which broker", "the first that is given: --url, -c, $FUSION_URL, the file that is found"
    )
    group.add_argument("--url", metavar="URL", help="such as redis://localhost or unix:///run/redis.sock")
    group.add_argument("--namespace", metavar="NAME", help="the prefix of each key; default: the file's, or fusion")
    add_daemon_options(group)  # type: ignore[arg-type]  # a group takes arguments as a parser does


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
    from fusiond.config.lint.reports import as_text

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


def directories(file: Path) -> Directories:
    """What the file says of the daemon's directories, whatever else is wrong with it."""
    from fusiond.config.build import Directories, directories
    from fusiond.config.load import load

    root = load(file, environ=os.environ).root
    return directories(root) if root is not None else Directories()


def daemon(options: argparse.Namespace) -> Located:
    """
    The daemon that runs the file, whatever the file holds at the moment.

    Raises:
        UsageError: no file is named, and there is none; or the one that is named does not exist and nothing runs it.
        ForeignDaemon: a daemon of another file is in its place.
        ControlError: none runs it on this host.
    """
    found = _daemons(options)
    chosen = choose(options, found)
    if chosen is not None:
        return chosen
    if not os.path.lexists(found.file):
        raise UsageError(f"{found.file} does not exist")
    if found.refused:
        raise found.refused[0]
    how = "fusiond dev" if options.dev else "fusiond run"
    raise ControlError(f"no daemon listens for {found.file}; start one with {how} -c {found.file}")


def _daemons(options: argparse.Namespace) -> Daemons:
    """The daemons of the file; looked for once in each command."""
    from fusiond.supervise.locate import locate

    if getattr(options, "daemons", None) is None:
        file = path(options)
        options.daemons = locate(file, lambda: directories(file).runtime_directory)
    found: Daemons = options.daemons
    return found


def choose(options: argparse.Namespace, found: Daemons) -> Located | None:
    """
    The daemon that the command means; says on standard error where that is not the only one, or is `fusiond dev`.

    systemd gives to ExecReload the process of the unit's own daemon, in $MAINPID: that one is meant, and never a
    `fusiond dev` beside it.
    """
    main = os.environ.get("MAINPID", "")
    own = [located for located in found.all() if str(located.pid) == main]
    if own:
        return own[0]
    if options.dev:
        return _only(options, found.file, found.development)
    if found.production:
        if found.development:
            _note(
                options, f"fusiond dev runs {found.file} as well; this is the production daemon, --dev means the other"
            )
        return _only(options, found.file, found.production)
    if found.development and not main:
        _note(options, f"only fusiond dev runs {found.file} on this host, and is meant")
        return _only(options, found.file, found.development)
    return None


def _only(options: argparse.Namespace, file: Path, daemons: Sequence[Located]) -> Located | None:
    """
    The first of the daemons; says so where it was given the file by another name.

    Raises ForeignDaemon where they were given it by several other names: which one is meant cannot be known.
    """
    names = sorted({located.source for located in daemons})
    if len(names) > 1:
        raise ForeignDaemon(f"{file} is run under other names, {' and '.join(names)}; name one of them with -c")
    if names and names != [str(file)]:
        _note(options, f"the daemon runs {file} by the name {names[0]}, and is meant")
    return next(iter(daemons), None)


def _note(options: argparse.Namespace, sentence: str) -> None:
    """Once in each command."""
    from fusiond.cli.table import legible

    noted = options.__dict__.setdefault("noted", set())
    if sentence not in noted:
        noted.add(sentence)
        print(f"fusiond: note: {legible(sentence)}", file=sys.stderr)


def place(options: argparse.Namespace) -> tuple[model.Broker, Path]:
    """The broker's settings, and the directory of the daemon's sockets. Raises FusionError."""
    from dataclasses import replace

    from fusiond.config import model

    if options.url and options.dev:
        raise UsageError("--url and --dev name two brokers; leave one of them out")
    url = options.url or (None if options.config or options.dev else os.environ.get("FUSION_URL"))
    if url:
        settings, runtime = _of_url(url)
    else:
        chosen = daemon(options) if options.dev else choose(options, _daemons(options))
        settings = accepted(options).broker
        if chosen is not None and chosen.development:
            settings = model.Broker(namespace=settings.namespace)
        running = _running(options) if chosen is not None else None
        if chosen is not None and running is not None:
            if (running.broker.url, running.broker.namespace) != (settings.url, settings.namespace):
                told = f"{path(options)} names another broker than its daemon runs on, which is meant until a restart"
                _note(options, told)
            settings = running.broker
        runtime = chosen.runtime if chosen is not None else _runtime(options, settings)
    return replace(settings, namespace=options.namespace or settings.namespace), runtime


def _of_url(url: str) -> tuple[model.Broker, Path]:
    from pathlib import Path

    from fusiond.config import model
    from fusiond.config.endpoints import BadUrl, split_namespace

    try:
        bare, namespace = split_namespace(url)
    except BadUrl as error:
        raise UsageError(f"{error}; {error.remedy}") from error
    if bare == "embedded":
        raise UsageError("`embedded` is a word of the file; name the file with -c")
    settings = model.Broker(url=bare)
    return (model.Broker(url=bare, namespace=namespace) if namespace else settings), Path("/")


def _runtime(options: argparse.Namespace, settings: model.Broker) -> Path:
    """Where the sockets of the file's daemon would be. Raises ForeignDaemon where another file's server is there."""
    from fusiond import paths, pointers

    found = _daemons(options)
    if found.refused and settings.url == "embedded":
        raise found.refused[0]
    runtime = paths.runtime_directory(found.file, directories(found.file).runtime_directory)
    # Another file's daemon may have been killed, and its server not have ended yet.
    if settings.url == "embedded" and (other := pointers.other_file(runtime, found.file)):
        raise ForeignDaemon(f"{runtime} is that of the daemon of {other}, not of {found.file}; use -c {other}")
    return runtime


def accepted(options: argparse.Namespace) -> model.Config:
    """
    The file's configuration; while it is being edited and wrong, the one that the daemon runs on.

    Raises UsageError or ConfigError.
    """
    try:
        return config(options)
    except FusionError:
        running = _running(options)
        if running is None:
            raise
        return running


def _running(options: argparse.Namespace) -> model.Config | None:
    """What the file's daemon runs on, as far as this user may read it; that of a daemon that is away, too."""
    from pathlib import Path

    from fusiond import paths, pointers
    from fusiond.config.accepted.snapshot import read_snapshot

    found = _daemons(options)
    chosen = choose(options, found)
    try:
        if chosen is not None and chosen.identity is not None:
            kept = Path(chosen.identity["snapshot"])
        else:
            key = directories(found.file).state_directory
            kept = paths.current_snapshot(paths.state_directory(found.file, key, development=options.dev))
        snapshot = read_snapshot(kept)
    except ConfigError:
        return None
    return snapshot.config if pointers.same_file(snapshot.source, found.file) else None


@contextmanager
def broker(options: argparse.Namespace) -> Iterator[Desk]:
    """The verbs, and a connection to run them on."""
    with desk(*place(options)) as opened:
        yield opened


@contextmanager
def desk(settings: model.Broker, runtime: Path) -> Iterator[Desk]:
    """The same, of a place that is known."""
    from fusiond.broker.redis.connection import connect
    from fusiond.broker.verbs import Verbs

    try:
        verbs = Verbs(settings.namespace)
    except ValueError as error:
        raise UsageError(str(error)) from error
    with connect(settings, runtime, repeats=1) as connection:
        yield Desk(verbs, connection)


class Desk:
    """Verbs and the connection that they are run on."""

    __slots__ = ("connection", "verbs")

    def __init__(self, verbs: Verbs, connection: Connection) -> None:
        self.verbs, self.connection = verbs, connection

    def run(self, what: Call[T] | Plan[T]) -> T:
        """As `Connection.run`."""
        return self.connection.run(what)

    def run_all(self, calls: Sequence[Call[T]]) -> list[T]:
        """Run Calls in one round trip; raises the first error among the replies."""
        from fusiond.broker.redis.protocol import raised

        return raised(self.connection.run_many(calls)) if calls else []

    def run_each(self, calls: Sequence[Call[T]]) -> list[T | Spoilt]:
        """The same; in place of the reply of a queue that is spoilt stands what is wrong with it."""
        from fusiond.broker.redis.protocol import raised
        from fusiond.broker.redis.redis_errors import Spoilt

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
    from fusiond.config.lint.suggest import did_you_mean, listed

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
