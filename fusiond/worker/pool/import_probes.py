"""
Ask the interpreter of each group what its tasks are: `fusiond validate --imports`.

1. gather  groups whose children are started alike; they are asked once
2. start   a probe (probe.py), as the fork server would be: the same user, directory, environment, privileges
3. listen  to it; what does not come to an end of its import within the deadline, or ends the process, is told so, and
           a new probe goes on behind it
4. end     it, and every process that an import has left behind

Runs the user's modules, in their own processes only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any, Final

from fusiond.config.lint.task_code import ImportFailure, Probed, signature
from fusiond.config.model import RETRY_POLICIES, serves
from fusiond.worker.pool.launch import PROBE, start
from fusiond.worker.pool.orphans import be_subreaper, kill_all_children

if TYPE_CHECKING:
    import socket

    from fusiond.config.model import Config, WorkerGroup
    from fusiond.worker.pool.launch import Launched

#: probes of one group that may hang or die, before the rest is left untried
MOST_RESTARTS: Final = 5
#: s between the probe's own word about where it hangs, and its end
_LAST_WORDS: Final = 0.5
#: bytes that are kept of what was printed. Not lines: faulthandler writes them piece by piece
_MOST_PRINTED: Final = 4000
_RUNTIME: Final = str(Path(__file__).parent.parent / "runtime")


def probe(config: Config, patience: float) -> list[Probed]:
    """
    What the interpreters of all groups say of the tasks that they serve, and of the exceptions that these retry.

    Args:
        config: an accepted configuration.
        patience: seconds that one import may take.
    """
    be_subreaper()
    alike: dict[Any, list[WorkerGroup]] = {}
    for group in config.workers.values():
        alike.setdefault(_as_started(group), []).append(group)
    return [_Probe(config, groups, patience).run() for groups in alike.values()]


def _as_started(group: WorkerGroup) -> Any:
    """What matters to a group's interpreter, as a key."""
    places = (group.user, group.directory, group.python, group.umask)
    return places, tuple(sorted(group.environment.items())), group.environment_file, group.pass_environment


