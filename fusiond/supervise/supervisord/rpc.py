"""
The verbs of the control socket, in two namespaces.

    fusion      reload, rollback, plan, history, identity, status, drain, logs
    supervisor  what `supervisorctl -s unix://…` needs for status, start, stop, restart, tail, shutdown, pid

No verb changes which programs there are: only the file does.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from supervisor.http import NOT_DONE_YET
from supervisor.rpcinterface import SupervisorNamespaceRPCInterface
from supervisor.xmlrpc import Faults, RPCError

import fusiond
from fusiond import paths, redis_server
from fusiond.config.accepted.history import entries
from fusiond.config.release_marks import marks, switched
from fusiond.status_document import EmbeddedServer, Identity, LoadedRelease, ProgramStatus, StatusDocument
from fusiond.supervise.liveness import Liveness
from fusiond.supervise.process_table import ProcessTable
from fusiond.supervise.reload.outcome import Request
from fusiond.supervise.reload.reloads import Reloads
from fusiond.supervise.supervisord.process import Process
from fusiond.supervise.wanted_programs import part_of

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


def supervisor_namespace(daemon: Any) -> SimpleNamespace:
    """Supervisor's own namespace, with the verbs of VERBS alone."""
    stock = SupervisorNamespaceRPCInterface(daemon)
    return SimpleNamespace(**{verb: getattr(stock, verb) for verb in VERBS})


