"""What `fusiond dev` makes of a file: the same tasks and groups, small, by themselves, on any machine."""

from __future__ import annotations

import dataclasses
import pwd

from fusiond.config.model import Broker, Config, Logging, WorkerGroup

# What is compiled is known by its source's size and whole second: a file that is saved twice in one, at the same size,
# would run as it was before.
_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}


def development(config: Config, *, root: bool) -> Config:
    """
    Every group with one child, the embedded broker, text logs on standard output, a saved file taken by itself.

    Args:
        config: what the file says.
        root: whether the daemon may become other users; else, or where there is no such user, a group runs as its own.
    """
    return dataclasses.replace(
        config,
        broker=Broker(namespace=config.broker.namespace),
        workers={name: _small(group, root=root) for name, group in config.workers.items()},
        logging=Logging(level=config.logging.level, jobs=config.logging.jobs),
        watch=True,
    )


def _is_user(name: str | None) -> bool:
    try:
        return name is not None and bool(pwd.getpwnam(name))
    except KeyError:
        return False


def _small(group: WorkerGroup, *, root: bool) -> WorkerGroup:
    return dataclasses.replace(
        group,
        processes=min(group.processes, 1),
        user=group.user if root and _is_user(group.user) else None,
        environment={**_NO_BYTECODE, **group.environment},
    )
