"""What a pool of children tells its dispatcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fusiond.worker.pool.slots import Attempt, KillReason
    from fusiond.worker.runtime.wire import OutcomeMessage


class Host(Protocol):
    """What the pool tells its dispatcher."""

    def on_room(self) -> None:
        """A child may take more."""

    def on_late(self) -> None:
        """This process did not run for a while; what it knows of its leases is old."""

    def on_ready(self, problems: Mapping[str, list[str]]) -> None:
        """
        Every path was tried, and the first children serve or not, or there are none since nothing loads.

        `problems`: task → [code, message] of what does not load.
        """

    def on_problems(self) -> None:
        """Other tasks load now than did before."""

    def on_unloaded(self, attempt: Attempt, payload: bytes) -> None:
        """Its child could not load the task's function; `payload`: the error as JSON."""

    def on_start_failed(self, reason: str) -> None:
        """The fork server could not be started, or died before it was ready."""

    def on_outcome(self, attempt: Attempt, outcome: OutcomeMessage) -> None:
        """The attempt ran to its end."""

    def on_back(self, attempts: list[Attempt]) -> None:
        """These were handed out and never begun."""

    def on_killed(self, attempt: Attempt, kill_reason: KillReason | None, status: int) -> None:
        """Its child died in the middle of it: for this reason of ours, or of itself."""

    def on_unheard(self, attempt: Attempt) -> None:
        """It ran, its child died before it could say how, and the death was not its own."""
