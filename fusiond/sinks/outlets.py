"""What a sink delivers to: the parts that all kinds share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

#: a document, as `Event.document` gives it
Document = dict[str, Any]


class DeliveryError(Exception):
    """
    A batch was not taken, or only a part of it.

    Attributes:
        refused: the same batch would be refused again; else whoever takes it is away, or busy.
        retry_after: seconds after which it wants to be asked again; or None.
        left: the documents that were not taken; None: all of the batch.
    """

    def __init__(
        self,
        sentence: str,
        *,
        refused: bool = False,
        retry_after: float | None = None,
        left: Sequence[Document] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.refused, self.retry_after, self.left = refused, retry_after, left


class Outlet(Protocol):
    """One place to deliver to. Its methods run in a thread, one at a time."""

    #: documents that it takes at once
    most: int

    def deliver(self, documents: Sequence[Document]) -> None:
        """Deliver these. Raises DeliveryError; then some of them may have been delivered."""

    def close(self) -> None:
        """End connections, close files."""
