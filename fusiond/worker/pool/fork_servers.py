"""
The fork servers of one group: the serving one, from which children are forked, and those before and after it.

1. start    a fork server; another one when it has died, after longer pauses if they die soon
2. serve    once it has tried to load each task: children are forked from it. The tasks count as loaded when the first
            children serve, or one of them does not. If no task loads, there are no children, and another one is started
3. retry    the tasks that do not load, in a second fork server, after longer pauses each time
4. replace  the serving one by one that loads more tasks. The replaced one ends with its last child

A module that failed to import is not imported again in the same process: the first attempt may have left an entry in a
registry, or half a package, and the second one could fail because of that.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Collection, Mapping

from fusiond.worker.pool import pool_reports as reports
from fusiond.worker.pool.children import SLOWEST, Children, doubled
from fusiond.worker.pool.fork_server.launch import Launched, LaunchedFrom
from fusiond.worker.pool.fork_server.orphans import be_subreaper, end_children
from fusiond.worker.pool.fork_server.server_handle import ServerHandle
from fusiond.worker.pool.slots import Slot

log = logging.getLogger(__name__)

#: errors that may pass, whatever the file says: the start is tried again
_PASSING = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS})
#: s; within which the first children must serve, and between two looks whether they do
_FIRST_SERVE, _LOOK = 20.0, 0.005
#: s; the first pause after a fork server that loaded nothing
_EMPTY = 0.5
#: s; the first and the longest pause before tasks that do not load are tried again
RETRY, LONGEST_RETRY = 2.0, 300.0
#: how many tasks, and how many characters, a sentence about tasks that do not load may have
_MOST_NAMED, _MOST_WORDS = 10, 4000


class ForkServers:
    """The fork servers of one group."""

    def __init__(self, group: str, launch: Callable[[LaunchedFrom | None], Launched], children: Children) -> None:
        """
        Nothing is started yet.

        Args:
            group: its name.
            launch: starts a fork server as the current file says, and from the same release as the one of this origin.
            children: forked from the serving one.
        """
        self._group, self._launch, self._children = group, launch, children
        self._loop = asyncio.get_running_loop()
        #: the one that serves, or still loads the tasks; None: it has died, or could not be started
        self._serving: ServerHandle | None = None
        #: the one that tries what the serving one does not load; and the timer that starts the next fork server
        self._trial: ServerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        #: how many in a row died soon after their start; how many in a row loaded no task, or no further one
        self._deaths, self._tries = 0, 0
        #: loop seconds when the last one was replaced by one that loads more
        self._replaced_at = 0.0
        #: those that were replaced; each ends with its last child
        self._former: list[ServerHandle] = []
        #: slots of the first children that do not serve yet
        self._first: list[Slot] = []
        #: task → [code, message], of tasks that the serving one, or a child of it, could not load
        self.problems: dict[str, list[str]] = {}
        #: why no task can run; why one of the first children does not serve; why there is no fork server
        self.nothing_loads = self.start_failure = self._down = ""
        #: what the serving one was started from; None: none has been started yet
        self.origin: LaunchedFrom | None = None
        #: that of the last one that loaded every task. If it dies, the next one is started from there: the links may
        #: lead to a release by now that does not load
        self._good: LaunchedFrom | None = None
        self._table = b""
        #: whether the group is on trial: then the refused reload tells what does not load, and the log need not
        self.on_trial = False

    def start(self, launched: Launched | None = None) -> None:
        """Start a fork server, or take over one that was launched; children are forked once it is ready."""
        be_subreaper()
        self._timer, self._started_at = None, self._loop.time()
        try:
            good, self._good = self._good, None
            launched = launched or self._launch(good)
        except (OSError, LookupError) as error:
            self._down = f"its fork server cannot be started: {error}"
            reason = f"group '{self._group}': {self._down}"
            log.error("%s", reason)
            if getattr(error, "errno", None) not in _PASSING:
                self._children.report(reports.StartFailed(reason))
            self._start_again()
            return
        self._serving, self.origin = ServerHandle(launched, self._on_report), launched.origin

    def set_table(self, table: bytes) -> None:
        """Children forked from now on have this table."""
        self._table = table
        if self._serving:
            # A fork server that still loads was launched with an older table; it reads this one before it forks.
            self._serving.set_table(table)
        if self.problems and self._children.server:
            # What does not load may be corrected in it.
            self._stop_retry()
            self._timer = self._loop.call_later(0, self._retry)

    def close(self) -> None:
        """End all fork servers, and all other processes below this one."""
        self._stop_retry()
        self._first.clear()
        self._children.server = None
        for server in (*self._former, *([self._serving] if self._serving else [])):
            server.close()
        end_children()

    @property
    def positional(self) -> Mapping[str, str]:
        """Task → the names of what calls pass by position, with a comma between them, as far as it is known."""
        return self._serving.positional if self._serving else {}

    @property
    def unloaded(self) -> str:
        """Which tasks cannot run, and why; "" where all can."""
        return self.nothing_loads or sentence(self.problems)

    @property
    def trouble(self) -> str:
        """Why no child can be handed a job just now; "" where one can."""
        server = self._children.server
        if server is None:
            return self.nothing_loads or self._down or "its fork server loads the tasks"
        if server.silent:
            return "its fork server does not answer"
        if self._children.all_die_at_start:
            return self.start_failure or "its children die at their start; see its log"
        return ""

    # -- what they report ---------------------------------------------------------------------------------------------

    def _on_report(self, server: ServerHandle, report: reports.ServerReport) -> None:
        match report:
            case reports.Died(number, status, unforked, used):
                child = self._children.living[number]
                # What it has sent is read by then.
                self._children.on_died(number, status, unforked, used)
                if self._first:
                    how = f"ended with status {status}" if status >= 0 else f"was killed by signal {-status}"
                    said = child.socket.failure or "see its log"
                    why = f"cannot be forked: {unforked}" if unforked else f"{how} at its start; {said}"
                    self._note_failed_start(number, why)
                self._end_former()
            case reports.Left(number, names):
                self._children.say_left(number, names)
            case reports.Lost(hung):
                if server is self._serving:
                    self._stop_retry()
                    self._down = "its fork server does not answer"
                self._children.lose(server, hung=hung)
            case reports.ServerDied(reason, killed, survivors):
                self._children.judge_all_of(server, survivors)
                self._on_died(server, reason, killed=killed)
            case reports.Survivors(left, reaped):
                self._children.judge_survivors(left, reaped)
            case reports.Ready(problems, loaded):
                (self._on_trial_ready if server is self._trial else self._on_ready)(server, problems, loaded)
            case reports.Silent(silent) if server is self._serving:
                self._on_silent(silent=silent)

    def _on_ready(self, server: ServerHandle, problems: reports.Problems, loaded: int) -> None:
        """The server has tried each task. If none loads, no child is forked until a later server loads one."""
        if problems and not loaded:
            self._end_empty(server, problems)
            return
        self.nothing_loads = self.start_failure = self._down = ""
        self._good = None if problems else server.origin
        self._take_problems(problems)
        self._children.fork_from(server)
        self._retry_later()
        self._first = [child.slot for child in self._children.living.values() if child.server is server]
        self._await_first(server, self._loop.time() + _FIRST_SERVE)

    def _end_empty(self, server: ServerHandle, problems: reports.Problems) -> None:
        reason = f"no task loads: {sentence(problems)}"
        if reason != self.nothing_loads and not self.on_trial:
            log.error("group '%s': %s", self._group, reason)
        self._serving, self.nothing_loads = None, reason
        server.end()
        self._timer = self._loop.call_later(doubled(_EMPTY, self._tries, SLOWEST), self.start)
        self._tries += 1
        self._children.report(reports.TasksLoaded(problems))

    def _on_silent(self, *, silent: bool) -> None:
        """Its children may be killed with it soon: take back what they have not begun, and give them no more jobs."""
        if silent:
            log.warning("group '%s': the fork server does not answer; its children get no more jobs", self._group)
            self._children.take_back_all()
        else:
            self._children.report(reports.Room())

    def _on_died(self, server: ServerHandle, reason: str, *, killed: bool) -> None:
        if server is self._trial:
            # An import ended the process, or the kernel did.
            log.warning("the tasks that do not load were tried again, and %s", reason)
            self._trial = None
            self._retry_later()
        elif server is self._serving:
            log.error("group '%s': %s", self._group, reason)
            self._serving, self._down = None, reason
            # One that ended by itself while it loaded would do so again. A kill, by the OOM killer for example, is not
            # the fault of the file.
            if not (server.is_ready or killed):
                self._children.report(reports.StartFailed(f"group '{self._group}': {reason}"))
            self._start_again()
        else:
            log.error("group '%s': a replaced fork server: %s", self._group, reason)
            self._former.remove(server)

    def _start_again(self) -> None:
        """At once if the last one lived long; otherwise after a pause, which is longer each time."""
        self._deaths = self._deaths + 1 if self._loop.time() - self._started_at < SLOWEST else 0
        pause = doubled(0.1, self._deaths - 1, SLOWEST) if self._deaths > 1 else 0.0
        self._timer = self._loop.call_later(pause, self.start)

    # -- the first children -------------------------------------------------------------------------------------------

    def _await_first(self, server: ServerHandle, deadline: float) -> None:
        """Report once for each fork server that the tasks are loaded, when no first child is waited for any more."""
        if server is not self._children.server:
            return
        self._first = [slot for slot in self._first if not (slot.retiring or slot.page.pid)]
        if self._first and self._loop.time() > deadline:
            self._note_failed_start(self._first[0].number, f"has not said within {_FIRST_SERVE:g} s that it serves")
        if self._first:
            self._loop.call_later(_LOOK, self._await_first, server, deadline)
        else:
            self._children.report(reports.TasksLoaded(self.problems))
            self._children.report(reports.Room())

    def _note_failed_start(self, number: int, why: str) -> None:
        """One of the first children does not serve: do not wait for the others."""
        if any(slot.number == number and not (slot.retiring or slot.page.pid) for slot in self._first):
            self._first.clear()
            self.start_failure = f"group '{self._group}': a child {why}"
            log.error("%s", self.start_failure)

    # -- what does not load -------------------------------------------------------------------------------------------

    def _take_problems(self, problems: reports.Problems) -> None:
        """Store the problems of the fork server that serves now."""
        self._stop_retry()
        self.problems = {}
        for task, problem in problems.items():
            self.note_problem(task, *problem)

    def note_problem(self, task: str, code: str, message: str) -> None:
        """The fork server, or a child that was forked from it, could not load the task."""
        if task not in self.problems:
            if not self.problems and self._loop.time() > self._replaced_at + LONGEST_RETRY:
                self._tries = 0
            if not self.on_trial:
                log.error("task '%s' cannot run: %s", task, message, extra={"code": code})
            self.problems[task] = [code, message]
            self._retry_later()

    def keep(self, tasks: Collection[str]) -> None:
        """Only these tasks are in the file now."""
        self.problems = {task: problem for task, problem in self.problems.items() if task in tasks}

    def _retry_later(self) -> None:
        if self.problems and self._children.server and not (self._timer or self._trial):
            self._timer = self._loop.call_later(doubled(RETRY, self._tries, LONGEST_RETRY), self._retry)
            self._tries += 1

    def _retry(self) -> None:
        self._timer = None
        if self.problems:
            try:
                self._trial = ServerHandle(self._launch(None), self._on_report)
            except (OSError, LookupError) as error:
                log.warning("the tasks that do not load could not be tried again: %s", error)
                self._retry_later()

    def _stop_retry(self) -> None:
        self._tries = 0
        self._end_trial()
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _end_trial(self) -> None:
        if self._trial:
            self._trial.end()
            self._trial = None

    def _on_trial_ready(self, server: ServerHandle, problems: reports.Problems, loaded: int) -> None:
        """Let it serve if it loads more tasks: the children of the one before end when they have no job."""
        again = sorted(self.problems.keys() - problems.keys())
        if not (loaded and again) or problems.keys() - self.problems.keys():
            self.problems |= {task: [*problem] for task, problem in problems.items() if task in self.problems}
            self._end_trial()
            self._retry_later()
            return
        log.info("%s can run again: a new fork server loads it", _named(again))
        assert self._serving  # noqa: S101 - nothing is tried again beside one that is lost
        self._former.append(self._serving)
        self._serving, self._trial, self.origin = server, None, server.origin
        self._good = None if problems else server.origin
        server.set_table(self._table)
        tries, self._replaced_at = self._tries, self._loop.time()
        self._take_problems(problems)
        # A task that loads there, and that no child can run, is a problem again soon: the pauses must grow.
        self._tries = max(tries, self._tries)
        self._children.replace(server)
        self._end_former()
        self._children.report(reports.TasksLoaded(problems))

    def _end_former(self) -> None:
        """End the replaced fork servers that have no children any more."""
        for server in [each for each in self._former if not self._children.of(each)]:
            self._former.remove(server)
            server.end()


def sentence(problems: reports.Problems) -> str:
    """Each reason why tasks cannot run, with its tasks; at most _MOST_WORDS characters."""
    tasks: dict[str, list[str]] = {}
    for task, (_, message) in problems.items():
        tasks.setdefault(message, []).append(task)
    text = "; ".join(f"{message} ({_named(names)})" for message, names in tasks.items())
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}…"


def _named(tasks: list[str]) -> str:
    more = f" and {len(tasks) - _MOST_NAMED} more" if len(tasks) > _MOST_NAMED else ""
    return f"task {', '.join(tasks[:_MOST_NAMED])}{more}"
