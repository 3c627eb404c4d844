"""
The verbs of tasks whose jobs are held, since not every dispatcher of their queue can run them, or somebody has
suspended the task.

What Redis knows of them is described in lua/shared/held_tasks.lua.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from fusiond.broker.call import Call, Plan, Word, decoded, number, numbers, plain, scripted
from fusiond.broker.event_records import DAEMONS
from fusiond.broker.event_verbs import EventVerbs
from fusiond.broker.hosts.host_records import Catalogue
from fusiond.broker.queries import QueryVerbs, held_tasks
from fusiond.broker.records import HeldTask
from fusiond.errors import FusionError

#: jobs that one step ends, or lets go on; it takes some 10 ms
STEP = 200
#: begins the field of ns:meta for a task that the operator has suspended: in queues still to come, too
_MARK = "suspended:"
_NOT_DECLARED = b'{"code":"TASK_NOT_FOUND","type":"","message":"no living daemon has its task","traceback":""}'


class HeldTaskVerbs(QueryVerbs, EventVerbs):
    """Verbs about tasks of which jobs are held, and those that an operator or a file suspends."""

    def has_held_tasks(self, queue: str) -> Call[int]:
        """1 if there are such tasks in the queue."""
        return plain(number, "HEXISTS", self.keys.of(queue, "conf"), "held_tasks")

    def suspend_tasks(
        self, queue: str, tasks: Iterable[str], *, by: Literal["operator", "file"], on: bool | None
    ) -> Call[int]:
        """
        Have no job of these tasks claimed from the queue, or again. `on`, None: of these, and of no others.

        1: the first of them is suspended now, by whomever · 0: it is not · -1: there are too many such tasks.
        """
        word = "=" if on is None else int(on)
        return scripted("suspend_tasks", self.keys.root(queue), (by, word, *tasks), number)

    def suspend_task(self, task: str, *, on: bool, who: str = "") -> Plan[bool]:
        """The same by the operator in all queues, and those still to come; whether it is suspended in any now."""
        meta, field = self.keys.meta, f"{_MARK}{task}"
        # the mark before the list, as `suspend_all` does
        changed: int = yield plain(number, "HSET", meta, field, 1) if on else plain(number, "HDEL", meta, field)
        names: list[str] = yield self.queues()
        replies: list[int] = yield [self.suspend_tasks(name, [task], by="operator", on=on) for name in names]
        if -1 in replies:
            raise FusionError(f"task '{task}' is not suspended everywhere: jobs of 1,000 tasks are held in a queue")
        if changed:
            yield self.record_event(DAEMONS, "task.suspended" if on else "task.resumed", who, [("o", task)])
        return 1 in replies

    def suspended_by_operator(self) -> Call[list[str]]:
        """The tasks that the operator has suspended."""

        def tasks(names: list[bytes]) -> list[str]:
            return sorted(decoded(name)[len(_MARK) :] for name in names if name.startswith(_MARK.encode()))

        return plain(tasks, "HKEYS", self.keys.meta)

    def suspend_tasks_in(self, queues: Sequence[str]) -> Plan[None]:
        """Have new queues obey what the operator has said of tasks."""
        if tasks := (yield self.suspended_by_operator()):
            yield [self.suspend_tasks(name, tasks, by="operator", on=True) for name in queues]

    def look_at_held_tasks(self, queue: str, catalogue: Catalogue, fail_after_ms: int) -> Call[list[HeldTask]]:
        """The tasks of which jobs are held in the queue, and what is to be done about each, by who is alive."""
        groups = catalogue.runners(queue)
        words: list[Word] = [int(bool(groups)), fail_after_ms]
        for task in sorted(set().union(*groups)):
            words += (task, int(all(task in tasks for tasks in groups)))
        return scripted("held_tasks", self.keys.root(queue), words, held_tasks)

    def end_held(self, queue: str, held: HeldTask, rank: int, fail_after_ms: int) -> Call[list[int]]:
        """Do it for the next jobs, from `rank` on: how many there were, and the next rank; -1: those were all."""
        words = (held.task, held.what, rank, STEP, fail_after_ms, _NOT_DECLARED)
        return scripted("end_held", self.keys.root(queue), words, numbers(2))
