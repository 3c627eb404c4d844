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


class TooLargeError(DeliveryError):
    """These documents are too many, or too large, to be taken together; fewer of them may be taken."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, refused=True)


def deliver_in_parts(deliver: Callable[[Sequence[Document]], None], documents: Sequence[Document]) -> None:
    """
    Deliver these; what is too large in halves, so that one document that alone is too large keeps back no other.

    Raises DeliveryError; its `left` has what was not taken of a batch that was halved.
    """
    try:
        deliver(documents)
    except TooLargeError:
        if len(documents) == 1:
            raise
        middle = len(documents) // 2
        _deliver_halves(deliver, documents[:middle], documents[middle:])


def _deliver_halves(
    deliver: Callable[[Sequence[Document]], None], first: Sequence[Document], second: Sequence[Document]
) -> None:
    refused: DeliveryError | None = None
    left: list[Document] = []
    for part, behind in ((first, second), (second, ())):
        try:
            deliver_in_parts(deliver, part)
        except DeliveryError as error:
            left += part if error.left is None else error.left
            if not error.refused:
                # Who takes it is away, or busy: the rest would fare no better.
                raise DeliveryError(str(error), retry_after=error.retry_after, left=[*left, *behind]) from error
            refused = error
    if refused is not None:
        raise DeliveryError(str(refused), refused=True, left=left) from refused


class Outlet(Protocol):
    """One place to deliver to. Its methods run in a thread, one at a time."""

    #: documents that it takes at once
    most: int

    def deliver(self, documents: Sequence[Document]) -> None:
        """Deliver these. Raises DeliveryError; then some may have been delivered, but none of what is TooLargeError."""

    def close(self) -> None:
        """End connections, close files."""