class _Probe:
    """The questions to one kind of interpreter, and the answers so far."""

    def __init__(self, config: Config, groups: list[WorkerGroup], patience: float) -> None:
        tasks = [task for task in config.tasks.values() if any(serves(group.queues, task.queue) for group in groups)]
        own = {task.retry for task in tasks if config.retry_policies[task.retry] != RETRY_POLICIES.get(task.retry)}
        policies = [config.retry_policies[name] for name in sorted(own)]
        named = (name for policy in policies for name in (*policy.retry_on, *policy.give_up_on) if "." in name)
        self._group, self._patience = groups[0], patience
        self._paths = list(dict.fromkeys(task.run for task in tasks))
        self._exceptions = list(dict.fromkeys(named))
        self._trying: str | None = None
        self._printed = b""
        self._probed = Probed(self._group.name, frozenset(task.name for task in tasks))

    def run(self) -> Probed:
        """Ask until everything is answered, or too much has hung or died."""
        for _ in range(MOST_RESTARTS):
            if not self._paths and not self._exceptions:
                break
            if self._ask():
                return self._probed
        for path in self._paths:
            self._probed.functions[path] = ImportFailure(
                "import-timeout", f"{path}: not tried, after so much that failed"
            )
        return self._probed

    def _ask(self) -> bool:
        """Ask one process; whether there is nothing left to ask, or nobody who could answer."""
        try:
            launched = self._start()
        except (OSError, LookupError) as error:
            self._probed.failed = str(error)
            return True
        hangs = True
        try:
            hangs = self._listen(launched)
        finally:
            status = _end(launched, kill=hangs)
        if self._trying is None and (self._paths or self._exceptions):
            self._probed.failed = (
                " ".join(self._lines())[-300:].strip() or f"{self._group.python} ended with status {status}"
            )
            return True
        if self._trying is not None:
            self._blame(self._trying, None if hangs else status)
        return not self._paths and not self._exceptions

    def _start(self) -> Launched:
        self._trying = None
        self._printed = b""
        setup = {
            "directory": os.path.realpath(self._group.directory),
            "umask": self._group.umask,
            "patience": self._patience,
            "paths": self._paths,
            "exceptions": self._exceptions,
        }
        return start(self._group, PROBE, setup)

    def _listen(self, launched: Launched) -> bool:
        """Take packets and output until the probe is done or gone; True: it was silent for too long."""
        poll = select.poll()
        for fd in (launched.control.fileno(), launched.output):
            poll.register(fd, select.POLLIN)
        deadline = time.monotonic() + self._patience + _LAST_WORDS
        while (left := deadline - time.monotonic()) > 0:
            ready = {fd for fd, _ in poll.poll(left * 1000)}
            # Before what was printed, which is thrown away when the next path is tried.
            if launched.control.fileno() in ready:
                packet = _packet(launched.control)
                if packet is None:
                    self._read_output(launched)
                    return False
                self._take(packet)
                deadline = time.monotonic() + self._patience + _LAST_WORDS
            if launched.output in ready and not self._read_output(launched):
                poll.unregister(launched.output)
        self._read_output(launched)
        return True

    def _read_output(self, launched: Launched) -> bool:
        """Keep the last of what was printed; False at its end."""
        with suppress(BlockingIOError):
            while data := os.read(launched.output, 1 << 16):
                self._printed = (self._printed + data)[-_MOST_PRINTED:]
            return False
        return True

    def _lines(self) -> list[str]:
        return self._printed.decode(errors="replace").splitlines()

    def _take(self, packet: dict[str, Any]) -> None:
        if "trying" in packet:
            self._trying = packet["trying"]
            self._printed = b""
        elif "tried" in packet:
            self._answered(packet.pop("tried"), packet)

    def _answered(self, path: str, answer: dict[str, Any]) -> None:
        self._trying = None
        failure = None
        if "reason" in answer:
            failure = ImportFailure(
                answer["reason"], answer["message"], answer.get("detail", ""), tuple(answer["near"])
            )
        if path in self._paths:
            self._paths.remove(path)
            parameters = answer.get("parameters")
            self._probed.functions[path] = failure or (None if parameters is None else signature(parameters))
        elif path in self._exceptions:
            self._exceptions.remove(path)
            self._probed.exceptions[path] = failure

    def _blame(self, path: str, status: int | None) -> None:
        """The path at which the probe hung (None) or died, and all others of its module, which would do the same."""
        hung = status is None
        verb = f"does not end within {self._patience:g} s" if status is None else f"ended the process {_how(status)}"
        module, detail = path.rpartition(".")[0], "\n".join(line for line in self._lines() if not _is_machinery(line))
        reason = "import-timeout" if hung else "import-crash"
        for other in [each for each in self._paths if each.rpartition(".")[0] == module]:
            self._paths.remove(other)
            self._probed.functions[other] = ImportFailure(reason, f"the import of {module} {verb}", detail)
        if path in self._exceptions:
            self._exceptions.remove(path)
            self._probed.exceptions[path] = ImportFailure(reason, f"the import of {module} {verb}", detail)


def _packet(control: socket.socket) -> dict[str, Any] | None:
    """The next packet; None: the probe is gone."""
    try:
        data = control.recv(1 << 18)
    except BlockingIOError:
        return {}
    except ConnectionError:
        return None
    found: dict[str, Any] | None = json.loads(data) if data else None
    return found


def _end(launched: Launched, *, kill: bool) -> int:
    """Wait for the probe, or kill it, and what its imports have left behind; returns its exit status."""
    launched.control.close()
    os.close(launched.output)
    if not kill:
        with suppress(TimeoutExpired):
            launched.process.wait(timeout=_LAST_WORDS)
    launched.process.kill()
    status = launched.process.wait()
    kill_all_children()
    return status


def _is_machinery(line: str) -> bool:
    """Whether a line of faulthandler's is about the import system, or the probe itself."""
    return line.startswith("  File ") and any(part in line for part in ("importlib", _RUNTIME, '"<string>"'))


def _how(status: int) -> str:
    return f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
