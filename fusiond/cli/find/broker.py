"""
The broker: --url, otherwise the file of -c or --dev, $FUSION_URL, the file that is found.

If only `fusiond dev` runs the file on this host, its broker, whatever the file says; a note tells the person at the
terminal. An application, which nobody watches, stays with its file: `fusiond/locate/find_broker.py`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fusiond import paths
from fusiond.cli.exits import UsageError
from fusiond.cli.find import daemon, entry, file
from fusiond.errors import BrokerUnavailable, ForeignDaemon

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from fusiond.broker.call import Call
    from fusiond.broker.redis.connection import Connection
    from fusiond.broker.verbs import Verbs
    from fusiond.config import model
    from fusiond.masking import Secret

T = TypeVar("T")


class Session:
    """The verbs of a namespace and a connection to run them on."""

    __slots__ = ("connection", "run", "verbs")

    def __init__(self, verbs: Verbs, connection: Connection) -> None:
        self.verbs, self.connection, self.run = verbs, connection, connection.run

    def run_all(self, calls: Sequence[Call[T]]) -> list[T]:
        """Run Calls in one round trip. Raises the first error among the replies."""
        from fusiond.broker.call import together

        return self.run(together(calls))

    def secret(self) -> Secret:
        """Task → its secret arguments, of any daemon's file. Raises BrokerError."""
        return self.run(self.verbs.catalogue()).secret()

    @property
    def who(self) -> str:
        """Who runs this command, for events."""
        import socket

        from fusiond.identity import user_name

        return f"{user_name(os.getuid())}@{socket.gethostname()}"

    def queues(self, *names: str) -> list[str]:
        """These queues, or all if none is named. Raises FusionError for one that does not exist."""
        known = self.run(self.verbs.queues())
        return [entry("queue", {queue: queue for queue in known}, name) for name in names] or known


@contextmanager
def session(options: argparse.Namespace) -> Iterator[Session]:
    """A session with the broker that the command means. Raises FusionError, also for keys of another layout."""
    from fusiond.broker.layout import layout_of, refuse_other
    from fusiond.broker.redis.connection import connect
    from fusiond.broker.verbs import Verbs

    settings, runtime = _settings_of(options)
    try:
        verbs = Verbs(settings.namespace)
    except ValueError as error:
        raise UsageError(str(error)) from error
    with connect(settings, runtime, repeats=1) as connection:
        refuse_other(connection.run(layout_of(verbs.keys)), verbs.keys)
        yield Session(verbs, connection)


def _settings_of(options: argparse.Namespace) -> tuple[model.Broker, Path]:
    """The broker's settings and the daemon's runtime directory."""
    from dataclasses import replace

    if options.url and options.dev:
        raise UsageError("--url and --dev name two brokers; leave one of them out")
    url = options.url or (None if options.config or options.dev else os.environ.get("FUSION_URL"))
    settings, runtime = (_of_url(url), Path("/")) if url else _of_file(options)
    return replace(settings, namespace=options.namespace or settings.namespace), runtime


def _of_url(url: str) -> model.Broker:
    from fusiond.locate.find_broker import of_url

    try:
        settings = of_url(url)
    except BrokerUnavailable as error:
        raise UsageError(str(error)) from error
    if settings.url == "embedded":
        raise UsageError("`embedded` is a word of the file; name the file with -c")
    return settings


def _of_file(options: argparse.Namespace) -> tuple[model.Broker, Path]:
    """The broker of the file, or the one that its daemon uses, if that is another one."""
    from fusiond.config import model
    from fusiond.config.accepted.plan import changed_keys

    chosen = daemon.find(options) if options.dev else daemon.choose(options)
    settings = daemon.accepted_config(options).broker
    if chosen is None:
        return settings, _runtime(options, settings)
    if chosen.development:
        settings = model.Broker(namespace=settings.namespace)
    running = daemon.running_config(options)
    if running is None:
        return settings, chosen.runtime
    if changed := ", ".join(changed_keys(running.broker, settings, "broker")):
        path = daemon.daemons(options).file
        daemon.note(options, f"{changed} of {path} changed; daemon and commands use the old values until a restart")
    return running.broker, chosen.runtime


def _runtime(options: argparse.Namespace, settings: model.Broker) -> Path:
    """The runtime directory of the file's daemon, which does not run. Raises ForeignDaemon if another file uses it."""
    from fusiond.locate.pointers import other_file

    found = daemon.daemons(options)
    runtime = paths.runtime_directory(found.file, file.directory(found.file, "runtime_directory"))
    if settings.url == "embedded":
        if found.refused:
            raise found.refused[0]
        # The daemon of another file may have been killed while its server still runs.
        if other := other_file(runtime, found.file):
            raise ForeignDaemon(f"{runtime} belongs to the daemon of {other}, not of {found.file}; use -c {other}")
    return runtime