class FusionNamespace:
    """
    Our namespace. Answers are JSON texts, since XML-RPC has no null and no long integers.

    An argument may be of any type that XML-RPC has, and is as long as `channel.py` permits.

    Args:
        started: monotonic seconds of the daemon's start.
        ending: whether it was asked to end.
    """

    def __init__(
        self, processes: ProcessTable, reloads: Reloads, liveness: Liveness, started: float, ending: Callable[[], bool]
    ) -> None:
        self._processes, self._reloads, self._liveness = processes, reloads, liveness
        self._started, self._ending = started, ending

    def reload(self, who: str = "fusiond reload", code: str = "") -> Callable[[], Any]:
        """Reload the file, and the code of groups; answered when it has ended.

        @param string who       who asks, for the log
        @param string code      groups to replace since their code has changed, with spaces between; *: all groups
        @return string outcome  JSON: result, generation, changes, problems, reason, …
        """
        return self._answer_to(Request(str(who), code=frozenset(str(code).split())))

    def rollback(self, generation: str = "", who: str = "fusiond rollback") -> Callable[[], Any]:
        """Apply what ran as an earlier generation; answered when that has ended.

        @param string generation  its number; empty: the one before
        @param string who         who asks, for the log and the history
        @return string outcome    JSON, as for reload
        """
        if not re.fullmatch("[0-9]{0,9}", str(generation)):
            raise RPCError(Faults.INCORRECT_PARAMETERS, f"{generation!r} is not the number of a generation")
        return self._answer_to(Request(str(who), "rollback", int(generation or 0)))

    def plan(self) -> Callable[[], Any]:
        """What a reload would do; answered when the file was read.

        @return string plan     JSON: generation, hash, source, problems, effects, reason
        """
        return self._answer_to(Request("fusiond plan", "plan"))

    def history(self) -> str:
        """The generations that were accepted, oldest first.

        @return string entries  JSON: entries: generation, hash, accepted_at, asked_by, changes, …
        """
        kept = entries(paths.history(self._processes.run.state), of=self._processes.accepted.source)
        return json.dumps({"entries": [asdict(entry) for entry in kept]})

    def identity(self) -> str:
        """Which file this daemon runs; answered at once, whatever its programs do.

        @return string identity  JSON: pid, version, source, development, state_directory, runtime_directory, snapshot
        """
        return json.dumps(self._identity())

    def _identity(self) -> Identity:
        accepted, run = self._processes.accepted, self._processes.run
        return {
            "pid": os.getpid(),
            "version": fusiond.__version__,
            "source": accepted.source,
            "development": run.development,
            "state_directory": str(run.state),
            "runtime_directory": str(run.runtime),
            "snapshot": str(accepted.path),
        }

    def drain(self, on: str = "on", who: str = "fusiond drain") -> str:
        """Have the worker groups of this host claim no jobs, or claim again; answered at once.

        @param string on        on or off
        @param string who       who asks, for the log and the event
        @return string answer   JSON: drained: who asked and since when, in epoch seconds; null: they claim
        """
        if on not in ("on", "off"):
            raise RPCError(Faults.INCORRECT_PARAMETERS, f"{on!r} is neither 'on' nor 'off'")
        self._processes.drain(str(who), on=on == "on")
        return json.dumps({"drained": self._processes.drained})

    def logs(self, group: str, offsets: str = "{}") -> str:
        """What the programs of a worker group have logged last.

        @param string group     its name
        @param string offsets   JSON: program → the byte from which on; 0 without it; if empty, the answer begins with
                                what the generation before has logged, under the name of the part
        @return string texts    JSON: program → size: bytes that there are now; text: from that byte on, or from the
                                beginning if there are fewer bytes than that
        """
        if group not in self._processes.accepted.config.workers:
            raise RPCError(Faults.INCORRECT_PARAMETERS, f"there is no worker group {group!r}")
        try:
            known = {str(name): int(offset) for name, offset in json.loads(str(offsets)).items()}
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise RPCError(Faults.INCORRECT_PARAMETERS, "offsets is no JSON object of numbers") from None
        programs = [process.program for process in self._processes if process.program.part == part_of(group)]
        before = {} if known else {each.part: _logged(each.tail_before, 0) for each in programs}
        return json.dumps(before | {each.name: _logged(each.tail, known.get(each.name, 0)) for each in programs})

    def status(self) -> Callable[[], Any]:
        """How the daemon is; answered when each program has said whether it serves, or has had time to.

        @return string status   JSON: pid, ready, generation, hash, programs, reload, …
        """
        asked_at = time.monotonic()
        self._liveness.ask()
        return self._deferred(lambda: self._status() if self._liveness.answered(asked_at) else None)

    def _status(self) -> StatusDocument:
        accepted, unready = self._processes.accepted, self._processes.unready()
        return {
            **self._identity(),
            "uptime": time.monotonic() - self._started,
            "ready": not unready and not self._ending(),
            "unready": unready,
            "of_other_hosts": self._processes.of_other_hosts(),
            "settled": self._processes.settled(),
            "ending": self._ending(),
            "drained": self._processes.drained,
            "drained_queues": self._processes.drained_queues(),
            "generation": accepted.generation,
            "hash": accepted.hash,
            "restores": accepted.restores,
            "server": self._server(),
            "file_differs": self._reloads.file_differs,
            "reload": self._reloads.last,
            "reloads": dict(self._reloads.counts),
            "programs": [self._program(process) for process in self._processes],
        }

    def _program(self, process: Process) -> ProgramStatus:
        return {
            "ready": process.ready, "serves": process.serves, "draining": process.draining, "trial": process.trial,
            "stopped_by_operator": process.stopped_by_operator, "last_exit": process.last_exit,
            "deaths": process.deaths, "busy": process.busy, "retry_in": process.retry_in, "unloaded": process.unloaded,
            "warning": process.warning, "reason": process.reason, "scaled": process.scaled,
            "waits_for_redis": process.waits_for_redis, "name": process.program.name, "part": process.program.part,
            "state": process.state_name, "wanted": process.program.name in self._processes.wanted,
            "pid": process.pid or None, "uptime": time.time() - process.laststart if process.pid else None,
            "generation": process.applied, "last_words": [] if process.ready else [*process.last_lines],
            "release": _release(process),
        }  # fmt: skip

    def _server(self) -> EmbeddedServer | None:
        """The embedded server that wrote the data last; None if there is none, or it was never ready."""
        if not self._processes.run.server:
            return None
        found = redis_server.writer(paths.redis_state(self._processes.run.state))
        return found and {"name": found.name, "version": ".".join(map(str, found.version)), "path": found.path}

    def _answer_to(self, request: Request) -> Callable[[], Any]:
        """Queue the request; refused when the daemon ends, which may take as long as its jobs run."""
        if self._ending():
            raise RPCError(Faults.SHUTDOWN_STATE, "it is ending")
        self._reloads.ask(request)
        return self._deferred(lambda: request.answer)

    def _deferred(self, found: Callable[[], Mapping[str, object] | None]) -> Callable[[], Any]:
        """Answer with what `found` returns, as soon as it is not None."""

        def answer() -> Any:
            content = found()
            return NOT_DONE_YET if content is None else json.dumps(content)

        answer.delay = DEFERRED  # type: ignore[attr-defined] # supervisor's way to defer
        answer.rpcinterface = self  # type: ignore[attr-defined]
        return answer


def _release(process: Process) -> dict[str, LoadedRelease]:
    before = process.release or {}
    now = marks(before)
    changed = switched(before, now)
    return {
        path: {"loaded": mark and mark.real, "now": (found := now[path]) and found.real, "switched": path in changed}
        for path, mark in before.items()
    }


def _logged(tail: Path, offset: int) -> dict[str, Any]:
    """What a program has logged from a byte on, as far as its tail file has it."""
    try:
        content = tail.read_bytes()
    except OSError:
        content = b""
    text = content[offset if 0 <= offset <= len(content) else 0 :]
    return {"size": len(content), "text": text.decode(errors="backslashreplace")}
