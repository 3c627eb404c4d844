"""
What the control socket answers: two namespaces, each a fixed table of verbs.

    fusion      reload, rollback, plan, history, identity, status
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
from supervisor.xmlrpc import Faults, RPCError

from fusiond import paths, redis_server
from fusiond.config.accepted.history import entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusiond.supervise.fleet import Fleet
    from fusiond.supervise.liveness import Liveness
    from fusiond.supervise.programs import Places
    from fusiond.supervise.reload.outcome import Ticket
    from fusiond.supervise.reload.plan_requests import PlanRequests
    from fusiond.supervise.reload.reloads import Reloads
    from fusiond.supervise.supervisord.process import Process

# fmt: off
VERBS = (
    "getAPIVersion", "getVersion", "getSupervisorVersion", "getIdentification", "getState", "getPID", "shutdown",
    "startProcess", "startProcessGroup", "startAllProcesses", "stopProcess", "stopProcessGroup", "stopAllProcesses",
    "getProcessInfo", "getAllProcessInfo", "readProcessLog", "readProcessStdoutLog", "tailProcessLog",
    "tailProcessStdoutLog",
)
# fmt: on
#: characters of an argument
LONGEST = 10_000
#: seconds between two looks at whether a reload has ended
DEFERRED = 0.01


class DaemonFace:
    """Supervisor's own namespace, less the verbs that are not in the table."""

    def __init__(self, daemon: Any) -> None:
        stock = SupervisorNamespaceRPCInterface(daemon)
        for verb in VERBS:
            setattr(self, verb, getattr(stock, verb))


class FusionFace:
    """
    Our namespace. Answers are JSON texts, since XML-RPC has no null and no long integers.

    Args:
        places: its directories.
        started: monotonic seconds of the daemon's start.
        ending: whether it was asked to end.
    """

    def __init__(
        self,
        fleet: Fleet,
        reloads: Reloads,
        plan_requests: PlanRequests,
        liveness: Liveness,
        *,
        places: Places,
        started: float,
        ending: Callable[[], bool],
    ) -> None:
        self._fleet, self._reloads, self._plan_requests, self._liveness = fleet, reloads, plan_requests, liveness
        self._places, self._started, self._ending = places, started, ending

    def reload(self, who: str = "fusiond reload", code: str = "") -> Callable[[], Any]:
        """Reload the file, and the code of groups; answered when it has ended.

        @param string who       who asks, for the log
        @param string code      groups to replace for their code has changed, a space between; *: each; empty: none
        @return string outcome  JSON: result, generation, changes, problems, reason, …
        """
        self._refuse_at_the_end()
        return self._outcome_of(self._reloads.ask(_text(who), frozenset(_text(code).split())))

    def rollback(self, generation: str = "", who: str = "fusiond rollback") -> Callable[[], Any]:
        """Take what ran as an earlier generation, through the same transaction; answered when it has ended.

        @param string generation  its number; empty: the one before
        @param string who         who asks, for the log and the history
        @return string outcome    JSON, as of reload
        """
        if _text(generation) and not (generation.isascii() and generation.isdecimal() and len(generation) < 10):
            raise RPCError(Faults.INCORRECT_PARAMETERS, f"{generation!r} is not a generation's number")
        self._refuse_at_the_end()
        return self._outcome_of(self._reloads.ask_back(_text(who), int(generation or 0)))

    def plan(self) -> Callable[[], Any]:
        """What a reload would do; answered when the file was read.

        @return string plan     JSON: generation, hash, source, problems, effects, reason
        """
        self._refuse_at_the_end()
        answer = self._plan_requests.ask()
        return self._deferred(lambda: answer.content)

    def history(self) -> str:
        """The generations that were accepted, oldest first.

        @return string entries  JSON: entries: generation, hash, accepted_at, asked_by, changes, …
        """
        kept = entries(paths.history(self._places.state), of=self._fleet.accepted.source)
        return json.dumps({"entries": [entry.to_dict() for entry in kept]})

    def identity(self) -> str:
        """Whose daemon this is; answered at once, whatever its programs do.

        @return string identity  JSON: pid, source, development, state_directory, runtime_directory, snapshot
        """
        return json.dumps(self._identity())

    def _identity(self) -> dict[str, Any]:
        accepted = self._fleet.accepted
        return {
            "pid": os.getpid(),
            "source": accepted.source,
            "development": self._places.development,
            "state_directory": str(self._places.state),
            "runtime_directory": str(self._places.runtime),
            "snapshot": str(accepted.path),
        }

    def status(self) -> Callable[[], Any]:
        """How the daemon is; answered when each program has said whether it serves, or has had time to.

        @return string status   JSON: pid, ready, generation, hash, programs, reload, …
        """
        asked_at = time.monotonic()
        self._liveness.ask()
        return self._deferred(lambda: self._status() if self._liveness.heard(asked_at) else None)

    def _status(self) -> dict[str, Any]:
        accepted, last = self._fleet.accepted, self._reloads.last
        return {
            **self._identity(),
            "uptime": time.monotonic() - self._started,
            "ready": self._fleet.ready() and not self._ending(),
            "unready": self._fleet.unready(),
            "settled": self._fleet.settled(),
            "ending": self._ending(),
            "generation": accepted.generation,
            "hash": accepted.hash,
            "restores": accepted.restores,
            "server": self._server(),
            "file_differs": self._reloads.file_differs,
            "reload": last.to_dict() if last else None,
            "reloads": dict(self._reloads.counts),
            "programs": [_describe(process, process.program.name in self._fleet.wanted) for process in self._fleet],
        }

    def _server(self) -> dict[str, Any] | None:
        """The embedded server that wrote the data last; None where the broker is another, or it was never ready."""
        if not self._places.server:
            return None
        found = redis_server.writer(paths.redis_state(self._places.state))
        return found and {"name": found.name, "version": ".".join(map(str, found.version)), "path": found.path}

    def _refuse_at_the_end(self) -> None:
        """Running jobs may take an hour to their end, and nothing is taken in any more."""
        if self._ending():
            raise RPCError(Faults.SHUTDOWN_STATE, "it is ending")

    def _outcome_of(self, ticket: Ticket) -> Callable[[], Any]:
        return self._deferred(lambda: ticket.outcome.to_dict() if ticket.outcome else None)

    def _deferred(self, found: Callable[[], dict[str, Any] | None]) -> Callable[[], Any]:
        """Answer with what `found` returns, once it is not None."""

        def answer() -> Any:
            content = found()
            return NOT_DONE_YET if content is None else json.dumps(content)

        answer.delay = DEFERRED  # type: ignore[attr-defined] # supervisor's way to defer
        answer.rpcinterface = self  # type: ignore[attr-defined]
        return answer


def _text(given: object) -> str:
    """An argument, which can be of any type that XML-RPC has. Raises RPCError."""
    if not isinstance(given, str) or len(given) > LONGEST:
        raise RPCError(Faults.INCORRECT_PARAMETERS, f"an argument is no text of at most {LONGEST} characters")
    return given


def _describe(process: Process, wanted: bool) -> dict[str, Any]:
    return {
        "name": process.program.name,
        "part": process.program.part,
        "state": process.state_name,
        "ready": process.ready,
        "serves": process.serves,
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
        "retry_in": process.retry_in(),
        "unloaded": process.unloaded,
        "reason": process.reason,
        "last_words": () if process.ready else process.last_words,
    }
