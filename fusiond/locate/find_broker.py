"""
Find the Redis that a producer uses: the URL that it gives, $FUSION_URL, or the broker of the daemon's file.

If the file has problems, or names another broker than its daemon uses, the configuration that the daemon accepted last
counts, since that daemon runs the jobs.

Nobody watches an application: the broker of `fusiond dev` is used only if the file says `embedded` and no other server
of that file listens. Commands use it for any file that only `fusiond dev` runs, and say so: `cli/find/broker.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond.broker.keys import Keys
from fusiond.config import model
from fusiond.config.endpoints import BadUrl, split_namespace
from fusiond.errors import BrokerUnavailable, ConfigError
from fusiond.locate.pointers import find as find_pointers
from fusiond.locate.pointers import is_listening, is_run, other_file, same_file, trusted
from fusiond.paths import ETC, current_snapshot, find_config, redis_socket, runtime_directory, state_directory

if TYPE_CHECKING:
    from fusiond.config.yaml.nodes import Node

log = logging.getLogger(__name__)


def find_broker(url: str | None, namespace: str | None, tls: model.Tls | None = None) -> tuple[model.Broker, Path]:
    """
    The Redis that a producer uses, and the runtime directory of an embedded one.

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
    config = _in_force(path, loaded.tree.root, loaded.config)
    if config is None:
        raise ConfigError(f"{path} has problems, `fusiond validate {path}` shows them; or set $FUSION_URL")
    if config.broker.url != "embedded":
        return config.broker, Path("/")
    return config.broker, _runtime(path, config.runtime_directory)


def _in_force(file: Path, root: Node | None, written: model.Config | None) -> model.Config | None:
    """
    The file's configuration; if it has problems, or names another broker than its daemon uses, the accepted one.

    A daemon changes its broker only when it starts. None: the file has problems, and no configuration was accepted.
    """
    accepted = _accepted(file, root)
    if accepted is None or written is None:
        if accepted is not None:
            log.warning("%s has problems; jobs go to the broker of the configuration that was accepted last", file)
        return written or accepted
    same = (accepted.broker.url, accepted.broker.namespace) == (written.broker.url, written.broker.namespace)
    if same or not is_run(file):
        return written
    log.warning("%s names another broker than its daemon uses; jobs go to the daemon's broker until a restart", file)
    return accepted


def _accepted(file: Path, root: Node | None) -> model.Config | None:
    """
    The configuration that the file's production daemon accepted last, if this user may read it.

    It is searched in the state directories that pointers of the file's daemons name, since a file with problems may not
    name its own; then in the state directory of the file.
    """
    from fusiond.config.accepted.snapshot import read_snapshot
    from fusiond.config.build import directory

    places = [Path(pointer.state) for pointer in find_pointers(file) if not pointer.development]
    with contextlib.suppress(ConfigError):
        places.append(state_directory(file, directory(root, "state_directory")))
    for place in places:
        with contextlib.suppress(ConfigError):
            snapshot = read_snapshot(current_snapshot(place))
            if same_file(snapshot.source, file):
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
    The runtime directory whose embedded server listens: that of the production daemon, otherwise of `fusiond dev`.

    Daemons that were started with this very path come first, then those with another path to the file, such as a
    symlink. If no server listens, it is the directory that the production daemon would use. Raises BrokerUnavailable if
    the daemon of another file uses that directory.
    """
    usual, found = runtime_directory(file, key), find_pointers(file)
    if other := other_file(usual, file):
        raise BrokerUnavailable(f"{usual} belongs to the daemon of {other}, not of {file}; set runtime_directory")
    # By another name or not, of `fusiond dev` or not; False comes before True.
    places = [(pointer.file != str(file), pointer.development, Path(pointer.runtime)) for pointer in found]
    for _, development, runtime in sorted([*places, (False, False, usual)], key=lambda place: place[:2]):
        if is_listening(redis_socket(runtime), None if runtime == usual else trusted(file)):
            if development:
                log.warning("only fusiond dev runs %s on this host; jobs go to its broker", file)
            return runtime
    return usual
