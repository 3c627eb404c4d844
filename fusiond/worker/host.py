"""What a pool of children tells its dispatcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fusiond.worker.slots import Attempt, Doom
    from fusiond.worker.wire import OutcomeMessage


class Host(Protocol):
    """What the pool tells its dispatcher."""

    def on_room(self) -> None:
        """A child may take more."""

    def on_ready(self, problems: dict[str, list[str]]) -> None:
        """Every path was tried, the first children serve or not; task → [code, message] of those that cannot run."""

    def on_start_failed(self, reason: str) -> None:
        """The fork server could not be started, or died before it was ready."""

    def on_outcome(self, attempt: Attempt, outcome: OutcomeMessage) -> None:
        """The attempt ran to its end."""

    def on_back(self, attempts: list[Attempt]) -> None:
        """These were handed out and never begun."""

    def on_killed(self, attempt: Attempt, doom: Doom | None, status: int) -> None:
        """Its child died in the middle of it: for this reason of ours, or of itself."""

    def on_unheard(self, attempt: Attempt) -> None:
        """It ran, its child died before it could say how, and the death was not its own."""
