"""
Notice that a deployment has switched a release, for the groups with `reload_on`.

1. look      at what the paths lead to, when the watch says that this may have changed
2. compare   with what each group's fork server was started with, as its dispatcher has said. So no switch is missed,
             whether it came before the watch began or while the group was starting
3. ask       for a reload of the groups that have the same paths, once for each release. One that was refused is tried
             again once the paths lead elsewhere, after the next reload that is not refused, or when somebody asks
"""

from __future__ import annotations

import glob
import logging
from collections.abc import Iterator

from fusiond.config.model import WorkerGroup
from fusiond.config.release_marks import Marks, in_words, marks, switched
from fusiond.status_document import ReloadOutcome
from fusiond.supervise.process_table import ProcessTable
from fusiond.supervise.reload.outcome import Request
from fusiond.supervise.supervisord.process import Process
from fusiond.supervise.wanted_programs import part_of

#: who asks for a reload when a release was switched
RELEASE_WATCHER = "the release's change"
log = logging.getLogger(__name__)


class Releases:
    """What the paths lead to, and for which releases a reload was asked."""

    def __init__(self, processes: ProcessTable) -> None:
        self._processes = processes
        self._now: Marks = {}
        #: group → what its paths led to when a reload was asked for
        self._asked: dict[str, Marks] = {}
        self._last: ReloadOutcome | None = None

    def files(self) -> tuple[str, ...]:
        """What to watch, as globs."""
        return tuple(dict.fromkeys(glob.escape(path) for _, group in self._groups() for path in group.reload_on))

    def look(self) -> None:
        """See what the paths lead to now."""
        self._now = marks(path for _, group in self._groups() for path in group.reload_on)
        for process, group in self._groups():
            if process.release is None and process.ended:
                process.release = {}  # it could not start, and says nothing any more
            if process.release is not None:
                # A path that was added to a running group counts from now on.
                process.release = {path: self._now[path] for path in group.reload_on} | process.release

    def request(self, last: ReloadOutcome | None) -> Request | None:
        """
        The request for a reload of groups whose release was switched; None if there is nothing to ask for.

        Args:
            last: the last reload. After one that was not refused, what was refused before is tried again: that may have
                been the fault of the file.
        """
        if last is not self._last:
            self._last = last
            if last and last["result"] != "refused":
                self._asked.clear()
        if not self._to_ask():
            return None
        # What a group has said may be newer than the last look.
        self.look()
        groups = self._to_ask()
        if not groups:
            return None
        first, paths = next((words, group.reload_on) for words, group in groups.values())
        together = [name for name, (_, group) in groups.items() if group.reload_on == paths]
        self._asked |= {name: self._of(paths) for name in together}
        log.info("%s: loading the code of %s again", first, ", ".join(together))
        return Request(RELEASE_WATCHER, code=frozenset(together))

    def _to_ask(self) -> dict[str, tuple[str, WorkerGroup]]:
        """The groups whose release was switched and for which nobody has asked yet; each with what was switched."""
        found = {}
        for process, group in self._groups():
            before, now = process.release or {}, self._of(group.reload_on)
            if not switched(before, now):
                # Also of a link that is gone for a moment, which may be why the reload was refused.
                self._asked.pop(group.name, None)
            elif self._asked.get(group.name) != now:
                found[group.name] = in_words(before, now), group
        return found

    def _of(self, paths: tuple[str, ...]) -> Marks:
        return {path: self._now.get(path) for path in paths}

    def _groups(self) -> Iterator[tuple[Process, WorkerGroup]]:
        """The groups of this host that have `reload_on`, each with its process, unless an operator has stopped it."""
        groups = [group for group in self._processes.accepted.config.workers.values() if group.reload_on]
        if not groups:
            return
        wanted = self._processes.wanted
        by_part = {process.program.part: process for process in self._processes if process.program.name in wanted}
        for group in groups:
            process = by_part.get(part_of(group.name))
            if process is not None and not process.stopped_by_operator:
                yield process, group
