"""The file as `fusiond dev` runs it: the same tasks and groups with one child each, on any machine."""

from __future__ import annotations

import dataclasses
import pwd

from fusiond.config.model import Broker, Config, Logging

# Python knows compiled code by the size and the second of its source: a file that is saved twice within a second, with
# the same size, would run as it was before.
_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}


def development(config: Config, *, root: bool) -> Config:
    """
    Every group with one child, the embedded broker, text logs on standard output; a saved file takes effect by itself.

    Args:
        config: what the file says.
        root: whether the daemon may become other users. If not, or if there is no such user, a group runs as the
            daemon's.
    """
    workers = {
        name: dataclasses.replace(
            group,
            processes=min(group.processes, 1),
            user=group.user if root and _is_user(group.user) else None,
            environment={**_NO_BYTECODE, **group.environment},
        )
        for name, group in config.workers.items()
    }
    return dataclasses.replace(
        config,
        broker=Broker(namespace=config.broker.namespace),
        workers=workers,
        logging=Logging(level=config.logging.level, jobs=config.logging.jobs),
        watch=True,
    )


def _is_user(name: str | None) -> bool:
    try:
        return name is not None and bool(pwd.getpwnam(name))
    except KeyError:
        return False
