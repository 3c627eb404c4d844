"""
What the control socket answers: two namespaces, each a fixed table of verbs.

    fusion      reload, status
    supervisor  what `supervisorctl -s unix://…` needs for status, start, stop, restart, tail, shutdown, pid

Nothing that changes which programs there are: that is the file's.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from supervisor.http import NOT_DONE_YET
from supervisor.rpcinterface import SupervisorNamespaceRPCInterface

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusiond.supervise.fleet import Fleet
    from fusiond.supervise.process import Process
    from fusiond.supervise.reload import Reloads

# fmt: off
VERBS = (
    "getAPIVersion", "getVersion", "getSupervisorVersion", "getIdentification", "getState", "getPID", "shutdown",
    "startProcess", "startProcessGroup", "startAllProcesses", "stopProcess", "stopProcessGroup", "stopAllProcesses",
    "getProcessInfo", "getAllProcessInfo", "readProcessLog", "readProcessStdoutLog", "tailProcessLog",
    "tailProcessStdoutLog",
)
# fmt: on
#: seconds between two looks at whether a reload has ended
DEFERRED = 0.01


class DaemonFace:
    """Supervisor's own namespace, less the verbs that are not in the table."""

    def __init__(self, daemon: Any) -> None:
        stock = SupervisorNamespaceRPCInterface(daemon)
        for verb in VERBS:
            setattr(self, verb, getattr(stock, verb))


class FusionFace:
    """Our namespace. Answers are JSON texts, since XML-RPC has no null and no long integers."""

    def __init__(self, fleet: Fleet, reloads: Reloads, started: float, ending: Callable[[], bool]) -> None:
        self._fleet, self._reloads, self._started, self._ending = fleet, reloads, started, ending

    def reload(self, who: str = "fusiond reload") -> Callable[[], Any]:
        """Reload the file; answered when it has ended.

        @param string who       who asks, for the log
        @return string outcome  JSON: result, generation, changes, problems, reason, …
        """
        ticket = self._reloads.ask(who)

        def answer() -> Any:
            return json.dumps(ticket.outcome.to_dict()) if ticket.outcome else NOT_DONE_YET

        answer.delay = DEFERRED  # type: ignore[attr-defined] # supervisor's way to defer
        answer.rpcinterface = self  # type: ignore[attr-defined]
        return answer

    def status(self) -> str:
        """How the daemon is.

        @return string status   JSON: pid, generation, hash, programs, reload, …
        """
        accepted, last = self._fleet.accepted, self._reloads.last
        return json.dumps(
            {
                "pid": os.getpid(),
                "uptime": time.monotonic() - self._started,
                "ready": self._fleet.settled(),
                "ending": self._ending(),
                "generation": accepted.generation,
                "hash": accepted.hash,
                "source": accepted.source,
                "reload": last.to_dict() if last else None,
                "reloads": dict(self._reloads.counts),
                "programs": [_describe(process, process.program.name in self._fleet.wanted) for process in self._fleet],
            }
        )


def _describe(process: Process, wanted: bool) -> dict[str, Any]:
    return {
        "name": process.program.name,
        "part": process.program.part,
        "state": process.state_name,
        "ready": process.ready,
        "draining": process.draining,
        "trial": process.trial,
        "wanted": wanted,
        "stopped_by_operator": process.stopped_by_operator,
        "pid": process.pid or None,
        "uptime": time.time() - process.laststart if process.pid else None,
        "last_exit": process.last_exit,
        "deaths": process.deaths,
        "busy": process.busy,
        "generation": process.applied,
        "reason": process.failure or process.spawnerr or "",
    }
