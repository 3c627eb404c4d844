"""
Handles of runs of flows.

    run = jobs.run_flow("nightly_etl", day="2026-11-23")
    run.status()            # running, suspended, canceling, finished, failed or canceled
    run.steps()             # {"extract": "finished", "load": "running", "report": "waiting"}
    run.result(timeout=60)  # {"report": …}: the results of the steps after which no other comes
"""

from collections.abc import Callable
from typing import Any

from fusiond.client.base import Handle
from fusiond.flows.run_control import RunControl, RunRef, RunView


class RunHandle(Handle):
    """What FlowRun and AsyncFlowRun have in common."""

    __slots__ = ("_control", "_run")
    _ref: RunRef

    def __init__(self, run: Callable[[Any], Any], control: RunControl, ref: RunRef) -> None:
        super().__init__(ref)
        self._run, self._control = run, control


def _steps(view: RunView) -> dict[str, str]:
    return {name: step.status for name, step in view.run.state.steps.items()}


class FlowRun(RunHandle):
    """A run of a flow; each method asks Redis."""

    __slots__ = ()

    def status(self) -> str:
        """How it stands: running, suspended, canceling, finished, failed or canceled. Raises JobNotFound."""
        view: RunView = self._run(self._control.view(self._ref))
        return view.status

    def steps(self) -> dict[str, str]:
        """Step → waiting, running, finished, failed, canceled or skipped. Raises JobNotFound."""
        return _steps(self._run(self._control.view(self._ref)))

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """
        Wait until the run has ended.

        Args:
            timeout: seconds; None: for ever.

        Returns:
            the result of each step after which no other comes; null for one that was skipped.

        Raises:
            JobFailed, JobCanceled: a step failed, or the run was canceled.
            ResultTimeout: it has not ended in time; it goes on.
            JobNotFound: it was deleted after its ttl.
        """
        return self._run(self._control.result(self._ref, timeout))  # type: ignore[no-any-return]

    def cancel(self) -> bool:
        """Cancel what runs of it; nothing more begins. False: it had ended already. Raises JobNotFound."""
        return self._run(self._control.cancel(self._ref))  # type: ignore[no-any-return]


class AsyncFlowRun(RunHandle):
    """A run of a flow; each method asks Redis."""

    __slots__ = ()

    async def status(self) -> str:
        """As `FlowRun.status`."""
        view: RunView = await self._run(self._control.view(self._ref))
        return view.status

    async def steps(self) -> dict[str, str]:
        """As `FlowRun.steps`."""
        return _steps(await self._run(self._control.view(self._ref)))

    async def result(self, timeout: float | None = None) -> dict[str, Any]:  # noqa: ASYNC109 - as FlowRun's
        """As `FlowRun.result`."""
        return await self._run(self._control.result(self._ref, timeout))  # type: ignore[no-any-return]

    async def cancel(self) -> bool:
        """As `FlowRun.cancel`."""
        return await self._run(self._control.cancel(self._ref))  # type: ignore[no-any-return]
