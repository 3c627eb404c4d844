"""
Ask the interpreter of each group what its tasks are: `fusiond validate --imports`.

1. gather  the groups whose children are started in the same way; one probe answers for all of them
2. start   a probe (runtime/probe.py) as the fork server is started: same user, directory, environment, privileges
3. listen  to it. An import that takes too long, or ends the process, is a failure; a new probe tries the rest
4. end     it, and every process that an import has left behind

The user's modules run in the probe's process only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, Final

from fusiond.config.lint.task_code import ImportFailure, Probed, signature
from fusiond.config.model import RETRY_POLICIES, Config, WorkerGroup, serves
from fusiond.config.model.commands import FAILURES
from fusiond.worker.pool.fork_server.bundle import PROBE
from fusiond.worker.pool.fork_server.launch import Launched, start
from fusiond.worker.pool.fork_server.orphans import be_subreaper, end_children

#: so many probes of one group may hang or die; then the other paths are not tried
MOST_RESTARTS: Final = 5
#: s; from the moment at which the probe prints where it hangs until it is killed
_LAST_WORDS: Final = 0.5
#: bytes that are kept of what was printed. Not lines: faulthandler writes a line in several pieces
_MOST_PRINTED: Final = 4000
_RUNTIME: Final = str(Path(__file__).parent / "runtime")


def probe(config: Config, patience: float, *, elsewhere: bool = False) -> list[Probed]:
    """
    What the interpreters of this host's groups say of their tasks, and of the exceptions that these retry.

    Args:
        config: an accepted configuration.
        patience: seconds that one import may take.
        elsewhere: the file is for other hosts; their groups are asked, too.
    """
    be_subreaper()
    alike: dict[Any, list[WorkerGroup]] = {}
    host = socket.gethostname()
    for group in config.workers.values():
        if elsewhere or group.runs_on(host):
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
        named = (name for each in policies for name in (*each.retry_on, *each.give_up_on, *each.snooze_on))
        self._group, self._patience = groups[0], patience
        starts = [group.on_start for group in groups if group.on_start]
        self._paths = list(dict.fromkeys([*(task.run for task in tasks), *starts]))
        self._exceptions = [name for name in dict.fromkeys(named) if name not in FAILURES]
        self._trying: str | None = None
        self._printed = b""
        names = frozenset(task.name for task in tasks), frozenset(group.name for group in groups)
        self._probed = Probed(self._group.name, *names)

    def run(self) -> Probed:
        """Ask until everything is answered, or too many probes have hung or died."""
        for _ in range(MOST_RESTARTS):
            if not (self._paths or self._exceptions) or self._ask():
                return self._probed
        for path in list(self._paths):
            reason = f"{path}: not tried, since {MOST_RESTARTS} other imports have failed"
            self._settle(path, ImportFailure("import-timeout", reason))
        return self._probed

    def _ask(self) -> bool:
        """Ask one process; True if no other one can answer what is left."""
        setup = {
            "directory": os.path.realpath(self._group.directory),
            "umask": self._group.umask,
            "patience": self._patience,
            "paths": self._paths,
            "exceptions": self._exceptions,
        }
        try:
            launched = start(self._group, PROBE, setup)
        except (OSError, LookupError) as error:
            self._probed.failed = str(error)
            return True
        hangs = True
        try:
            hangs = self._listen(launched)
            self._read_output(launched)
        finally:
            status = _end(launched, kill=hangs)
        if self._trying is not None:
            self._blame(self._trying, None if hangs else status)
        elif self._paths or self._exceptions:
            printed = " ".join(self._lines())[-300:].strip()
            self._probed.failed = printed or f"{self._group.python} ended with status {status}"
            return True
        return False

    def _listen(self, launched: Launched) -> bool:
        """Take packets and output until the probe is done or gone; True: it was silent for too long."""
        self._trying, self._printed = None, b""
        control, poll = launched.control, select.poll()
        for fd in (control.fileno(), launched.output):
            poll.register(fd, select.POLLIN)
        deadline = time.monotonic() + self._patience + _LAST_WORDS
        while (left := deadline - time.monotonic()) > 0:
            ready = {fd for fd, _ in poll.poll(left * 1000)}
            # Before what was printed, which is thrown away when the next path is tried.
            if control.fileno() in ready:
                try:
                    packet = control.recv(1 << 18)
                except ConnectionError:
                    packet = b""
                if not packet:
                    return False
                self._take(json.loads(packet))
                deadline = time.monotonic() + self._patience + _LAST_WORDS
            if launched.output in ready and not self._read_output(launched):
                poll.unregister(launched.output)
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
            self._trying, self._printed = packet["trying"], b""
        elif "reason" in packet:
            detail = packet.get("detail", "")
            failure = ImportFailure(packet["reason"], packet["message"], detail, tuple(packet["near"]))
            self._settle(packet["tried"], failure)
        elif "tried" in packet:
            parameters = packet.get("parameters")
            self._settle(packet["tried"], None if parameters is None else signature(parameters))

    def _settle(self, path: str, answer: Any) -> None:
        """Store the answer to the question about this path."""
        self._trying = None
        if path in self._paths:
            self._paths.remove(path)
            self._probed.functions[path] = answer
        elif path in self._exceptions:
            self._exceptions.remove(path)
            self._probed.exceptions[path] = answer

    def _blame(self, path: str, status: int | None) -> None:
        """The probe hung (None) or ended with this status at the path; the others of its module would do the same."""
        hung = status is None
        verb = f"does not end within {self._patience:g} s" if status is None else f"ended the process {_how(status)}"
        module, detail = path.rpartition(".")[0], "\n".join(line for line in self._lines() if not _is_machinery(line))
        failure = ImportFailure("import-timeout" if hung else "import-crash", f"the import of {module} {verb}", detail)
        for other in [*self._paths, *self._exceptions]:
            if other.rpartition(".")[0] == module:
                self._settle(other, failure)


def _end(launched: Launched, *, kill: bool) -> int:
    """Wait for the probe, or kill it, and what its imports have left behind; returns its exit status."""
    launched.control.close()
    os.close(launched.output)
    if not kill:
        with suppress(TimeoutExpired):
            launched.process.wait(timeout=_LAST_WORDS)
    launched.process.kill()
    status = launched.process.wait()
    end_children()
    return status


def _is_machinery(line: str) -> bool:
    """Whether a line of faulthandler's is about the import system, or the probe itself."""
    return line.startswith("  File ") and any(part in line for part in ("importlib", _RUNTIME, '"<string>"'))


def _how(status: int) -> str:
    return f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
