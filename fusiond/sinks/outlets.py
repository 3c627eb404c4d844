"""What a sink delivers to: the parts that all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

#: a document, as `Event.document` gives it
Document = dict[str, Any]


class DeliveryError(Exception):
    """
    A batch was not taken, or only a part of it.

    Attributes:
        refused: a sentence for each document that would be refused again. It is set aside.
        left: the documents to try again, since whoever takes them is away, or busy; None: all of the batch.
        retry_after: seconds after which it wants to be asked again; or None.
    """

    def __init__(
        self,
        sentence: str,
        *,
        refused: Sequence[str] = (),
        retry_after: float | None = None,
        left: Sequence[Document] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.refused, self.retry_after, self.left = refused, retry_after, left


class RefusedTogetherError(DeliveryError):
    """These documents are refused together, because they are too large or one of them is bad: fewer may be taken."""


def deliver_in_parts(deliver: Callable[[Sequence[Document]], None], documents: Sequence[Document]) -> None:
    """
    Deliver these; what is refused together in halves, so that one bad document keeps back no other.

    Raises DeliveryError, if any was not taken.
    """
    try:
        deliver(documents)
    except RefusedTogetherError as error:
        if len(documents) == 1:
            raise DeliveryError(str(error), refused=[str(error)], left=()) from error
        middle = len(documents) // 2
        _deliver_halves(deliver, documents[:middle], documents[middle:])


def _deliver_halves(
    deliver: Callable[[Sequence[Document]], None], first: Sequence[Document], second: Sequence[Document]
) -> None:
    refused: list[str] = []
    for part, behind in ((first, second), (second, ())):
        try:
            deliver_in_parts(deliver, part)
        except DeliveryError as error:
            refused += error.refused
            left = part if error.left is None else error.left
            if left:
                # Who takes it is away, or busy: the rest would fare no better.
                left = [*left, *behind]
                raise DeliveryError(str(error), refused=refused, retry_after=error.retry_after, left=left) from error
    if refused:
        raise DeliveryError(refused[0], refused=refused, left=())


class Outlet(Protocol):
    """One place to deliver to. Its methods run in a thread, one at a time."""

    #: documents that it takes at once
    most: int

    def deliver(self, documents: Sequence[Document]) -> None:
        """Deliver these. Raises DeliveryError; some may be delivered, but none of a RefusedTogetherError."""

    def close(self) -> None:
        """End connections, close files."""
