"""
Where a command finds the file and the broker.

The file: -c, $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml. The broker, nearest first: --url, the file of -c,
$FUSION_URL, the file that is found.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fusiond.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from fusiond.broker.broker import Broker
    from fusiond.broker.connection import Connection
    from fusiond.config import model


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


def config(options: argparse.Namespace) -> model.Config:
    """The file's configuration. Raises ConfigError with all its problems."""
    from fusiond.config import load
    from fusiond.paths import find_config

    path = find_config(options.config)
    loaded = load(path, environ=os.environ)
    if loaded.config is None:
        raise ConfigError(f"{path} cannot be used; fusiond validate {path} says why")
    return loaded.config


@contextmanager
def broker(options: argparse.Namespace) -> Iterator[tuple[Broker, Connection]]:
    """The verbs and a connection to run them on."""
    from fusiond.broker.broker import Broker
    from fusiond.broker.connection import connect

    settings, runtime = place(options)
    connection = connect(settings, runtime)
    try:
        yield Broker(settings.namespace), connection
    finally:
        connection.close()


def place(options: argparse.Namespace) -> tuple[model.Broker, Path]:
    """The broker's settings and the directory of an embedded one's socket."""
    from dataclasses import replace

    from fusiond import paths
    from fusiond.config import model

    url = options.url or (None if options.config else os.environ.get("FUSION_URL"))
    if url:
        settings, runtime = model.Broker(url=url), paths.find_runtime()
    else:
        accepted = config(options)
        settings, runtime = accepted.broker, paths.find_runtime(accepted)
    return replace(settings, namespace=options.namespace or settings.namespace), runtime


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
