"""
Have the clients of this process talk to something else for a while, also those that exist already.

The attributes by which a client reaches Redis are replaced on its class: descriptors there go before an instance's own
attributes, which stay as they are for the time afterwards. The redirection that began last counts. So is the method by
which an outbox inserts a row: no relay reads the database of a test, which is rolled back.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol
from unittest import mock

from fusiond.client import Client
from fusiond.client.base import BaseClient
from fusiond.outbox.application_side import OutboxWriter
from fusiond.outbox.insertion import Inserter

#: the attributes by which a client reaches Redis, in the order in which it makes them
PARTS: Final = ("_producer", "_flows", "_layout", "_connection")


class Target(Protocol):
    """Where clients are led."""

    #: for `Client()` without a URL, and for programs that this process starts
    url: str

    def parts(self, client: BaseClient) -> Mapping[str, Any]:
        """What this client uses in place of its own PARTS."""


#: the newest last
_targets: list[Target] = []


class _Part:
    """One of PARTS of each client."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, client: BaseClient, _owner: type) -> Any:
        own = vars(client)
        # While it is made, a client makes one part of another.
        return _targets[-1].parts(client)[self._name] if PARTS[-1] in own else own[self._name]

    def __set__(self, client: BaseClient, value: Any) -> None:
        vars(client)[self._name] = value


@contextlib.contextmanager
def redirected(target: Target) -> Iterator[None]:
    """Lead each client to the target, and have `Client()` find its URL."""
    _targets.append(target)
    _install()
    try:
        with mock.patch.dict(os.environ, FUSION_URL=target.url):
            yield
    finally:
        _targets.remove(target)
        if not _targets:
            _remove()


@functools.cache
def _client() -> Client:
    """Like each client, it is led to the target of the moment."""
    return Client()


_STORE: Final = OutboxWriter.store


def _enqueue_at_once(
    writer: OutboxWriter, _insert: Inserter, task: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> str:
    """In place of `OutboxWriter.store`: the target gets the job, and the database no row."""
    return _client().options(**writer.call.given()).enqueue(task, *args, **kwargs).id


def _install() -> None:
    for name in PARTS:
        setattr(BaseClient, name, _Part(name))
    setattr(OutboxWriter, "store", _enqueue_at_once)  # noqa: B010 - mypy takes no other method by an assignment


def _remove() -> None:
    for name in PARTS:
        delattr(BaseClient, name)
    setattr(OutboxWriter, "store", _STORE)  # noqa: B010 - as above
