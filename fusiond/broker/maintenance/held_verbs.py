"""
The verbs of tasks whose jobs are held, since not every dispatcher of their queue can run them.

What Redis knows of them is described in lua/shared/held_tasks.lua.
"""

from __future__ import annotations

from fusiond.broker.call import Call, Word, number, numbers, plain, scripted
from fusiond.broker.hosts.host_records import Catalogue
from fusiond.broker.keys import VerbGroup
from fusiond.broker.queries import held_tasks
from fusiond.broker.records import HeldTask

#: jobs that one step ends, or lets go on; it takes some 10 ms
STEP = 200
_NOT_DECLARED = b'{"code":"TASK_NOT_FOUND","type":"","message":"no living daemon has its task","traceback":""}'


class HeldTaskVerbs(VerbGroup):
    """Verbs about tasks of which jobs are held."""

    def has_held_tasks(self, queue: str) -> Call[int]:
        """1 if there are such tasks in the queue."""
        return plain(number, "HEXISTS", self.keys.of(queue, "conf"), "held_tasks")

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
