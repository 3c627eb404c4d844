"""What `fusiond dev` makes of a file: the same tasks and groups, small, by themselves, on any machine. Pure."""

from __future__ import annotations

import dataclasses

from fusiond.config.model import Broker, Config, Logging


def development(config: Config, *, root: bool) -> Config:
    """
    Every group with one child, the embedded broker, text logs on standard output.

    Args:
        config: what the file says.
        root: whether the daemon may become other users; else each group runs as its own.
    """
    workers = {
        name: dataclasses.replace(group, processes=min(group.processes, 1), user=group.user if root else None)
        for name, group in config.workers.items()
    }
    return dataclasses.replace(
        config,
        broker=Broker(namespace=config.broker.namespace),
        workers=workers,
        logging=Logging(level=config.logging.level),
    )
