"""
Find the Redis that a producer is to use: the URL that it gives, $FUSION_URL, or what the daemon's file says.

While the file has problems, or names another broker than its daemon runs on, the configuration that the daemon accepted
last counts: jobs go to where they are run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond import pointers
from fusiond.broker.keys import Keys
from fusiond.config import model
from fusiond.config.endpoints import BadUrl, split_namespace
from fusiond.errors import BrokerUnavailable, ConfigError
from fusiond.paths import (
    ETC,
    control_socket,
    current_snapshot,
    find_config,
    redis_socket,
    runtime_directory,
    state_directory,
)

if TYPE_CHECKING:
    from fusiond.config.yaml.nodes import Node

log = logging.getLogger(__name__)


def find_broker(url: str | None, namespace: str | None, tls: model.Tls | None = None) -> tuple[model.Broker, Path]:
    """
    Which Redis a producer is to use, and the runtime directory of an embedded one.

    Raises:
        ConfigError: no URL is given, and there is no file, or one with problems; or TLS files are given without TLS.
    """
    url = url or os.environ.get("FUSION_URL")
    settings, runtime = (of_url(url), Path("/")) if url else _of_the_file()
    if tls is not None and tls != model.Tls():
        if not settings.url.startswith("rediss"):
            scheme = settings.url.partition("://")[0]
            raise ConfigError(
                f"ca_file, cert_file and key_file have no meaning with {scheme}; write rediss://, or omit them"
            )
        settings = dataclasses.replace(settings, tls=tls)
    try:
        return dataclasses.replace(settings, namespace=Keys(namespace or settings.namespace).namespace), runtime
    except ValueError as error:
        raise BrokerUnavailable(str(error)) from None


def _of_the_file() -> tuple[model.Broker, Path]:
    from fusiond.config.load import load  # YAML is read by those only who give no URL

    try:
        path = find_config()
    except ConfigError:
        raise ConfigError(
            "no broker is named: give the Client a URL, or set $FUSION_URL or $FUSION_CONFIG; "
            f"neither ./fusion.yaml nor {ETC} exists"
        ) from None
    loaded = load(path, environ=os.environ)
    config = _in_force(path, loaded.root, loaded.config)
    if config is None:
        raise ConfigError(f"{path} has problems, `fusiond validate {path}` shows them; or set $FUSION_URL")
    if config.broker.url != "embedded":
        return config.broker, Path("/")
    return config.broker, _runtime(path, config.runtime_directory)


def _in_force(file: Path, root: Node | None, written: model.Config | None) -> model.Config | None:
    """
    What the file says; where it has problems, or names another broker than its daemon runs on, what that has accepted.

    A daemon takes another broker at its next start only. None: the file has problems, and nothing was accepted.
    """
    accepted = _accepted(file, root)
    if accepted is None or written is None:
        if accepted is not None:
            log.warning("%s has problems; jobs go to the broker of the configuration that was accepted last", file)
        return written or accepted
    same = (accepted.broker.url, accepted.broker.namespace) == (written.broker.url, written.broker.namespace)
    if same or not _is_run(file):
        return written
    log.warning("%s names another broker than its daemon runs on; jobs go to the daemon's until it is restarted", file)
    return accepted


def _is_run(file: Path) -> bool:
    """Whether a production daemon of the file listens."""
    sockets = [control_socket(Path(pointer.runtime)) for pointer in pointers.find(file) if not pointer.development]
    return any(pointers.is_listening(path, pointers.trusted(file)) for path in sockets)


def _accepted(file: Path, root: Node | None) -> model.Config | None:
    """
    What the file's production daemon accepted last, as far as this user may read it.

    It is looked for in the state directory that a daemon's pointer names, since a file with problems may not name it;
    then in the one that the file names, or that is the file's own.
    """
    from fusiond.config.accepted.snapshot import read_snapshot
    from fusiond.config.build import Directories, directories

    said = directories(root) if root is not None else Directories()
    places = [Path(pointer.state) for pointer in pointers.find(file) if not pointer.development]
    with contextlib.suppress(ConfigError):
        places.append(state_directory(file, said.state_directory))
    for place in places:
        with contextlib.suppress(ConfigError):
            snapshot = read_snapshot(current_snapshot(place))
            if pointers.same_file(snapshot.source, file):
                return snapshot.config
    return None


def of_url(url: str) -> model.Broker:
    """The settings of a broker's URL, with the namespace if the URL has one. Raises BrokerUnavailable."""
    try:
        bare, namespace = split_namespace(url)
    except BadUrl as error:
        raise BrokerUnavailable(f"{error}; {error.remedy}") from None
    return model.Broker(url=bare, namespace=namespace) if namespace else model.Broker(url=bare)


def _runtime(file: Path, key: str | None) -> Path:
    """
    The runtime directory whose embedded server listens: that of the production daemon, else that of `fusiond dev`.

    A daemon that was given the file by another name, such as a symlink to it, comes after all that were given this one.
    Where none listens, the place where production's would be. Raises BrokerUnavailable where another file's daemon has
    taken that place.
    """
    usual, found = runtime_directory(file, key), pointers.find(file)
    if other := pointers.other_file(usual, file):
        raise BrokerUnavailable(f"{usual} is that of the daemon of {other}, not of {file}; set runtime_directory apart")
    # By another name or not, of `fusiond dev` or not; False comes before True.
    places = [(pointer.file != str(file), pointer.development, Path(pointer.runtime)) for pointer in found]
    for _, development, runtime in sorted([*places, (False, False, usual)], key=lambda place: place[:2]):
        if pointers.is_listening(redis_socket(runtime), None if runtime == usual else pointers.trusted(file)):
            if development:
                log.warning("only fusiond dev runs %s on this host; jobs go to its broker", file)
            return runtime
    return usual
